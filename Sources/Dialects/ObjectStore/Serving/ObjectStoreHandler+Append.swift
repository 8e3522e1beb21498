internal import Bytes
internal import HTTPWire
internal import UploadCore
internal import UploadModel

/// "AppendObject", OSS documentation.
extension ObjectStoreHandler {
    /// Appends bytes to an object.
    ///
    /// A new object with both contents replaces the one that was read, if that is still current. So readers never see
    /// half an append, and of two concurrent appends one gets the new end of the object as an error.
    func append(_ name: ObjectName, at position: Int64, _ call: ObjectCall) async throws(ObjectError) -> Response {
        let addition = try call.body()
        let found = try await core { () async throws(UploadError) in try await service.object(name) }
        if let found, found.attributes?.isAppendable != true { throw ObjectError(.objectNotAppendable) }
        guard position == found?.size ?? 0 else { throw Self.wrongPosition(found?.size ?? 0) }
        var headers = call.command.write.headers
        var content = addition
        if let found {
            let (media, bytes) = try await read(CopySource(name), nil)
            guard media.id == found.id else { throw Self.wrongPosition(media.size) }
            headers = S3ObjectHeaders(
                contentType: media.contentType,
                headers: media.attributes?.headers ?? [:],
                tags: media.attributes?.tags ?? [:]
            )
            content = try Self.joined(bytes, media.size, addition)
        }
        let condition: ObjectCondition = (found?.attributes?.entityTag).map { .hasTag($0) } ?? .isAbsent
        let object: Upload
        do throws(ObjectError) {
            object = try await store(
                name,
                headers,
                content,
                condition,
                under: call.grant,
                for: call.vendor,
                isAppendable: true
            )
        } catch {
            guard error.code == .preconditionFailed else { throw error }
            let now = try await core { () async throws(UploadError) in try await service.object(name) }
            throw Self.wrongPosition(now?.size ?? 0)
        }
        var response = Response(200, ["ETag": object.quotedTag(call.vendor)])
        response.fields["x-amz-next-append-position"] = String(object.offset)
        call.vendor.report(crc64: object.attributes?.crc64, in: &response.fields)
        response.trace.note(upload: object.id.text, isMedia: true)
        return response
    }

    private static func joined(
        _ bytes: any ByteSource,
        _ size: Int64,
        _ addition: ChecksummedContent
    ) throws(ObjectError) -> ChecksummedContent {
        let (total, overflow) = size.addingReportingOverflow(addition.object.size ?? 0)
        guard !overflow else { throw ObjectError(.entityTooLarge) }
        let digests = ObjectDigests(nil)
        let source = DigestedSource(JoinedSource(bytes, addition.object.source), digests)
        let object = ObjectContent(source, size: addition.object.size.map { _ in total }) {
            () async throws(UploadError) in
            try await source.finish { ObjectError(content: $0) }
            // The digests in the request cover only the appended bytes.
            _ = try await addition.object.digests()
            return ContentDigests(digests.finish())
        }
        return ChecksummedContent(object: object, checksum: nil)
    }

    private static func wrongPosition(_ size: Int64) -> ObjectError {
        ObjectError(.positionNotEqualToLength, fields: ["x-amz-next-append-position": String(size)])
    }
}
