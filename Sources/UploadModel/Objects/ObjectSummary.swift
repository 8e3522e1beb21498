package import Foundation

/// What a listing tells of an object.
///
/// A listing reads a thousand at once, so it has nothing that takes long to read.
package struct ObjectSummary: Sendable, Equatable {
    package let id: UploadID
    package let key: String
    /// Bytes.
    package let size: Int64
    package let createdAt: Date
    /// `ObjectAttributes.entityTag`.
    package let entityTag: String?
    package let checksum: ObjectChecksum?
    package let isAppendable: Bool
    /// Whether it was uploaded in parts.
    package let hasParts: Bool

    package init(
        id: UploadID,
        key: String,
        size: Int64,
        createdAt: Date,
        entityTag: String?,
        checksum: ObjectChecksum?,
        isAppendable: Bool,
        hasParts: Bool
    ) {
        self.id = id
        self.key = key
        self.size = size
        self.createdAt = createdAt
        self.entityTag = entityTag
        self.checksum = checksum
        self.isAppendable = isAppendable
        self.hasParts = hasParts
    }

    /// - Parameter media: An object: it has a key.
    package init(_ media: Media) {
        self.init(
            id: media.id,
            key: media.key ?? "",
            size: media.size,
            createdAt: media.createdAt,
            entityTag: media.attributes?.entityTag,
            checksum: media.attributes?.checksum,
            isAppendable: media.attributes?.isAppendable ?? false,
            hasParts: media.attributes?.partSizes != nil
        )
    }
}
