internal import Bytes
internal import HTTPClient
internal import UploadModel
internal import XMLText

/// Why a request to the store failed.
struct S3Failure: Error, Sendable, CustomStringConvertible {
    enum Kind: String, Sendable, Equatable {
        /// The store is unreachable, overloaded or broken; retries did not help.
        case away
        /// The requested object or upload does not exist.
        case missing
        /// Our credentials do not allow the request, or not any more.
        case denied
        /// The store has no space left, or our quota is used up.
        case full
        /// The response is not the expected one.
        case refused
        /// The content of the request ended early.
        case contentFailed = "content_failed"
        /// Cancelled by us.
        case cancelled
    }

    var kind: Kind
    /// Status of the response; 0 if there was none.
    var status = 0
    /// The store's error code, such as `NoSuchUpload`.
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

    /// A store that returns the same page for ever must not be asked for ever.
    static let endlessList = S3Failure(.refused, "the store returned a list without an end")

    /// Interprets a response that is not a success.
    ///
    /// An answer to a HEAD has no code, and S3 gives it status 400 if the token has expired.
    init(status: Int, body: [UInt8], isHead: Bool = false) {
        let document = XMLNode.parse(body)
        // An error in a response with status 200 (CompleteMultipartUpload) is the root or in a list.
        let error = document?.name == "Error" ? document : document?.all("Error").first
        let code = error?["Code"]
        let text = error?["Message"] ?? ""
        self.init(
            isHead && status == 400 ? .denied : Self.kind(status, code),
            text.isEmpty ? "the store responded with status \(status)" : text.first(scalars: 300),
            status: status,
            code: code.map { $0.first(scalars: 80) }
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
            // Bytes were changed during the transfer.
            "BadDigest":
            return .away
        // S3 answers these with status 400.
        case "ExpiredToken", "ExpiredTokenException", "InvalidToken", "TokenRefreshRequired", "RequestExpired",
            "AuthorizationHeaderMalformed":
            return .denied
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

    /// Whether the same request may succeed later.
    var isTransient: Bool { kind == .away }

    /// Whether other or newer credentials may help.
    var isAboutCredentials: Bool { kind == .denied }

    /// The error for an upload.
    ///
    /// A missing object is a loss, unless the caller knows better.
    var uploadError: UploadError {
        switch kind {
        case .away, .denied, .cancelled:
            // Refused credentials are the operator's problem and can be fixed: nothing stored is lost.
            UploadError(.unavailable, "The server's store is not available; try again later.", cause: self)
        case .full: UploadError(.storageFull, "The store has no space left.", cause: self)
        case .missing, .refused, .contentFailed:
            UploadError(.storageFailure, "The server's store failed; contact the operator of the server.", cause: self)
        }
    }
}
