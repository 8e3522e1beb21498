package import UploadCore

/// Multipart uploads of objects, whoever asks for them in whatever words.
package struct MultipartUploads: Sendable {
    private let service: UploadService

    package init(service: UploadService) { self.service = service }

    /// Begins one.
    ///
    /// - Parameters:
    ///   - name: Of the object that it becomes.
    ///   - headers: What is said of the object.
    ///   - checksum: That it shall have, if one was asked for.
    ///   - dialect: Of whoever asks.
    ///   - grant: What it may be.
    /// - Returns: As it is recorded.
    /// - Throws: As `UploadService.create`.
    package func begin(
        _ name: ObjectName,
        _ headers: S3ObjectHeaders,
        checksum: ObjectChecksum? = nil,
        for dialect: ObjectDialect = .s3,
        under grant: Grant
    ) async throws(UploadError) -> Upload {
        let new = headers.upload(name, headers.attributes(checksum: checksum), takesParts: true, for: dialect)
        return try await service.create(new, under: grant)
    }

    /// The upload with an id, if it is one of this object.
    ///
    /// - Parameters:
    ///   - text: As the client names it.
    ///   - name: Of the object.
    ///   - isOpen: It must be open, and not complete.
    /// - Returns: As it is recorded.
    /// - Throws: `.notFound`, `.storageFailure`.
    package func find(
        _ text: String,
        of name: ObjectName,
        isOpen: Bool = true
    ) async throws(UploadError) -> Upload {
        guard let id = UploadID(text) else { throw Self.missing }
        let upload = try await service.recorded(id)
        guard upload.takesParts, upload.objectName == name,
            upload.state == .open || !isOpen && upload.state == .completed
        else { throw Self.missing }
        return upload
    }

    package static let missing = UploadError(
        .notFound,
        "There is no multipart upload with this id for this key."
    )

    /// Stores a part.
    ///
    /// - Parameters:
    ///   - number: See `PartRecord.numbers`.
    ///   - upload: As it is recorded.
    ///   - content: The bytes.
    /// - Returns: As it is recorded.
    /// - Throws: As `UploadService.putPart`.
    package func put(
        _ number: Int,
        of upload: Upload,
        _ content: ObjectContent
    ) async throws(UploadError) -> PartRecord {
        try await service.putPart(number, of: upload.id, content, minimumSize: Self.minimumPartSize(of: upload))
    }

    /// Bytes that each part but the last one must have, as the client of an upload knows.
    package static func minimumPartSize(of upload: Upload) -> Int64 {
        (ObjectDialect(rawValue: upload.dialect) ?? .s3).minimumPartSize
    }

    /// Makes the object.
    ///
    /// - Parameters:
    ///   - upload: As it is recorded.
    ///   - parts: In the order of their numbers.
    ///   - condition: What must hold of the object that has the name.
    ///   - check: Looks at the checksum of the object and its parts before it is made.
    /// - Returns: Completed.
    /// - Throws: As `UploadService.completeParts`; `.finishing` if it takes long; what `check` throws.
    package func complete(
        _ upload: Upload,
        of parts: [NamedPart],
        if condition: ObjectCondition? = nil,
        check: (ObjectChecksum?, [PartRecord]) throws(UploadError) -> Void = { _, _ in }
    ) async throws(UploadError) -> Upload {
        let object = try await service.completeParts(
            parts,
            of: upload.id,
            minimumSize: Self.minimumPartSize(of: upload),
            if: condition
        ) { attributes, records throws(UploadError) in
            attributes.entityTag = MultipartDigests.entityTag(records.map(\.md5))
            attributes.crc64 = MultipartDigests.crc64(records.map { ($0.crc64, $0.size) })
            attributes.checksum = attributes.checksum.flatMap { MultipartDigests.checksum($0, of: records) }
            try check(attributes.checksum, records)
        }
        guard object.state == .completed else {
            throw UploadError(.finishing, "All parts are stored, and are still being put together; ask again.")
        }
        return object
    }
}
