internal import HTTPClient
internal import UploadCore
internal import XMLText

/// Why the store did not do what it was asked to.
struct S3Failure: Error, Sendable, CustomStringConvertible {
    enum Kind: String, Sendable, Equatable {
        /// The store can not be reached, is overloaded, or broken; it was tried again without success.
        case away
        /// What was asked for is not there.
        case missing
        /// Our credentials are not, or not any more, good for this.
        case denied
        /// The store has no room, or no more for us.
        case full
        /// It answers something else than what was asked for.
        case refused
        /// The content of the request did not come to its end.
        case contentFailed = "content_failed"
        /// Given up by us.
        case cancelled
    }

    var kind: Kind
    /// Of the answer; 0 if there was none.
    var status = 0
    /// The store's word for it, such as `NoSuchUpload`.
    var code: String?
    var message: String

    var description: String {
        [code.map { "\($0):" }, message, status > 0 ? "(status \(status))" : nil].compactMap { $0 }.joined(
            separator: " "
        )
    }

    init(_ kind: Kind, _ message: String, status: Int = 0, code: String? = nil) {
        self.kind = kind
        self.status = status
        self.code = code
        self.message = message
    }

    /// What an answer means that is no success.
    init(status: Int, body: [UInt8]) {
        let document = XMLNode.parse(body)
        // An error within an answer that began well (CompleteMultipartUpload) stands alone or in a list.
        let error = document?.name == "Error" ? document : document?.all("Error").first
        let code = error?["Code"]
        let text = error?["Message"] ?? ""
        self.init(
            Self.kind(status, code),
            text.isEmpty ? "the store answered \(status)" : String(text.prefix(300)),
            status: status,
            code: code.map { String($0.prefix(80)) }
        )
    }

    init(_ error: HTTPClientError) {
        switch error {
        case .cancelled, .stopped: self.init(.cancelled, error.message)
        case .badRequest: self.init(.refused, error.message)
        case .contentFailed: self.init(.contentFailed, error.message)
        default: self.init(.away, error.message)
        }
    }

    private static func kind(_ status: Int, _ code: String?) -> Kind {
        switch code {
        case "NoSuchKey", "NoSuchUpload", "NoSuchBucket", "NotFound": return .missing
        case "QuotaExceeded", "InsufficientStorage", "StorageFull", "XMinioStorageFull", "EntityTooLarge": return .full
        case "SlowDown", "ServiceUnavailable", "InternalError", "RequestTimeout", "OperationAborted", "Throttling",
            "TooManyRequests", "RequestLimitExceeded", "RequestTimeTooSkewed", "IncompleteBody",
            // Bytes were changed on their way.
            "BadDigest":
            return .away
        default: break
        }
        switch status {
        case 401, 403: return .denied
        case 404: return .missing
        case 408, 429, 500, 502, 503, 504: return .away
        case 507: return .full
        default: return .refused
        }
    }

    /// Whether the same request may succeed a little later.
    var isTransient: Bool { kind == .away }

    /// Whether other credentials, or newer ones, may help.
    var isAboutCredentials: Bool {
        kind == .denied
            || ["ExpiredToken", "InvalidToken", "TokenRefreshRequired", "ExpiredTokenException"].contains(code)
    }

    /// What it means for an upload; that something is missing is a loss, where the caller does not know better.
    var uploadError: UploadError {
        switch kind {
        case .away, .denied, .cancelled:
            // That our key does not fit is the operator's business, and soon mended: what is stored is not lost.
            UploadError(.unavailable, "The store of the server is not available now; try again later.", cause: self)
        case .full: UploadError(.storageFull, "The store has no room for more.", cause: self)
        case .missing, .refused, .contentFailed:
            UploadError(.storageFailure, "The store of the server did not do what it was asked to.", cause: self)
        }
    }
}
