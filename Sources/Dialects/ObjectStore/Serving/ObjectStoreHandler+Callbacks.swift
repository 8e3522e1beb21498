internal import Bytes
internal import HTTPWire
internal import ObjectGrants
internal import Signing
internal import UploadCore
internal import UploadModel

/// "Callback", OSS documentation: an app is notified of an object, and its response becomes the client's response.
extension ObjectStoreHandler {
    /// The callback in a request's header or query.
    ///
    /// - Returns: `nil` without one, and for operations that create no object, because some clients send it with every
    ///   request.
    /// - Throws: `InvalidArgument`; `NotImplemented` if callbacks are disabled.
    func callback(of call: ObjectCall) throws(ObjectError) -> UploadCallback? {
        guard let named = call.command.callback else { return nil }
        switch call.operation {
        case .putObject(let name), .completeMultipartUpload(let name, _):
            return try checked(
                named.text,
                try named.variables.map { (text) throws(ObjectError) in try UploadCallback.variables(text) } ?? [:],
                CallbackSubject(name: name, operation: call.operation, request: call.request)
            )
        case .appendObject, .copyObject:
            throw ObjectError(
                .notImplemented,
                "\(call.operation.name) does not support callbacks: leave x-oss-callback out."
            )
        default:
            if callbacks == nil { throw Self.noCallbacks }
            return nil
        }
    }

    /// The callback in a form; the client's variables are in fields whose names begin with `x:`.
    ///
    /// - Parameters:
    ///   - form: Already allowed by its policy.
    ///   - policy: The policy of the form.
    ///   - subject: The object being created.
    /// - Returns: `nil` without one.
    /// - Throws: As `callback(of:)`.
    func callback(
        of form: PostForm,
        _ policy: PostPolicy,
        about subject: CallbackSubject
    ) throws(ObjectError) -> UploadCallback? {
        guard form.vendor == .aliyun, let callback = form["callback"] else { return nil }
        var variables =
            try form["callback-var"].map { (text) throws(ObjectError) in
                try UploadCallback.variables(text)
            } ?? [:]
        // A condition of the policy on a field also applies to the variable sent to the app.
        for name in variables.keys.sorted() where form[name] != nil || policy.hasCondition(for: name) {
            let message = "\(name) is a field of the form or of its policy: leave it out of callback-var."
            throw .argument("callback-var", nil, message)
        }
        for field in form.fields {
            if let name = CallbackVariable.customName(field.name) { variables[name] = field.value }
        }
        return try checked(callback, variables, subject)
    }

    private static let noCallbacks = ObjectError(
        .notImplemented,
        "Callbacks are not allowed: leave them out, or have their host added to the setting object.callbackHosts."
    )

    private func checked(
        _ text: String,
        _ variables: ExactNames<String>,
        _ subject: CallbackSubject
    ) throws(ObjectError) -> UploadCallback {
        guard let callbacks else { throw Self.noCallbacks }
        let callback = try UploadCallback(text, variables: variables)
        for url in callback.urls {
            switch callbacks.problem(with: url) {
            case nil: break
            case .malformed: throw .argument("callbackUrl", url, "The callbackUrl is not an http or https URL.")
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
            let message =
                "The callback body with its values must have at most 64 KiB: use fewer variables, or shorter ones."
            throw .argument("callbackBody", nil, message)
        }
        return callback
    }

    /// An object that was stored, and how it was.
    struct StoredObject {
        let subject: CallbackSubject
        let upload: Upload
    }

    /// Sends the callback, if there is one, and returns the resulting response.
    ///
    /// The URLs are tried in order until one responds as required. If none does, the status is 203: the object is
    /// stored nevertheless.
    ///
    /// - Parameters:
    ///   - callback: The callback of the request.
    ///   - stored: The stored object.
    ///   - response: The response without a callback; its fields are kept.
    /// - Returns: The response for the client.
    func response(_ callback: UploadCallback?, of stored: StoredObject, with response: Response) async -> Response {
        guard let callback, let callbacks else { return response }
        let image = callback.template.asksForImage ? await image(stored) : nil
        var message = CallbackMessage(
            id: "msg_" + stored.upload.id.text,
            host: callback.host,
            contentType: callback.template.format.rawValue,
            content: callback.content(of: stored.subject, CallbackFacts(stored.upload, image))
        )
        message.subject = stored.upload.subject
        var response = response
        var failure: CallbackFailure?
        for url in callback.urls {
            do throws(CallbackFailure) {
                let json = try await callbacks.send(message, to: url).json()
                callbacks.ended(nil)
                response.status = 200
                response.fields["Content-Type"] = "application/json"
                response.content = .bytes(json)
                return response
            } catch {
                failure = error
            }
        }
        callbacks.ended(failure)
        let error = ObjectError(.callbackFailed, failure?.message)
        let request = stored.subject.request
        response.status = error.status(.aliyun)
        response.fields["Content-Type"] = "application/xml"
        response.content = .bytes(error.document(.aliyun, to: request.head, requestID: request.id))
        response.trace.errorCode = error.codeText(.aliyun)
        return response
    }

    /// The image header in the first bytes of an object, if it is an image.
    private func image(_ stored: StoredObject) async -> ImageHeader? {
        let count = min(stored.upload.offset, Int64(ImageHeader.maximumBytes))
        guard count > 0, let (media, source) = try? await read(CopySource(stored.subject.name), 0...count - 1),
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

extension ObjectStoreHandler.StoredObject {
    init(_ name: ObjectName, _ upload: Upload, _ call: ObjectCall) {
        self.init(
            subject: CallbackSubject(name: name, operation: call.operation, request: call.request),
            upload: upload
        )
    }
}
