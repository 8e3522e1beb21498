internal import Bytes
internal import Foundation
internal import HTTPWire
internal import ObjectGrants
internal import Signing
internal import UploadCore
internal import UploadModel

/// Operations on whole objects.
extension ObjectStoreHandler {
    func put(_ name: ObjectName, _ call: ObjectCall) async throws(ObjectError) -> Response {
        let write = call.command.write
        let body = try call.body()
        let object = try await meeting(write.condition, name) { () async throws(ObjectError) in
            try await store(name, write.headers, body, write.condition, under: call.grant, for: call.vendor)
        }
        var response = Response(200, ["ETag": object.quotedTag(call.vendor)])
        call.vendor.report(md5: object.attributes?.entityTag, in: &response.fields)
        call.vendor.report(crc64: object.attributes?.crc64, in: &response.fields)
        object.attributes?.checksum?.add(to: &response.fields, parts: nil)
        response.trace.note(upload: object.id.text, isMedia: true)
        return await self.response(call.callback, of: StoredObject(name, object, call), with: response)
    }

    /// Runs `body`, which must satisfy `condition`.
    ///
    /// If no object exists that could satisfy it, the response is 404 ("How to prevent object overwrites with
    /// conditional writes", Amazon S3 User Guide).
    ///
    /// - Throws: `NoSuchKey`; errors of `body`.
    func meeting<Success>(
        _ condition: ObjectCondition?,
        _ name: ObjectName,
        _ body: () async throws(ObjectError) -> Success
    ) async throws(ObjectError) -> Success {
        do throws(ObjectError) {
            return try await body()
        } catch {
            guard error.code == .preconditionFailed, case .hasTag? = condition else { throw error }
            let object = try await core { () async throws(UploadError) in try await service.object(name) }
            throw object == nil ? ObjectError(.noSuchKey) : error
        }
    }

    /// Stores an object uploaded in one request.
    func store(
        _ name: ObjectName,
        _ headers: S3ObjectHeaders,
        _ content: ChecksummedContent,
        _ condition: ObjectCondition?,
        under grant: Grant,
        for vendor: Vendor,
        isAppendable: Bool = false
    ) async throws(ObjectError) -> Upload {
        let headers = headers.typed(by: try await admit(name))
        var attributes = headers.attributes(checksum: content.checksum.map { ObjectChecksum($0) })
        attributes.condition = condition
        attributes.isAppendable = isAppendable ? true : nil
        let new = headers.upload(name, attributes, length: content.object.size, for: vendor)
        let object = content.object
        let stored: Upload
        do throws(ObjectError) {
            stored = try await core { () async throws(UploadError) in
                try await service.putObject(new, under: grant, object) { attributes, digests in
                    attributes.entityTag = Hexadecimal.encode(digests.md5)
                    attributes.crc64 = digests.crc64
                    attributes.checksum?.value = digests.checksum
                }
            }
        } catch {
            // The core knows only that the source failed.
            throw content.failure() ?? error
        }
        await owner?.stored(name)
        return stored
    }

    // MARK: Reading

    func get(_ name: ObjectName, _ reading: ObjectReading, _ call: ObjectCall) async throws(ObjectError) -> Response {
        let isHead = if case .headObject = call.operation { true } else { false }
        let (media, blob) = try await core { () async throws(UploadError) in try await service.openObject(name) }
        let modified = Int64(media.createdAt.timeIntervalSince1970)
        var fields: HTTPFields = [
            "ETag": media.quotedTag(call.vendor), "Last-Modified": HTTPDate.format(modified), "Accept-Ranges": "bytes",
        ]
        for (name, value) in media.attributes?.headers ?? [:] {
            if let field = FieldName(Self.spelling(name)) { fields[field] = call.vendor.reported(value, of: name) }
        }
        fields["Content-Type"] = media.contentType ?? "binary/octet-stream"
        if call.caller.isAnonymous { publicRead.finish(&fields, name.key) }
        try Self.check(call.command.conditions, media, fields)
        for (name, value) in reading.overrides {
            if let name = FieldName(Self.spelling(name)) { fields[name] = value }
        }
        // Content is untrusted: browsers must not render it as a page of this origin.
        fields["X-Content-Type-Options"] = "nosniff"
        fields["Content-Security-Policy"] = "default-src 'none'; sandbox"
        call.vendor.report(crc64: media.attributes?.crc64, in: &fields)
        if call.vendor.profile.reportsObjectType {
            fields["x-amz-object-type"] = media.attributes.map { call.vendor.objectType($0.typeOfOSS) }
            if media.attributes?.isAppendable == true { fields["x-amz-next-append-position"] = String(media.size) }
        }
        // Only for callers who can read the tags.
        if let tags = media.attributes?.tags, !tags.isEmpty, !call.caller.isAnonymous {
            fields["x-amz-tagging-count"] = String(tags.count)
        }
        var response = Response(200, fields)
        let range = try Self.range(reading, of: media, call, &response)
        if reading.wantsChecksum {
            if let number = reading.part, let checksum = media.attributes?.checksum(ofPart: number) {
                checksum.add(to: &response.fields, parts: nil)
                response.fields["x-amz-checksum-type"] = media.attributes?.checksum?.s3Type
            } else if range.lowerBound == 0, range.upperBound == media.size {
                media.attributes?.checksum?.add(to: &response.fields, parts: media.attributes?.partSizes?.count)
            }
        }
        let content = content
        response.content = try await core { () async throws(UploadError) in try await content(blob, range, isHead) }
        response.trace.note(upload: media.id.text, isMedia: true)
        return response
    }

    /// The usual spelling of a field name, such as `Content-Type`, for clients that compare case-sensitively; user
    /// metadata stays unchanged.
    private static func spelling(_ name: String) -> String {
        guard !name.hasPrefix("x-") else { return name }
        return name.split(separator: "-").map { $0.prefix(1).uppercasedASCII() + $0.dropFirst() }.joined(separator: "-")
    }

    /// - Throws: 304, with those of the object's fields that it includes (RFC 9110 §15.4.5), and 412.
    private static func check(_ conditions: HTTPFields, _ media: Media, _ fields: HTTPFields) throws(ObjectError) {
        let outcome = EntityTagConditions.evaluate(
            conditions,
            method: .get,
            tag: EntityTag(media.quotedTag),
            lastModified: Int64(media.createdAt.timeIntervalSince1970)
        )
        switch outcome {
        case .proceed: return
        case .notModified:
            var kept = HTTPFields()
            for name in Self.fieldsOfNotModified { kept[name] = fields[name] }
            throw ObjectError(.notModified, fields: kept)
        case .preconditionFailed: throw ObjectError(.preconditionFailed)
        }
    }

    private static let fieldsOfNotModified: [FieldName] = [
        "ETag", "Last-Modified", "Accept-Ranges", "Cache-Control", "Expires", "Vary",
    ]

    /// The requested bytes; also sets the range fields of the response.
    private static func range(
        _ reading: ObjectReading,
        of media: Media,
        _ call: ObjectCall,
        _ response: inout Response
    ) throws(ObjectError) -> Range<Int64> {
        let size = media.size
        if let number = reading.part {
            let sizes = media.attributes?.partSizes ?? [size]
            guard let part = sizes.bytes(of: number) else { throw ObjectError(.invalidPartNumber) }
            if media.attributes?.partSizes != nil { response.fields["x-amz-mp-parts-count"] = String(sizes.count) }
            response.status = 206
            if !part.isEmpty { response.fields["Content-Range"] = ByteRanges.contentRange(part, size: size) }
            return part
        }
        let isWanted = EntityTagConditions.honoursRange(call.command.conditions, tag: EntityTag(media.quotedTag))
        switch call.vendor.range(isWanted ? reading : nil, size: size) {
        case .whole: return 0..<size
        case .single(let part):
            response.status = 206
            response.fields["Content-Range"] = ByteRanges.contentRange(part, size: size)
            return part
        case .unsatisfiable:
            throw ObjectError(
                .invalidRange,
                details: [
                    ObjectError.Detail("RangeRequested", reading.range ?? ""),
                    ObjectError.Detail("ActualObjectSize", String(size)),
                ],
                fields: ["Content-Range": ByteRanges.unsatisfiedContentRange(size: size)]
            )
        }
    }

    func attributes(
        of name: ObjectName,
        _ query: S3AttributesQuery,
        _ call: ObjectCall
    ) async throws(ObjectError) -> Response {
        let media = try await core { () async throws(UploadError) in try await service.object(name) }
        guard let media else { throw ObjectError(.noSuchKey) }
        let modified = HTTPDate.format(Int64(media.createdAt.timeIntervalSince1970))
        let fields: HTTPFields = ["ETag": media.quotedTag(call.vendor), "Last-Modified": modified]
        try Self.check(call.command.conditions, media, fields)
        var response = Self.document(query.document(media.attributes, size: media.size))
        response.fields["Last-Modified"] = modified
        return response
    }

    func acl(of name: ObjectName, _ call: ObjectCall) async throws(ObjectError) -> Response {
        let media = try await core { () async throws(UploadError) in try await service.object(name) }
        guard media != nil else { throw ObjectError(.noSuchKey) }
        return Self.document(AccessDocuments.acl(owner: Self.owner, for: call.vendor))
    }

    // MARK: Removing

    /// A missing object satisfies no condition.
    func delete(_ name: ObjectName, if condition: ObjectCondition? = nil) async throws(ObjectError) -> Response {
        let isRemoved = try await core { () async throws(UploadError) in
            try await service.removeObject(name, if: condition)
        }
        // The response is the same for a missing object, as long as its bucket exists.
        if !isRemoved { try await requireBucket(name.bucket) }
        return Response(204)
    }

    func delete(from bucket: String, _ call: ObjectCall) async throws(ObjectError) -> Response {
        let deletion = try ObjectDeletion(document: try await call.collect(limit: RequestDocuments.Limit.deletion))
        var outcomes: [DeletionOutcome] = []
        var removals: [Removal] = []
        for (index, entry) in deletion.entries.enumerated() {
            let name = ObjectName(bucket: bucket, key: call.vendor.key(entry.key))
            do throws(ObjectError) {
                if let problem = entry.problem { throw problem }
                try call.authorize(.deleteObject, name)
                removals.append(Removal(index: index, name: name, condition: entry.condition))
                outcomes.append(DeletionOutcome(key: entry.key))
            } catch {
                outcomes.append(DeletionOutcome(key: entry.key, error: error))
            }
        }
        for (index, error) in await failures(of: removals) {
            outcomes[index] = DeletionOutcome(key: outcomes[index].key, error: error)
        }
        // The SDK in C++ knows by the content that a quiet deletion left something behind ("DeleteMultipleObjects", OSS
        // documentation).
        if call.vendor == .aliyun, deletion.isQuiet, outcomes.allSatisfy({ $0.error == nil }) { return Response(200) }
        return Self.document(
            DeletionOutcome.document(
                outcomes,
                isQuiet: deletion.isQuiet,
                encodesURL: call.command.encodesURL,
                for: call.vendor
            )
        )
    }

    private struct Removal: Sendable {
        let index: Int
        let name: ObjectName
        let condition: ObjectCondition?
    }

    /// Deletes objects, several at once: their transactions share a sync.
    ///
    /// - Returns: Indices and errors of those that were not deleted.
    private func failures(of removals: [Removal]) async -> [(Int, ObjectError)] {
        // A key that is named twice is deleted in the order of the request.
        let isRepeated = Set(removals.map(\.name)).count < removals.count
        return await withTaskGroup(of: (Int, ObjectError)?.self) { group in
            var failures: [(Int, ObjectError)] = []
            for (number, removal) in removals.enumerated() {
                if number >= (isRepeated ? 1 : Self.removalsAtOnce), let failure = await group.next() ?? nil {
                    failures.append(failure)
                }
                group.addTask {
                    do throws(ObjectError) {
                        _ = try await delete(removal.name, if: removal.condition)
                        return nil
                    } catch {
                        return (removal.index, error)
                    }
                }
            }
            for await case let failure? in group { failures.append(failure) }
            return failures
        }
    }

    private static let removalsAtOnce = 32

    // MARK: Copying

    func copy(_ source: CopySource, to name: ObjectName, _ call: ObjectCall) async throws(ObjectError) -> Response {
        try await requireBucket(source.object.bucket)
        let write = call.command.write
        guard source.object != name || write.replacesMetadata || write.replacesTags else {
            throw ObjectError(
                .invalidRequest,
                "This copy request is illegal because it is trying to copy an object to itself without changing the "
                    + "object's metadata or tags."
            )
        }
        let (media, bytes) = try await read(source, nil)
        var headers = write.headers
        if !write.replacesMetadata {
            headers.contentType = media.contentType
            headers.headers = media.attributes?.headers ?? [:]
        }
        if !write.replacesTags { headers.tags = media.attributes?.tags ?? [:] }
        // The request itself has neither size nor type: check the source's values against the caller's limits.
        try call.caller.check(
            ObjectAccess(
                .putObject,
                bucket: name.bucket,
                key: name.key,
                contentLength: media.size,
                contentType: headers.contentType
            )
        )
        let algorithm = write.algorithm ?? media.attributes?.checksum?.algorithm
        let content = call.content(copying: bytes, size: media.size, checksum: algorithm)
        let object = try await meeting(write.condition, name) { () async throws(ObjectError) in
            try await store(name, headers, content, write.condition, under: call.grant, for: call.vendor)
        }
        var response = Self.document(
            UploadDocuments.copied(
                entityTag: object.attributes?.entityTag ?? "",
                modifiedAt: object.endedAt ?? object.updatedAt,
                checksum: object.attributes?.checksum,
                for: call.vendor
            )
        )
        if call.vendor.profile.reportsTagOfWhole { response.fields["ETag"] = object.quotedTag(call.vendor) }
        call.vendor.report(crc64: object.attributes?.crc64, in: &response.fields)
        return response
    }

    /// Opens the source of a copy, if it meets the request's conditions.
    func read(
        _ source: CopySource,
        _ range: ClosedRange<Int64>?
    ) async throws(ObjectError) -> (Media, any ByteSource) {
        try await core { () async throws(UploadError) in
            try await service.readObject(source.object) { media throws(UploadError) in
                try source.check(media)
                guard let range else { return 0..<media.size }
                guard range.upperBound < media.size else {
                    throw UploadError(
                        .invalidRequest,
                        "",
                        cause: ObjectError.argument(
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

    func tagging(_ call: ObjectCall) async throws(ObjectError) -> Response {
        try call.caller.checkTags()
        switch call.operation {
        case .getObjectTagging(let name):
            let media = try await core { () async throws(UploadError) in try await service.object(name) }
            guard let media else { throw ObjectError(.noSuchKey) }
            return Self.document(ObjectTagging.document(media.attributes?.tags ?? [:], for: call.vendor))
        case .putObjectTagging(let name):
            let document = try await call.collect(limit: RequestDocuments.Limit.tagging)
            let tags = try ObjectTagging.tags(document: document, for: call.vendor)
            try await setTags(of: name, to: tags, call)
            return Response(200)
        case .deleteObjectTagging(let name):
            // The object stays.
            try await FreeingWork.$isRunning.with(false) { () async throws(ObjectError) in
                try await setTags(of: name, to: [:], call)
            }
            return Response(204)
        default: throw ObjectError(.methodNotAllowed)
        }
    }

    private func setTags(
        of name: ObjectName,
        to tags: [String: String],
        _ call: ObjectCall
    ) async throws(ObjectError) {
        let grant = call.grant
        try await core { () async throws(UploadError) in try await service.setTags(of: name, to: tags, under: grant) }
    }
}

extension CopySource {
    /// - Throws: An error with `PreconditionFailed` as its cause.
    fileprivate func check(_ media: Media) throws(UploadError) {
        let outcome = EntityTagConditions.evaluate(
            conditions,
            method: .get,
            tag: EntityTag(media.quotedTag),
            lastModified: Int64(media.createdAt.timeIntervalSince1970)
        )
        guard outcome == .proceed else {
            throw UploadError(.conditionFailed, "The source of the copy does not meet the conditions.")
        }
    }
}

extension Media {
    /// The recorded entity tag of the object, for comparisons; other media need none here.
    var quotedTag: String { quotedTag(.aws) }

    func quotedTag(_ vendor: Vendor) -> String { vendor.quoted(attributes?.entityTag ?? id.text) }
}

extension ObjectAttributes {
    /// How the object was uploaded, in OSS's terms.
    var typeOfOSS: String { Self.typeOfOSS(isAppendable: isAppendable == true, hasParts: partSizes != nil) }

    static func typeOfOSS(isAppendable: Bool, hasParts: Bool) -> String {
        if isAppendable { return "Appendable" }
        return hasParts ? "Multipart" : "Normal"
    }
}

extension Upload {
    func quotedTag(_ vendor: Vendor) -> String { vendor.quoted(attributes?.entityTag ?? id.text) }
}
