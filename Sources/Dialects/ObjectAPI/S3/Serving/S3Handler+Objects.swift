internal import Bytes
internal import Foundation
internal import HTTPWire
internal import UploadCore

/// Objects, whole.
extension S3Handler {
    func put(_ name: ObjectName, _ call: S3Call) async throws(S3Error) -> Response {
        let condition = try call.writeCondition()
        let body = try call.body()
        let headers = try S3ObjectHeaders(call.head)
        let object = try await meeting(condition, name) { () async throws(S3Error) in
            try await store(name, headers, body, condition, under: call.grant, for: call.dialect)
        }
        var response = Response(200, ["ETag": object.quotedTag(call.dialect)])
        call.dialect.tell(md5: object.attributes?.entityTag, in: &response.fields)
        call.dialect.tell(crc64: object.attributes?.crc64, in: &response.fields)
        object.attributes?.checksum?.add(to: &response.fields, parts: nil)
        response.trace.uploadID = object.id.text
        return await answer(call.callback, of: StoredObject(name, object, call), with: response)
    }

    /// Does what `condition` must allow; where there is no object that could meet it, that is what the answer says ("How to prevent
    /// object overwrites with conditional writes", Amazon S3 User Guide).
    ///
    /// - Throws: `NoSuchKey`; what `body` throws.
    func meeting<Success>(
        _ condition: ObjectCondition?,
        _ name: ObjectName,
        _ body: () async throws(S3Error) -> Success
    ) async throws(S3Error) -> Success {
        do throws(S3Error) {
            return try await body()
        } catch {
            guard error.code == .preconditionFailed, case .hasTag? = condition else { throw error }
            let object = try await core { () async throws(UploadError) in try await service.object(name) }
            throw object == nil ? S3Error(.noSuchKey) : error
        }
    }

    /// Stores an object whose bytes come at once.
    func store(
        _ name: ObjectName,
        _ headers: S3ObjectHeaders,
        _ content: S3Content,
        _ condition: ObjectCondition?,
        under grant: Grant,
        for dialect: ObjectDialect,
        isAppendable: Bool = false
    ) async throws(S3Error) -> Upload {
        var attributes = headers.attributes(checksum: content.checksum.map { ObjectChecksum($0) })
        attributes.condition = condition
        attributes.isAppendable = isAppendable ? true : nil
        let new = headers.upload(name, attributes, length: content.object.size, for: dialect)
        let object = content.object
        return try await core { () async throws(UploadError) in
            try await service.putObject(new, under: grant, object) { attributes, digests in
                attributes.entityTag = Hexadecimal.encode(digests.md5)
                attributes.crc64 = digests.crc64
                attributes.checksum?.value = digests.checksum
            }
        }
    }

    // MARK: Reading

    func get(_ name: ObjectName, _ reading: S3Reading, _ call: S3Call) async throws(S3Error) -> Response {
        let isHead = call.head.method == .head
        let (media, blob) = try await core { () async throws(UploadError) in try await service.openObject(name) }
        let modified = Int64(media.createdAt.timeIntervalSince1970)
        var fields: HTTPFields = [
            "ETag": media.quotedTag(call.dialect), "Last-Modified": HTTPDate.format(modified), "Accept-Ranges": "bytes",
        ]
        try Self.check(call.head, media, fields)
        for (name, value) in media.attributes?.headers ?? [:] {
            if let field = FieldName(Self.spelling(name)) { fields[field] = call.dialect.told(value, of: name) }
        }
        fields["Content-Type"] = media.contentType ?? "binary/octet-stream"
        for (name, value) in reading.overrides {
            if let name = FieldName(Self.spelling(name)) { fields[name] = value }
        }
        // The bytes are somebody else's: no page of ours may be made of them.
        fields["X-Content-Type-Options"] = "nosniff"
        fields["Content-Security-Policy"] = "default-src 'none'; sandbox"
        call.dialect.tell(crc64: media.attributes?.crc64, in: &fields)
        if call.dialect == .oss {
            fields["x-oss-object-type"] = media.attributes.map { $0.typeOfOSS }
            if media.attributes?.isAppendable == true { fields["x-oss-next-append-position"] = String(media.size) }
        }
        if let tags = media.attributes?.tags, !tags.isEmpty { fields["x-amz-tagging-count"] = String(tags.count) }
        var response = Response(200, fields)
        let range = try Self.range(reading, of: media, call, &response)
        if reading.wantsChecksum, range.lowerBound == 0, range.upperBound == media.size {
            media.attributes?.checksum?.add(to: &response.fields, parts: media.attributes?.partSizes?.count)
        }
        let content = content
        response.content = try await core { () async throws(UploadError) in try await content(blob, range, isHead) }
        response.trace.uploadID = media.id.text
        return response
    }

    /// A name as it is usually spelt, for clients that look for it so: `Content-Type`; those of users stay as they are.
    private static func spelling(_ name: String) -> String {
        guard !name.hasPrefix("x-") else { return name }
        return name.split(separator: "-").map { $0.prefix(1).uppercased() + $0.dropFirst() }.joined(separator: "-")
    }

    /// - Throws: 304 and 412, with what these answers tell of the object.
    private static func check(_ head: RequestHead, _ media: Media, _ fields: HTTPFields) throws(S3Error) {
        let outcome = EntityTagConditions.evaluate(
            head.fields,
            method: head.method,
            tag: EntityTag(media.quotedTag),
            lastModified: Int64(media.createdAt.timeIntervalSince1970)
        )
        switch outcome {
        case .proceed: return
        case .notModified: throw S3Error(.notModified, fields: fields)
        case .preconditionFailed: throw S3Error(.preconditionFailed)
        }
    }

    /// The bytes that are asked for; the answer is told which.
    private static func range(
        _ reading: S3Reading,
        of media: Media,
        _ call: S3Call,
        _ response: inout Response
    ) throws(S3Error) -> Range<Int64> {
        let size = media.size
        if let number = reading.part {
            let sizes = media.attributes?.partSizes ?? [size]
            guard number <= sizes.count else { throw S3Error(.invalidPartNumber) }
            let start = sizes.prefix(number - 1).reduce(0, +)
            let part = start..<start + sizes[number - 1]
            if media.attributes?.partSizes != nil { response.fields["x-amz-mp-parts-count"] = String(sizes.count) }
            response.status = 206
            if !part.isEmpty { response.fields["Content-Range"] = ByteRanges.contentRange(part, size: size) }
            return part
        }
        let isWanted = EntityTagConditions.honoursRange(call.head.fields, tag: EntityTag(media.quotedTag))
        switch call.dialect.range(isWanted ? reading.range : nil, size: size, call.request.head) {
        case .whole: return 0..<size
        case .single(let part):
            response.status = 206
            response.fields["Content-Range"] = ByteRanges.contentRange(part, size: size)
            return part
        case .unsatisfiable:
            throw S3Error(
                .invalidRange,
                details: [S3Error.Detail("ActualObjectSize", String(size))],
                fields: ["Content-Range": ByteRanges.unsatisfiedContentRange(size: size)]
            )
        }
    }

    func attributes(
        of name: ObjectName,
        _ query: S3AttributesQuery,
        _ call: S3Call
    ) async throws(S3Error) -> Response {
        let media = try await core { () async throws(UploadError) in try await service.object(name) }
        guard let media else { throw S3Error(.noSuchKey) }
        let modified = HTTPDate.format(Int64(media.createdAt.timeIntervalSince1970))
        try Self.check(call.head, media, ["ETag": media.quotedTag(call.dialect), "Last-Modified": modified])
        var response = Self.document(query.document(media.attributes, size: media.size))
        response.fields["Last-Modified"] = modified
        return response
    }

    // MARK: Removing

    /// An object that is not there meets no condition.
    func delete(_ name: ObjectName, if condition: ObjectCondition? = nil) async throws(S3Error) -> Response {
        let isRemoved = try await core { () async throws(UploadError) in
            try await service.removeObject(name, if: condition)
        }
        // Of one that is not there the answer is the same, if its bucket is.
        if !isRemoved { try await requireBucket(name.bucket) }
        return Response(204)
    }

    func delete(from bucket: String, _ call: S3Call) async throws(S3Error) -> Response {
        let deletion = try S3Deletion(document: try await call.collect(limit: S3Documents.Limit.deletion))
        var outcomes: [S3DeletionOutcome] = []
        for entry in deletion.entries {
            let name = ObjectName(bucket: bucket, key: entry.key)
            do throws(S3Error) {
                if let problem = entry.problem { throw problem }
                try call.authorize(.deleteObject, name)
                _ = try await delete(name, if: entry.condition)
                outcomes.append(S3DeletionOutcome(key: entry.key))
            } catch {
                outcomes.append(S3DeletionOutcome(key: entry.key, error: error))
            }
        }
        return Self.document(
            S3DeletionOutcome.document(
                outcomes,
                isQuiet: deletion.isQuiet,
                encodesURL: try S3Parameters(call.head.target).encodesURL(),
                for: call.dialect
            )
        )
    }

    // MARK: Copying

    func copy(_ source: S3CopySource, to name: ObjectName, _ call: S3Call) async throws(S3Error) -> Response {
        try await requireBucket(source.object.bucket)
        let replacesMetadata = try S3ObjectHeaders.replaces(S3ObjectHeaders.metadataDirective, in: call.head)
        let replacesTags = try S3ObjectHeaders.replaces(S3ObjectHeaders.taggingDirective, in: call.head)
        guard source.object != name || replacesMetadata || replacesTags else {
            throw S3Error(
                .invalidRequest,
                "This copy request is illegal because it is trying to copy an object to itself without changing the "
                    + "object's metadata or tags."
            )
        }
        let condition = try call.writeCondition()
        let (media, bytes) = try await read(source, nil)
        var headers = try S3ObjectHeaders(call.head)
        if !replacesMetadata {
            headers.contentType = media.contentType
            headers.headers = media.attributes?.headers ?? [:]
        }
        if !replacesTags { headers.tags = media.attributes?.tags ?? [:] }
        // The request itself brings neither: what is copied must be what the caller may write.
        try call.caller.check(
            ObjectAccess(
                .putObject,
                bucket: name.bucket,
                key: name.key,
                contentLength: media.size,
                contentType: headers.contentType
            )
        )
        let content = try call.content(copying: bytes, size: media.size)
        let object = try await meeting(condition, name) { () async throws(S3Error) in
            try await store(name, headers, content, condition, under: call.grant, for: call.dialect)
        }
        var response = Self.document(
            S3Uploads.copied(
                entityTag: object.attributes?.entityTag ?? "",
                modifiedAt: object.endedAt ?? object.updatedAt,
                checksum: object.attributes?.checksum,
                for: call.dialect
            )
        )
        if call.dialect != .s3 { response.fields["ETag"] = object.quotedTag(call.dialect) }
        call.dialect.tell(crc64: object.attributes?.crc64, in: &response.fields)
        return response
    }

    /// Opens the source of a copy, if it is as the request expects.
    func read(
        _ source: S3CopySource,
        _ range: ClosedRange<Int64>?
    ) async throws(S3Error) -> (Media, any ByteSource) {
        try await core { () async throws(UploadError) in
            try await service.readObject(source.object) { media throws(UploadError) in
                try source.check(media)
                guard let range else { return 0..<media.size }
                guard range.upperBound < media.size else {
                    throw UploadError(
                        .invalidRequest,
                        "",
                        cause: S3Error.argument(
                            "x-amz-copy-source-range",
                            "bytes=\(range.lowerBound)-\(range.upperBound)",
                            "Range specified is not valid for source object of size: \(media.size)"
                        )
                    )
                }
                return range.lowerBound..<range.upperBound + 1
            }
        }
    }

    // MARK: Tags

    func tagging(_ call: S3Call) async throws(S3Error) -> Response {
        switch call.operation {
        case .getObjectTagging(let name):
            let media = try await core { () async throws(UploadError) in try await service.object(name) }
            guard let media else { throw S3Error(.noSuchKey) }
            return Self.document(S3Tagging.document(media.attributes?.tags ?? [:], for: call.dialect))
        case .putObjectTagging(let name):
            let tags = try S3Tagging.tags(document: try await call.collect(limit: S3Documents.Limit.tagging))
            try await setTags(of: name, to: tags)
            return Response(200)
        case .deleteObjectTagging(let name):
            try await setTags(of: name, to: [:])
            return Response(204)
        default: throw S3Error(.methodNotAllowed)
        }
    }

    private func setTags(of name: ObjectName, to tags: [String: String]) async throws(S3Error) {
        try await core { () async throws(UploadError) in try await service.setTags(of: name, to: tags) }
    }
}

extension S3CopySource {
    /// - Throws: With `PreconditionFailed` as its cause.
    fileprivate func check(_ media: Media) throws(UploadError) {
        let outcome = EntityTagConditions.evaluate(
            conditions,
            method: .get,
            tag: EntityTag(media.quotedTag),
            lastModified: Int64(media.createdAt.timeIntervalSince1970)
        )
        guard outcome == .proceed else {
            throw UploadError(.conditionFailed, "The source of the copy is not as it was expected to be.")
        }
    }
}

extension Media {
    /// The entity tag of the object as it is recorded, for comparisons; of other media none is needed here.
    var quotedTag: String { quotedTag(.s3) }

    func quotedTag(_ dialect: ObjectDialect) -> String { dialect.quoted(attributes?.entityTag ?? id.text) }
}

extension ObjectAttributes {
    /// How the object came, in OSS's words.
    var typeOfOSS: String {
        if isAppendable == true { return "Appendable" }
        return partSizes == nil ? "Normal" : "Multipart"
    }
}

extension Upload {
    func quotedTag(_ dialect: ObjectDialect) -> String { dialect.quoted(attributes?.entityTag ?? id.text) }
}
