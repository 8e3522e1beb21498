internal import Bytes
internal import HTTPWire
internal import UploadCore

/// "Callback", OSS documentation: an app is told of an object, and what it says is what the client is answered.
extension S3Handler {
    /// The callback that a request names in its header or in its query.
    ///
    /// - Returns: `nil` without one, and for what makes no object: some clients name it with all that they send.
    /// - Throws: `InvalidArgument`; `NotImplemented` where there are no callbacks.
    func callback(of call: S3Call) throws(S3Error) -> UploadCallback? {
        guard call.dialect == .oss else { return nil }
        let head = call.request.head
        let parameters = try S3Parameters(head.target)
        func text(_ name: String, _ field: FieldName) throws(S3Error) -> String? {
            let parameter = try parameters.text(name)
            guard let text = head.fields[field] else { return parameter }
            guard parameter == nil else {
                throw .argument(name, nil, "Of \(field.spelling) and ?\(name) only one may be there.")
            }
            return text
        }
        guard let callback = try text("callback", "x-oss-callback") else { return nil }
        let variables = try text("callback-var", "x-oss-callback-var")
        switch call.operation {
        case .putObject(let name), .completeMultipartUpload(let name, _):
            return try checked(
                callback,
                try variables.map { (text) throws(S3Error) in try UploadCallback.variables(text) } ?? [:],
                CallbackSubject(name: name, operation: call.operation, request: call.request)
            )
        case .appendObject, .copyObject:
            throw S3Error(.notImplemented, "\(call.operation.name) has no callback: leave x-oss-callback out.")
        default:
            if callbacks == nil { throw Self.noCallbacks }
            return nil
        }
    }

    /// The callback that a form names; variables of the client are in fields whose names begin with `x:`.
    ///
    /// - Parameters:
    ///   - form: That is allowed by its policy.
    ///   - policy: That of the form.
    ///   - subject: What the form makes.
    /// - Returns: `nil` without one.
    /// - Throws: As `callback(of:)`.
    func callback(
        of form: PostForm,
        _ policy: PostPolicy,
        about subject: CallbackSubject
    ) throws(S3Error) -> UploadCallback? {
        guard form.dialect == .oss, let callback = form["callback"] else { return nil }
        var variables =
            try form["callback-var"].map { (text) throws(S3Error) in
                try UploadCallback.variables(text)
            } ?? [:]
        // What the policy laid down of a field must hold of the variable that the app is told.
        for name in variables.keys.sorted() where form[name] != nil || policy.hasCondition(for: name) {
            let message = "\(name) is a field of the form or of its policy: leave it out of callback-var."
            throw .argument("callback-var", nil, message)
        }
        for field in form.fields {
            if let name = CallbackVariable.customName(field.name) { variables[name] = field.value }
        }
        return try checked(callback, variables, subject)
    }

    private static let noCallbacks = S3Error(
        .notImplemented,
        "Callbacks are not allowed here: leave them out, or have their host named in the setting object.callbackHosts."
    )

    private func checked(
        _ text: String,
        _ variables: [String: String],
        _ subject: CallbackSubject
    ) throws(S3Error) -> UploadCallback {
        guard let callbacks else { throw Self.noCallbacks }
        let callback = try UploadCallback(text, variables: variables)
        for url in callback.urls {
            switch callbacks.problem(with: url) {
            case nil: break
            case .malformed: throw .argument("callbackUrl", url, "The callbackUrl is no http or https URL.")
            case .notAllowed:
                let message = "Callbacks to this host and port are not allowed by the setting object.callbackHosts."
                throw .argument("callbackUrl", url, message)
            }
        }
        if let host = callback.host, !callbacks.mayName(host: host) {
            let message = "The callbackHost is not allowed by the setting object.callbackHosts."
            throw .argument("callbackHost", host, message)
        }
        guard callback.fits(subject) else {
            let message = "The callback body with its values may have 64 KiB: name fewer variables, or shorter ones."
            throw .argument("callbackBody", nil, message)
        }
        return callback
    }

    /// An object that was stored, and how.
    struct StoredObject {
        let subject: CallbackSubject
        let upload: Upload
    }

    /// Sends a callback, if there is one, and gives the answer that follows from it.
    ///
    /// The URLs are tried in their order until one answers as it must. If none does the status is 203, which says that the object
    /// is stored nevertheless.
    ///
    /// - Parameters:
    ///   - callback: That the request named.
    ///   - stored: What it is about.
    ///   - response: Of a request without a callback; its fields stay.
    /// - Returns: What the client is answered.
    func answer(_ callback: UploadCallback?, of stored: StoredObject, with response: Response) async -> Response {
        guard let callback, let callbacks else { return response }
        let image = callback.template.asksForImage ? await image(stored) : nil
        let message = CallbackMessage(
            id: "msg_" + stored.upload.id.text,
            host: callback.host,
            contentType: callback.template.format.rawValue,
            content: callback.content(of: stored.subject, CallbackFacts(stored.upload, image))
        )
        var answer = response
        var failure: CallbackFailure?
        for url in callback.urls {
            do throws(CallbackFailure) {
                let json = try await callbacks.send(message, to: url).json()
                callbacks.ended(nil)
                answer.status = 200
                answer.fields["Content-Type"] = "application/json"
                answer.content = .bytes(json)
                return answer
            } catch {
                failure = error
            }
        }
        callbacks.ended(failure)
        let error = S3Error(.callbackFailed, failure?.message)
        let request = stored.subject.request
        answer.status = error.status(.oss)
        answer.fields["Content-Type"] = "application/xml"
        answer.content = .bytes(error.document(.oss, to: request.head, requestID: request.id))
        answer.trace.errorCode = error.codeText(.oss)
        return answer
    }

    /// What the first bytes of an object tell, if it is an image.
    private func image(_ stored: StoredObject) async -> ImageHeader? {
        let count = min(stored.upload.offset, Int64(ImageHeader.maximumBytes))
        guard count > 0, let (media, source) = try? await read(S3CopySource(stored.subject.name), 0...count - 1),
            media.id == stored.upload.id
        else { return nil }
        var bytes: [UInt8] = []
        while let piece = try? await source.next(maximum: ImageHeader.maximumBytes) {
            bytes += piece
            if let image = ImageHeader(bytes) { return image }
        }
        return nil
    }
}

extension S3Handler.StoredObject {
    init(_ name: ObjectName, _ upload: Upload, _ call: S3Call) {
        self.init(
            subject: CallbackSubject(name: name, operation: call.operation, request: call.request),
            upload: upload
        )
    }
}
