internal import Bytes
internal import Foundation
internal import HTTPWire
internal import ObjectGrants
internal import Signing
internal import UploadCore
internal import UploadModel

/// Uploads by HTML forms ("POST Object", Amazon S3 API Reference).
extension ObjectStoreHandler {
    /// Maximum size of all fields except the file, in bytes.
    private static let maximumFields = 20 << 10

    /// The part of a form before the data of the file.
    private struct Opened {
        let form: PostForm
        let file: FormFile
        let contentType: String?
    }

    /// - Parameters:
    ///   - bucket: The bucket in the request's address, if any.
    ///   - request: A form of any vendor.
    /// - Returns: The response that the form asks for.
    /// - Throws: In the format of the form's vendor, once that is known.
    func post(to bucket: String?, _ request: Request) async throws(ObjectError) -> Response {
        let opened = try await open(request)
        do throws(ObjectError) {
            return try await post(opened, to: bucket, request)
        } catch {
            var refusal = error
            refusal.vendor = opened.form.vendor
            throw refusal
        }
    }

    private func post(_ opened: Opened, to named: String?, _ request: Request) async throws(ObjectError) -> Response {
        let form = opened.form
        guard let key = form["key"].map(form.vendor.key), !key.isEmpty else {
            throw ObjectError.argument(
                "key",
                nil,
                "Bucket POST must contain a field named 'key'. If it is specified, please check the order of the fields."
            )
        }
        let (caller, policy, bucket) =
            switch form.vendor {
            case .aws: try await authentication.authenticate(form, bucket: named, at: clock.now)
            case .aliyun: try await authentication.authenticateOSS(form, bucket: named, at: clock.now)
            case .tencent: try await authentication.authenticateCOS(form, bucket: named, at: clock.now)
            }
        try caller.count()
        try await requireBucket(bucket)
        try S3Names.check(key: key, for: form.vendor)
        let name = ObjectName(bucket: bucket, key: key)
        let described = try RequestReader(
            form.head(of: request.head, fileType: opened.contentType, policy),
            form.vendor
        )
        var headers = try S3ObjectHeaders(described)
        // In a form of S3, and in this field of one of COS, tags are an XML document.
        if let text = form["tagging"] { headers.tags = try ObjectTagging.tags(document: Array(text.utf8)) }
        try caller.check(
            ObjectAccess(.postObject, bucket: bucket, key: key, contentType: headers.contentType)
        )
        if !headers.tags.isEmpty { try caller.checkTags() }
        var grant = caller.uploadGrant
        if let most = policy.contentLengths?.upperBound { grant.maximumBytes = min(grant.maximumBytes ?? most, most) }
        let subject = CallbackSubject(name: name, operation: .postObject(bucket), request: request)
        let callback = try callback(of: form, policy, about: subject)
        let content = try Self.content(
            opened.file,
            policy,
            try DeclaredContent(described, .object),
            otherwise: form.vendor.profile.usualChecksum
        )
        let condition = try described.writeCondition()
        let object: Upload
        do throws(ObjectError) {
            object = try await store(name, headers, content, condition, under: grant, for: form.vendor)
        } catch {
            let refusal = Self.refusal(error, under: grant, condition, for: form.vendor)
            guard refusal.code == .preconditionFailed, described.forbidsOverwrite else { throw refusal }
            throw ObjectError(form.vendor.profile.errors.forbiddenOverwrite)
        }
        let response = Self.response(
            form,
            name,
            object,
            location: location(of: name, for: request),
            redirects: callback == nil
        )
        return await self.response(callback, of: StoredObject(subject: subject, upload: object), with: response)
    }

    private func open(_ request: Request) async throws(ObjectError) -> Opened {
        let type = request.head.fields["Content-Type"].flatMap { MediaType($0) }
        guard let type, type.essence == "multipart/form-data", let boundary = MultipartBoundary(of: type) else {
            throw ObjectError(
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
                if disposition.name.lowercasedASCII() == "file" {
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
                guard let text = String(clientText: value) else {
                    throw .malformed("a field is not \(ClientText.requirement)")
                }
                fields.append((disposition.name, text))
            }
        } catch {
            if case .tooLarge = error {
                throw ObjectError(.maxMessageLengthExceeded, "The fields before the file may have at most 20 KiB.")
            }
            if case .malformed(let reason) = error {
                throw ObjectError(.malformedPOSTRequest, "The form is malformed: \(reason)")
            }
            throw ObjectError(content: error)
        }
        throw ObjectError.argument("file", nil, "POST requires exactly one file upload per request.")
    }

    private static func content(
        _ file: FormFile,
        _ policy: PostPolicy,
        _ declared: DeclaredContent,
        otherwise usual: ObjectChecksum.Algorithm?
    ) throws(ObjectError) -> ChecksummedContent {
        let digests = ObjectDigests(declared.checksum?.algorithm ?? usual, needsSHA1: declared.sha1 != nil)
        let source = DigestedSource(file, digests)
        let object = ObjectContent(source, size: nil) { () async throws(UploadError) in
            try await source.finish { ObjectError(content: $0) }
            let values = digests.finish()
            do throws(PostPolicyProblem) {
                try policy.check(length: values.count, isComplete: true)
            } catch {
                throw UploadError(.invalidRequest, error.message, cause: ObjectError(policy: error))
            }
            let isAsDeclared =
                (declared.checksum.map { $0.value == values.checksum } ?? true)
                && (declared.md5.map { $0 == values.md5 } ?? true) && (declared.sha1.map { $0 == values.sha1 } ?? true)
                && (declared.crc64.map { $0 == values.crc64 } ?? true)
            guard isAsDeclared else {
                throw UploadError(.checksumMismatch, "A digest of the file differs from the one in the form.")
            }
            return ContentDigests(values)
        }
        return ChecksummedContent(object: object, checksum: digests.algorithm)
    }

    /// The response that the form asks for: a redirection, 200, 201 with a document, or 204.
    ///
    /// - Parameters:
    ///   - form: The fields sent with the file.
    ///   - name: Name of the object.
    ///   - object: The recorded object.
    ///   - location: The URL of the object.
    ///   - redirects: Whether the client may be redirected; not if an app provides the response.
    /// - Returns: The response, without the app's content.
    private static func response(
        _ form: PostForm,
        _ name: ObjectName,
        _ object: Upload,
        location: String,
        redirects: Bool
    ) -> Response {
        var response = Response(204, ["ETag": object.quotedTag(form.vendor), "Location": location])
        form.vendor.report(md5: object.attributes?.entityTag, in: &response.fields)
        form.vendor.report(crc64: object.attributes?.crc64, in: &response.fields)
        response.trace.note(upload: object.id.text, isMedia: true)
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
                UploadDocuments.posted(
                    name,
                    location: location,
                    entityTag: object.attributes?.entityTag ?? "",
                    for: form.vendor
                )
            )
        default: break
        }
        return response
    }

    /// The URL in a form, with the result of the upload in its query; `nil` if it is not an http(s) URL.
    private static func redirection(
        _ text: String,
        _ form: PostForm,
        _ name: ObjectName,
        _ object: Upload
    ) -> String? {
        guard let target = try? RequestTarget(parsing: text), target.authority != nil else { return nil }
        let values = [("bucket", name.bucket), ("key", name.key), ("etag", object.quotedTag(form.vendor))]
        let query = values.map { "\($0)=\(PercentEncoding.encode($1))" }.joined(separator: "&")
        return text + (target.rawQuery == nil ? "?" : "&") + query
    }
}
