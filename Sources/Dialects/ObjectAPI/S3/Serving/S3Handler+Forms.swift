internal import Bytes
internal import Foundation
internal import HTTPWire
internal import UploadCore

/// Uploads by HTML forms ("POST Object", Amazon S3 API Reference).
extension S3Handler {
    /// Bytes of all fields but the file.
    private static let maximumFields = 20 << 10

    /// What stands in a form up to the file, whose data come next.
    private struct Opened {
        let form: PostForm
        let file: FormFile
        let contentType: String?
    }

    /// - Parameters:
    ///   - bucket: That the request names, if it does.
    ///   - request: With a form of any dialect.
    /// - Returns: The answer that the form asks for.
    /// - Throws: In the dialect of the form, once that is known.
    func post(to bucket: String?, _ request: Request) async throws(S3Error) -> Response {
        let opened = try await open(request)
        do throws(S3Error) {
            return try await post(opened, to: bucket, request)
        } catch {
            var refusal = error
            refusal.dialect = opened.form.dialect
            throw refusal
        }
    }

    private func post(_ opened: Opened, to named: String?, _ request: Request) async throws(S3Error) -> Response {
        let form = opened.form
        let (caller, policy, bucket) =
            switch form.dialect {
            case .s3: try await authentication.authenticate(form, bucket: named, at: clock.now)
            case .oss: try await authentication.authenticateOSS(form, bucket: named, at: clock.now)
            case .cos: try await authentication.authenticateCOS(form, bucket: named, at: clock.now)
            }
        try await requireBucket(bucket)
        guard let key = form["key"], !key.isEmpty else {
            throw S3Error.argument("key", nil, "Bucket POST must contain a field named 'key'.")
        }
        try S3Names.check(key: key)
        let name = ObjectName(bucket: bucket, key: key)
        let head = try Self.head(of: form, request.head, opened.contentType)
        let headers = try S3ObjectHeaders(head)
        try caller.check(
            ObjectAccess(.postObject, bucket: bucket, key: key, contentType: headers.contentType)
        )
        var grant = caller.uploadGrant
        if let most = policy.contentLengths?.upperBound { grant.maximumBytes = min(grant.maximumBytes ?? most, most) }
        let subject = CallbackSubject(name: name, operation: .postObject(bucket), request: request)
        let callback = try callback(of: form, policy, about: subject)
        let content = try Self.content(opened.file, policy, try ObjectChecksum.declared(head.fields))
        let condition: ObjectCondition? = head.fields["If-None-Match"] == "*" ? .isAbsent : nil
        let object = try await store(name, headers, content, condition, under: grant, for: form.dialect)
        let response = Self.answer(form, name, object, baseURL(request), redirects: callback == nil)
        return await answer(callback, of: StoredObject(subject: subject, upload: object), with: response)
    }

    private func open(_ request: Request) async throws(S3Error) -> Opened {
        let type = request.head.fields["Content-Type"].flatMap { MediaType($0) }
        guard let type, type.essence == "multipart/form-data", let boundary = MultipartBoundary(of: type) else {
            throw S3Error(
                .preconditionFailed,
                "Bucket POST must be of the enclosure-type multipart/form-data"
            )
        }
        let reader = FormReader(request.body, boundary: boundary)
        var fields: [(name: String, value: String)] = []
        var size = 0
        do throws(SourceFailure) {
            while let part = try await reader.nextPart() {
                guard let disposition = FormDisposition(of: part) else {
                    throw .malformed("a part of the form has no name")
                }
                if disposition.name.lowercased() == "file" {
                    let form: PostForm
                    do throws(PostPolicyProblem) {
                        form = try PostForm(fields, fileName: disposition.filename ?? "")
                    } catch {
                        throw .malformed(error.message)
                    }
                    return Opened(form: form, file: FormFile(reader), contentType: part["Content-Type"])
                }
                var value: [UInt8] = []
                while let piece = try await reader.nextData(maximum: Self.maximumFields) {
                    value += piece
                    size += piece.count
                    guard size <= Self.maximumFields else { throw .tooLarge(limit: Int64(Self.maximumFields)) }
                }
                fields.append((disposition.name, String(decoding: value, as: UTF8.self)))
            }
        } catch {
            if case .tooLarge = error {
                throw S3Error(.maxMessageLengthExceeded, "The fields before the file may have at most 20 KiB.")
            }
            if case .malformed(let reason) = error {
                throw S3Error(.malformedPOSTRequest, "The form is malformed: \(reason)")
            }
            throw S3Error(content: error)
        }
        throw S3Error.argument("file", nil, "POST requires exactly one file upload per request.")
    }

    /// The fields of a form that say what others say with header fields.
    private static func head(
        of form: PostForm,
        _ head: RequestHead,
        _ contentType: String?
    ) throws(S3Error) -> RequestHead {
        var fields = HTTPFields()
        for field in form.fields {
            guard let name = FieldName(field.name), !field.value.utf8.contains(where: { $0 < 0x20 }) else { continue }
            fields[name] = field.value
        }
        // A form has no conditions of its own but that of OSS.
        for name: FieldName in ["If-Match", "If-None-Match"] { fields[name] = nil }
        if let type = fields["x-oss-content-type"] { fields["Content-Type"] = type }
        if fields["Content-Type"] == nil, let contentType { fields["Content-Type"] = contentType }
        var described = head
        described.fields = fields
        guard form.dialect == .s3 else { return try form.dialect.effectiveHead(described) }
        // In a form of S3 tags are a document.
        described.fields["x-amz-tagging"] = nil
        if let tags = form["tagging"] {
            let values = try S3Tagging.tags(document: Array(tags.utf8))
            described.fields["x-amz-tagging"] = values.map {
                "\(PercentEncoding.encode($0))=\(PercentEncoding.encode($1))"
            }
            .joined(separator: "&")
        }
        return described
    }

    private static func content(
        _ file: FormFile,
        _ policy: PostPolicy,
        _ declared: ObjectChecksum.Declared?
    ) throws(S3Error) -> S3Content {
        let digests = ObjectDigests(declared?.algorithm)
        let source = DigestedSource(file, digests)
        let object = ObjectContent(source, size: nil) { () async throws(UploadError) in
            try await source.finish { S3Error(content: $0) }
            let values = digests.finish()
            do throws(PostPolicyProblem) {
                try policy.check(length: values.count, isComplete: true)
            } catch {
                throw UploadError(.invalidRequest, error.message, cause: S3Error(policy: error))
            }
            if let declared, declared.value != values.checksum {
                throw UploadError(.checksumMismatch, "The file has another checksum than the form says.")
            }
            return ContentDigests(values)
        }
        return S3Content(object: object, checksum: declared?.algorithm)
    }

    /// The answer that the form asks for: a redirection, 200, 201 with a document, or 204.
    ///
    /// - Parameters:
    ///   - form: What was sent with the file.
    ///   - name: Of the object.
    ///   - object: As it is recorded.
    ///   - base: The URL of the endpoint.
    ///   - redirects: Whether the client may be sent elsewhere: not where an app answers instead.
    /// - Returns: Without what the app answers.
    private static func answer(
        _ form: PostForm,
        _ name: ObjectName,
        _ object: Upload,
        _ base: String,
        redirects: Bool
    ) -> Response {
        let location = "\(base)/\(name.bucket)/\(path(name.key))"
        var response = Response(204, ["ETag": object.quotedTag(form.dialect), "Location": location])
        form.dialect.tell(md5: object.attributes?.entityTag, in: &response.fields)
        form.dialect.tell(crc64: object.attributes?.crc64, in: &response.fields)
        response.trace.uploadID = object.id.text
        if redirects, let target = form["success_action_redirect"] ?? form["redirect"],
            let url = redirection(target, form, name, object)
        {
            response.status = 303
            response.fields["Location"] = url
            return response
        }
        switch form["success_action_status"] {
        case "200": response.status = 200
        case "201":
            response.status = 201
            response.fields["Content-Type"] = "application/xml"
            response.content = .bytes(
                S3Uploads.posted(
                    name,
                    location: location,
                    entityTag: object.attributes?.entityTag ?? "",
                    for: form.dialect
                )
            )
        default: break
        }
        return response
    }

    /// The URL that a form names, with what was uploaded in its query; `nil` for what is no URL of the web.
    private static func redirection(
        _ text: String,
        _ form: PostForm,
        _ name: ObjectName,
        _ object: Upload
    ) -> String? {
        guard let target = try? RequestTarget(parsing: text), target.authority != nil else { return nil }
        let values = [("bucket", name.bucket), ("key", name.key), ("etag", object.quotedTag(form.dialect))]
        let query = values.map { "\($0)=\(PercentEncoding.encode($1))" }.joined(separator: "&")
        return text + (target.rawQuery == nil ? "?" : "&") + query
    }
}
