internal import Bytes
package import Foundation
package import Signing
package import UploadCore
package import UploadModel

/// Multipart uploads of objects, for every vendor's API.
package struct MultipartUploads: Sendable {
    private let uploads: UploadService
    /// Stores and lists parts.
    package let parts: PartService

    package init(uploads: UploadService, parts: PartService) {
        self.uploads = uploads
        self.parts = parts
    }

    /// Creates a multipart upload.
    ///
    /// - Parameters:
    ///   - name: Name of the future object.
    ///   - headers: Header fields of the object.
    ///   - checksum: The requested checksum, if any.
    ///   - keptFor: Seconds for which it is kept at least, where uploads expire.
    ///   - vendor: The vendor whose API the request uses.
    ///   - grant: What the upload may be.
    /// - Returns: The recorded upload.
    /// - Throws: As `UploadService.create`.
    package func begin(
        _ name: ObjectName,
        _ headers: S3ObjectHeaders,
        checksum: ObjectChecksum? = nil,
        keptFor: TimeInterval? = nil,
        for vendor: Vendor = .aws,
        under grant: Grant
    ) async throws(UploadError) -> Upload {
        var new = headers.upload(name, headers.attributes(checksum: checksum), takesParts: true, for: vendor)
        new.keptFor = keptFor
        return try await uploads.create(new, under: grant)
    }

    /// The upload with an id, if it belongs to this object.
    ///
    /// - Parameters:
    ///   - text: The id from the client.
    ///   - name: Name of the object.
    ///   - isOpen: Whether it must still be open, not completed.
    /// - Returns: The recorded upload.
    /// - Throws: `.notFound`, `.storageFailure`.
    package func find(
        _ text: String,
        of name: ObjectName,
        isOpen: Bool = true
    ) async throws(UploadError) -> Upload {
        guard let id = UploadID(text) else { throw Self.missing }
        let upload = try await uploads.recorded(id)
        guard Self.belongs(upload, to: name, isOpen: isOpen) else { throw Self.missing }
        return upload
    }

    /// The open upload with an id, if it belongs to this object, and its part of a number.
    ///
    /// - Throws: `.notFound`, `.storageFailure`.
    package func find(
        _ text: String,
        of name: ObjectName,
        withPart number: Int
    ) async throws(UploadError) -> (upload: Upload, part: PartRecord?) {
        guard let id = UploadID(text) else { throw Self.missing }
        let found = try await parts.recorded(id, withPart: number)
        guard Self.belongs(found.upload, to: name, isOpen: true) else { throw Self.missing }
        return found
    }

    private static func belongs(_ upload: Upload, to name: ObjectName, isOpen: Bool) -> Bool {
        upload.takesParts && upload.objectName == name
            && (upload.state == .open || !isOpen && upload.state == .completed)
    }

    private static let missing = UploadError(.notFound, "There is no multipart upload with this id for this key.")

    /// Aborts an upload unless it was completed meanwhile; its object then stays.
    ///
    /// - Parameter upload: The recorded upload.
    /// - Throws: `.notFound`; as `UploadService.terminate`.
    package func abort(_ upload: Upload) async throws(UploadError) {
        do throws(UploadError) {
            try await uploads.terminate(upload.id, .open)
        } catch  where error.code == .notOpen {
            throw Self.missing
        }
    }

    /// Stores a part.
    ///
    /// - Parameters:
    ///   - number: See `PartRecord.numbers`.
    ///   - found: The recorded upload and its part with this number.
    ///   - content: The bytes.
    /// - Returns: The recorded part.
    /// - Throws: As `PartService.putPart`.
    package func put(
        _ number: Int,
        of found: (upload: Upload, part: PartRecord?),
        _ content: ObjectContent
    ) async throws(UploadError) -> PartRecord {
        try await parts.putPart(
            number,
            of: found.upload,
            replacing: found.part,
            content,
            minimumSize: Self.minimumPartSize(of: found.upload)
        )
    }

    /// Minimum size of every part but the last, in bytes, as the client of this upload expects it.
    package static func minimumPartSize(of upload: Upload) -> Int64 {
        profile(of: upload).minimumPartSize
    }

    private static func profile(of upload: Upload) -> VendorProfile {
        (Vendor(storeName: upload.dialect) ?? .aws).profile
    }

    /// Completes the upload and creates the object.
    ///
    /// - Parameters:
    ///   - upload: The recorded upload.
    ///   - parts: In the order of part numbers.
    ///   - condition: Condition on an existing object with the same name.
    ///   - check: Checks the checksum of the object and its parts before completion.
    /// - Returns: The completed upload.
    /// - Throws: As `PartService.completeParts`; `.finishing` if it takes long; errors from `check`.
    package func complete(
        _ upload: Upload,
        of parts: [NamedPart],
        if condition: ObjectCondition? = nil,
        check: (ObjectChecksum?, [PartRecord]) throws(UploadError) -> Void = { _, _ in }
    ) async throws(UploadError) -> Upload {
        let object = try await self.parts.completeParts(
            parts,
            of: upload.id,
            minimumSize: Self.minimumPartSize(of: upload),
            if: condition
        ) { attributes, records throws(UploadError) in
            attributes.entityTag = MultipartDigests.entityTag(records.map(\.md5))
            attributes.crc64 = MultipartDigests.crc64(records.map { ($0.crc64, $0.size) })
            if attributes.checksum == nil, let usual = Self.profile(of: upload).usualChecksum {
                attributes.checksum = ObjectChecksum(usual)
                attributes.isChecksumUsual = true
            }
            attributes.checksum = attributes.checksum.flatMap { MultipartDigests.checksum($0, of: records) }
            attributes.partChecksums = attributes.checksum.flatMap { MultipartDigests.kept($0, of: records) }
            try check(attributes.checksum, records)
        }
        guard object.state == .completed else {
            throw UploadError(.finishing, "All parts are stored and are still being joined; try again.")
        }
        // It may have been complete before, by another list.
        let named = parts.compactMap { Hexadecimal.decode($0.entityTag.lowercasedASCII()) }
        if let tag = object.attributes?.entityTag, tag != MultipartDigests.entityTag(named) {
            throw UploadError(
                .invalidParts(.unknown(number: parts.first?.number ?? 1)),
                "The object was completed from other parts than these."
            )
        }
        return object
    }
}
