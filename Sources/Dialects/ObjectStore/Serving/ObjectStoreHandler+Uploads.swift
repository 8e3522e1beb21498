internal import Bytes
internal import Digests
internal import Foundation
internal import HTTPWire
internal import ObjectGrants
internal import Signing
internal import UploadCore
internal import UploadModel

/// Multipart uploads.
extension ObjectStoreHandler {
    func create(_ name: ObjectName, _ call: ObjectCall) async throws(ObjectError) -> Response {
        let (headers, checksum) = (call.command.write.headers, call.command.write.checksum)
        let grant = call.grant
        if let condition = call.command.write.condition {
            let object = try await core { () async throws(UploadError) in try await service.object(name) }
            guard condition.holds(for: object) else { throw ObjectError(.preconditionFailed) }
        }
        let admission = try await admit(name)
        let upload = try await core { () async throws(UploadError) in
            try await uploads.begin(
                name,
                headers.typed(by: admission),
                checksum: checksum,
                keptFor: admission?.keptFor,
                for: call.vendor,
                under: grant
            )
        }
        var response = Self.document(UploadDocuments.initiated(name, uploadID: upload.id.text, for: call.vendor))
        if let checksum {
            response.fields["x-amz-checksum-algorithm"] = checksum.algorithm.s3Name
            response.fields["x-amz-checksum-type"] = checksum.s3Type
        }
        response.trace.uploadID = upload.id.text
        return response
    }

    func put(_ part: PartReference, of name: ObjectName, _ call: ObjectCall) async throws(ObjectError) -> Response {
        let found = try await found(part, of: name, for: call.caller)
        let content = try call.body(checksum: found.upload.attributes?.checksum?.algorithm)
        let record = try await store(part, of: found, content)
        var response = Response(200, ["ETag": call.vendor.quoted(record.entityTag)])
        call.vendor.report(md5: record.entityTag, in: &response.fields)
        call.vendor.report(crc64: record.crc64, in: &response.fields)
        if content.isRequested, let algorithm = content.checksum, let value = record.checksum {
            response.fields[algorithm.s3Field] = Base64.encode(value)
        }
        response.trace.uploadID = found.upload.id.text
        return response
    }

    /// The upload that a part belongs to, and its stored part with the same number.
    private func found(
        _ part: PartReference,
        of name: ObjectName,
        for caller: ObjectCaller
    ) async throws(ObjectError) -> (upload: Upload, part: PartRecord?) {
        let found = try await core(.upload) { () async throws(UploadError) in
            try await uploads.find(part.uploadID, of: name, withPart: part.number)
        }
        guard caller.mayContinue(found.upload) else { throw ObjectError(.noSuchUpload) }
        return found
    }

    private func store(
        _ part: PartReference,
        of found: (upload: Upload, part: PartRecord?),
        _ content: ChecksummedContent
    ) async throws(ObjectError) -> PartRecord {
        let object = content.object
        do throws(ObjectError) {
            return try await core(.upload) { () async throws(UploadError) in
                try await uploads.put(part.number, of: found, object)
            }
        } catch {
            throw content.failure() ?? error
        }
    }

    func copy(
        _ source: CopySource,
        _ range: ClosedRange<Int64>?,
        to part: PartReference,
        of name: ObjectName,
        _ call: ObjectCall
    ) async throws(ObjectError) -> Response {
        try await requireBucket(source.object.bucket)
        let found = try await found(part, of: name, for: call.caller)
        let (media, bytes) = try await read(source, range)
        let algorithm = found.upload.attributes?.checksum?.algorithm
        let size = range.map { $0.upperBound - $0.lowerBound + 1 } ?? media.size
        try call.caller.check(
            ObjectAccess(.uploadPart, bucket: name.bucket, key: name.key, contentLength: size)
        )
        let content = call.content(copying: bytes, size: size, checksum: algorithm ?? call.command.write.algorithm)
        let record = try await store(part, of: found, content)
        var response = Self.document(UploadDocuments.copiedPart(record, checksum: algorithm, for: call.vendor))
        if call.vendor.profile.reportsTagOfWhole { response.fields["ETag"] = call.vendor.quoted(record.entityTag) }
        call.vendor.report(crc64: record.crc64, in: &response.fields)
        return response
    }

    func list(_ listing: PartListing, of name: ObjectName, _ call: ObjectCall) async throws(ObjectError) -> Response {
        let upload = try await upload(listing.uploadID, name)
        guard call.caller.maySee(upload) else { throw ObjectError(.noSuchUpload) }
        let (_, parts) = try await core(.upload) { () async throws(UploadError) in
            try await uploads.parts.parts(of: upload.id, after: listing.marker, limit: listing.maximum + 1)
        }
        return Self.document(
            UploadDocuments.parts(
                of: name,
                listing,
                parts,
                checksum: upload.attributes?.checksum,
                owner: Self.owner,
                for: call.vendor
            )
        )
    }

    func complete(_ text: String, _ name: ObjectName, _ call: ObjectCall) async throws(ObjectError) -> Response {
        let upload = try await upload(text, name, isOpen: false)
        guard call.caller.mayContinue(upload) else { throw ObjectError(.noSuchUpload) }
        // Nothing can have been started in a session after it expired.
        if call.caller.isInGrace, let grant = call.caller.grant, upload.createdAt >= grant.upload.expiresAt {
            throw ObjectError(.expiredToken)
        }
        let (condition, expected) = (call.command.write.condition, call.command.write.expectation)
        let bytes = try await call.collect(limit: RequestDocuments.Limit.completion)
        // Parsing 10,000 parts takes some tenths of a second; the event loop serves others meanwhile.
        let canBeEmpty = call.vendor.profile.completesWithoutParts
        let parts = try await Task.detached { () -> Result<[CompletedPart], ObjectError> in
            Result { () throws(ObjectError) in try CompletedPart.list(document: bytes, canBeEmpty: canBeEmpty) }
        }.value.get()
        let algorithm = upload.attributes?.checksum?.algorithm
        var named: [NamedPart] = []
        named.reserveCapacity(parts.count)
        for part in parts {
            named.append(
                NamedPart(
                    number: part.number,
                    entityTag: part.entityTag,
                    checksum: try part.checksum(by: algorithm)
                )
            )
        }
        if named.isEmpty { named.append(try await emptyPart(of: upload, call)) }
        let object: Upload
        do throws(ObjectError) {
            object = try await meeting(condition, name) { () async throws(ObjectError) in
                try await core(.upload) { () async throws(UploadError) in
                    try await uploads.complete(upload, of: named, if: condition) {
                        checksum,
                        records throws(UploadError) in
                        try Self.check(checksum, records, expected)
                    }
                }
            }
        } catch {
            throw error.naming(named, of: upload)
        }
        await owner?.stored(name)
        var response = Self.document(
            UploadDocuments.completed(
                name,
                location: location(of: name, for: call.request),
                entityTag: object.attributes?.entityTag ?? "",
                checksum: object.attributes?.checksum,
                parts: parts.count,
                for: call.vendor
            )
        )
        if call.vendor.profile.reportsTagOfWhole { response.fields["ETag"] = object.quotedTag(call.vendor) }
        call.vendor.report(crc64: object.attributes?.crc64, in: &response.fields)
        response.trace.note(upload: object.id.text, isMedia: object.isMedia)
        return await self.response(call.callback, of: StoredObject(name, object, call), with: response)
    }

    /// The only part of an upload to which the client sent none.
    ///
    /// - Throws: `MalformedXML` if there are parts, which a list without them would drop.
    private func emptyPart(of upload: Upload, _ call: ObjectCall) async throws(ObjectError) -> NamedPart {
        let part = NamedPart(number: 1, entityTag: Hexadecimal.encode(Digest.hash([], .md5)))
        // The answer to the request that completed it may have been lost.
        guard upload.state == .open else { return part }
        let content = call.content(copying: ArraySource([]), size: 0).object
        let isEmpty = try await core(.upload) { () async throws(UploadError) in
            let (_, stored) = try await uploads.parts.parts(of: upload.id, after: 0, limit: 2)
            guard stored.allSatisfy({ $0.number == part.number && $0.size == 0 }) else { return false }
            if stored.isEmpty { _ = try await uploads.put(part.number, of: (upload, nil), content) }
            return true
        }
        guard isEmpty else { throw ObjectError(.malformedXML) }
        return part
    }

    /// The URL of an object, as the client of a request reaches it.
    func location(of name: ObjectName, for request: Request) -> String {
        var request = request
        // A proxy of the vendor put the host of COS there.
        if let field = FieldName(COSVerifier.forwardedHost), let host = request.head.fields[field] {
            request.head.fields["Host"] = host
        }
        let base = baseURL(request)
        let isNamed = endpoint.names(name.bucket, inHostOf: base) && !request.head.target.names(name)
        let key = PercentEncoding.encode(name.key) { PercentEncoding.isUnreserved($0) || $0 == UInt8(ascii: "/") }
        return isNamed ? "\(base)/\(key)" : "\(base)/\(name.bucket)/\(key)"
    }

    func abort(_ text: String, _ name: ObjectName, _ call: ObjectCall) async throws(ObjectError) -> Response {
        let upload = try await upload(text, name)
        guard call.caller.mayAbort(upload) else { throw ObjectError(.noSuchUpload) }
        try await core(.upload) { () async throws(UploadError) in try await uploads.abort(upload) }
        return Response(204)
    }

    /// Compares an object made of parts with what the client expects.
    ///
    /// - Throws: An error with `BadDigest` or `InvalidRequest` as its cause.
    private static func check(
        _ checksum: ObjectChecksum?,
        _ parts: [PartRecord],
        _ expected: CompletedPart.Expectation?
    ) throws(UploadError) {
        do throws(ObjectError) {
            try expected?.check(checksum, parts: parts.count, size: parts.reduce(0) { $0 + $1.size })
        } catch {
            throw UploadError(.invalidRequest, error.message, cause: error)
        }
    }

    /// The upload with an id, if it belongs to this object.
    ///
    /// - Parameters:
    ///   - text: The id from the client.
    ///   - name: Name of the object.
    ///   - isOpen: Whether it must be open.
    /// - Returns: The recorded upload.
    /// - Throws: `NoSuchUpload`.
    private func upload(_ text: String, _ name: ObjectName, isOpen: Bool = true) async throws(ObjectError) -> Upload {
        try await core(.upload) { () async throws(UploadError) in
            try await uploads.find(text, of: name, isOpen: isOpen)
        }
    }
}

extension RequestTarget {
    /// Whether the path has the bucket, although the host may look as if it had it.
    fileprivate func names(_ name: ObjectName) -> Bool {
        let path = segments.joined(separator: "/")
        return path == name.bucket || path == "\(name.bucket)/" || path == "\(name.bucket)/\(name.key)"
    }
}

extension ObjectError {
    /// Adds which upload and which tag an error about a part is about, as Amazon does.
    fileprivate func naming(_ parts: [NamedPart], of upload: Upload) -> ObjectError {
        guard code == .invalidPart, let number = details.first(where: { $0.name == "PartNumber" })?.text else {
            return self
        }
        var error = self
        error.details.insert(Detail("UploadId", upload.id.text), at: 0)
        if let part = parts.first(where: { String($0.number) == number }) {
            error.details.append(Detail("ETag", part.entityTag))
        }
        return error
    }
}
