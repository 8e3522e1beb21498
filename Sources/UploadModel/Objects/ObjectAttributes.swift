package import Foundation

/// Metadata of an object, stored with its `Upload` and `Media`.
package struct ObjectAttributes: Sendable, Equatable, Codable {
    /// Header fields that are returned with the object, by lower-case name, such as `cache-control`.
    package var headers: [String: String]
    /// Tags that a client set, by name.
    package var tags: [String: String]
    /// The entity tag without quotes; `nil` until it is known.
    ///
    /// The hexadecimal MD5 of the bytes; for an object made of parts, the MD5 of their MD5s, `-` and the number of
    /// parts.
    package var entityTag: String?
    /// CRC-64/XZ of the bytes, as OSS and COS return it.
    package var crc64: UInt64?
    /// The checksum that the client requested or announced, or the usual one of its API.
    package var checksum: ObjectChecksum?
    /// Whether no client asked for the checksum of an open upload; `nil` means no.
    package var isChecksumUsual: Bool?
    /// The checksums of all parts, in order, for an object with a composite checksum; `nil` if they are not kept.
    package var partChecksums: Data?
    /// `nil` if the object was not uploaded in parts.
    package var partSizes: PartSizes?
    /// Whether bytes can be appended; `nil` means no.
    package var isAppendable: Bool?
    /// The parts of an open upload whose completion was started.
    package var completing: PartNumbers?
    /// Whether the parts of an open upload were joined but its completion was then refused.
    ///
    /// Such an upload completes only when a client asks again. `nil` means no.
    package var isHeld: Bool?
    /// For an open upload: the condition that must hold when it becomes the object.
    package var condition: ObjectCondition?

    package init(headers: [String: String] = [:], tags: [String: String] = [:], checksum: ObjectChecksum? = nil) {
        self.headers = headers
        self.tags = tags
        self.checksum = checksum
    }

    /// The parts are not joined after all, and can change.
    package mutating func takeBackCompletion() {
        completing = nil
        condition = nil
        partChecksums = nil
        if isChecksumUsual == true { checksum = nil }
        isChecksumUsual = nil
    }

    /// The checksum of one part of an object with a composite checksum, if it is kept.
    package func checksum(ofPart number: Int) -> ObjectChecksum? {
        guard let checksum, checksum.isComposite, let all = partChecksums, let count = partSizes?.count, number >= 1,
            number <= count, all.count % count == 0
        else { return nil }
        let size = all.count / count
        return ObjectChecksum(checksum.algorithm, value: [UInt8](all.dropFirst((number - 1) * size).prefix(size)))
    }
}

/// A checksum of an object, by an algorithm that the client chose ("Checking object integrity", Amazon S3 User Guide).
package struct ObjectChecksum: Sendable, Equatable, Codable {
    package enum Algorithm: String, Sendable, CaseIterable, Codable {
        case crc32, crc32c, crc64nvme, sha1, sha256
    }

    package var algorithm: Algorithm
    /// Whether it is a checksum of the parts' checksums instead of the bytes.
    package var isComposite: Bool
    /// The digest, as long as the algorithm makes it; `nil` until it is known.
    package var value: [UInt8]?

    package init(_ algorithm: Algorithm, isComposite: Bool = false, value: [UInt8]? = nil) {
        self.algorithm = algorithm
        self.isComposite = isComposite
        self.value = value
    }
}

/// A precondition on the current object with a name, for replacing or removing it.
package enum ObjectCondition: Sendable, Equatable, Codable {
    /// There is no such object.
    case isAbsent
    /// There is such an object.
    case isPresent
    /// The object has this entity tag, without quotes.
    case hasTag(String)

    package func holds(for object: Media?) -> Bool {
        switch self {
        case .isAbsent: object == nil
        case .isPresent: object != nil
        case .hasTag(let tag): object?.attributes?.entityTag == tag
        }
    }
}

extension ObjectCondition {
    /// Checks the current object against the condition.
    ///
    /// - Parameter object: The current object, or `nil`.
    /// - Throws: `.conditionFailed`.
    package func check(_ object: Media?) throws(UploadError) {
        guard holds(for: object) else {
            throw UploadError(
                .conditionFailed,
                object == nil
                    ? "There is no longer an object with this key."
                    : "There is another object with this key."
            )
        }
    }
}
