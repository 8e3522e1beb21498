internal import HTTPWire
internal import UploadModel

/// Why a request is refused or fails.
enum TusFailure: Error, Sendable {
    case upload(UploadError)
    case refused(TusRefusal)

    /// The failure of an append.
    ///
    /// `.rejected` then means that the app has stopped the upload.
    init(ofAppend error: UploadError) {
        self = error.code == .rejected ? .refused(.stopped(error.message)) : .upload(error)
    }

    /// Runs calls into the domain and converts their errors, so that callers handle one error type.
    static func wrapping<Success>(
        _ work: () async throws(UploadError) -> Success
    ) async throws(TusFailure) -> Success {
        do throws(UploadError) {
            return try await work()
        } catch {
            throw .upload(error)
        }
    }
}

/// A violation of the protocol that is detected before the domain is called.
///
/// The texts are for the client.
enum TusRefusal: Sendable {
    case unsupportedVersion
    case methodNotAllowed([HTTPMethod])
    case wrongContentType
    case invalidLength(String)
    case invalidOffset(String)
    case invalidMetadata(String)
    case invalidChecksum(String)
    case invalidConcatenation(String)
    /// The app or the server ended the upload during the request.
    case stopped(String)
}

/// The error table of the dialect.
///
/// tus 1.0.0 defines some status codes and no format. The format is tusd's: a stable code and a text, `ERR_…: text`.
///
/// Where the protocol leaves the status open, client behaviour decides. TUSKit reads `Upload-Offset` from any response
/// to PATCH, so 409 is the only error with that field. tus-js-client retries after 409, 423 and 5xx but gives up after
/// other 4xx; after HEAD it starts from zero unless the status is 423.
enum TusErrors {
    static func response(to failure: TusFailure, for method: HTTPMethod) -> Response {
        var response =
            switch failure {
            case .upload(let error): response(to: error, for: method)
            case .refused(let refusal): response(to: refusal)
            }
        if method == .head { response.content = .empty }
        return response
    }

    private static func response(to error: UploadError, for method: HTTPMethod) -> Response {
        let text = error.message
        switch error.code {
        case .invalidRequest: return response(400, "ERR_INVALID_REQUEST", text)
        case .unauthenticated:
            let challenge = error.refusesCredential ? "Bearer " + BearerChallenge.invalidToken(text) : "Bearer"
            return response(401, "ERR_UNAUTHENTICATED", text, ["WWW-Authenticate": challenge])
        case .forbidden(let scope):
            // RFC 6750 §3.1
            let challenge = scope.map { "Bearer error=\"insufficient_scope\", scope=\"\($0)\"" }
            return response(403, "ERR_FORBIDDEN", text, challenge.map { ["WWW-Authenticate": $0] } ?? [:])
        case .notFound: return response(404, "ERR_UPLOAD_NOT_FOUND", text)
        case .gone: return response(410, "ERR_UPLOAD_GONE", text)
        case .offsetMismatch(let expected):
            return response(409, "ERR_MISMATCHED_OFFSET", text, ["Upload-Offset": String(expected)])
        // tus 1.0.0, creation-defer-length, fixes no status; tusd has 400.
        case .lengthConflict: return response(400, "ERR_INVALID_UPLOAD_LENGTH", text)
        case .lengthExceeded: return response(413, "ERR_UPLOAD_SIZE_EXCEEDED", text)
        case .tooLarge: return response(413, "ERR_MAX_SIZE_EXCEEDED", text)
        case .contentTypeRefused: return response(415, "ERR_CONTENT_TYPE_REFUSED", text)
        case .checksumMismatch: return response(460, "ERR_CHECKSUM_MISMATCH", text)
        // Not 460: clients would send the same bytes again.
        case .digestMismatch: return response(400, "ERR_DIGEST_MISMATCH", text)
        case .unsupportedChecksum(let offered):
            return response(
                400,
                "ERR_UNSUPPORTED_CHECKSUM",
                text + " Offered: " + offered.joined(separator: ", ") + ".",
                ["Tus-Checksum-Algorithm": offered.joined(separator: ",")]
            )
        // tus 1.0.0, concatenation: a PATCH to a final upload.
        case .notOpen: return response(403, "ERR_FINAL_UPLOAD", text)
        case .conditionFailed: return response(412, "ERR_CONDITION_FAILED", text)
        case .invalidParts: return response(400, "ERR_INVALID_PARTS", text)
        case .grantUsed: return response(403, "ERR_GRANT_USED", text)
        case .quotaExceeded(let refusal):
            let fields: HTTPFields? = refusal.secondsToWait.map { ["Retry-After": String($0)] }
            return response(refusal.resetsAt == nil ? 403 : 429, "ERR_QUOTA_EXCEEDED", text, fields ?? [:])
        // Uppy waits after 429. After HEAD, tus-js-client begins anew unless the status is 423.
        case .tooManyRequests(let refusal):
            var fields = HTTPFields()
            fields["Retry-After"] = refusal.retryAfter
            fields["RateLimit-Policy"] = refusal.policyField
            fields["RateLimit"] = refusal.limitField
            return response(transient(429, method), "ERR_TOO_MANY_REQUESTS", text, fields)
        case .rejected: return response(400, "ERR_REJECTED", text)
        case .interrupted: return response(423, "ERR_UPLOAD_INTERRUPTED", text, closes: true)
        case .busy: return response(423, "ERR_UPLOAD_LOCKED", text, retryAfter)
        case .timedOut: return response(transient(408, method), "ERR_READ_TIMEOUT", text, closes: true)
        // Only a client that closed its sending side can see this: the body was shorter than announced (RFC 9112 §8).
        case .disconnected: return response(400, "ERR_BODY_INCOMPLETE", text, closes: true)
        case .storageFull: return response(transient(507, method), "ERR_STORAGE_FULL", text + " Try again later.")
        case .storageFailure: return response(500, "ERR_STORAGE_FAILURE", text)
        case .finishing: return response(transient(503, method), "ERR_FINISHING", text, retryAfter)
        case .unavailable: return response(transient(503, method), "ERR_UNAVAILABLE", text, retryAfter, closes: true)
        }
    }

    private static func response(to refusal: TusRefusal) -> Response {
        switch refusal {
        case .unsupportedVersion:
            response(
                412,
                "ERR_UNSUPPORTED_VERSION",
                "Send Tus-Resumable: \(Tus.version).",
                ["Tus-Version": Tus.version]
            )
        case .methodNotAllowed(let allowed):
            response(
                405,
                "ERR_METHOD_NOT_ALLOWED",
                "This resource does not support this method; see Allow.",
                ["Allow": allowed.map(\.rawValue).joined(separator: ", ")]
            )
        case .wrongContentType:
            response(415, "ERR_INVALID_CONTENT_TYPE", "Send Content-Type: application/offset+octet-stream.")
        case .invalidLength(let text): response(400, "ERR_INVALID_UPLOAD_LENGTH", text)
        case .invalidOffset(let text): response(400, "ERR_INVALID_OFFSET", text)
        case .invalidMetadata(let text): response(400, "ERR_INVALID_METADATA", text)
        case .invalidChecksum(let text):
            response(
                400,
                "ERR_INVALID_CHECKSUM",
                text + " Offered: " + TusChecksum.offered.joined(separator: ", ") + ".",
                ["Tus-Checksum-Algorithm": TusChecksum.offered.joined(separator: ",")]
            )
        case .invalidConcatenation(let text): response(400, "ERR_INVALID_CONCAT", text)
        // The same code and status as tusd.
        case .stopped(let text): response(400, "ERR_UPLOAD_STOPPED", text)
        }
    }

    /// In seconds: short for an impatient client, long enough for a restart.
    private static let retryAfter: HTTPFields = ["Retry-After": "1"]

    /// Temporary failures are 423 for HEAD.
    private static func transient(_ status: Status, _ method: HTTPMethod) -> Status {
        method == .head ? 423 : status
    }

    private static func response(
        _ status: Status,
        _ code: String,
        _ text: String,
        _ fields: HTTPFields = [:],
        closes: Bool = false
    ) -> Response {
        var fields = fields
        // 404 and 410 are cacheable by default (RFC 9110 §15.1), but no response about an upload may be cached.
        fields.append("Cache-Control", "no-store")
        fields.append("Content-Type", "text/plain; charset=utf-8")
        var response = Response(status, fields, .bytes(Array("\(code): \(text)\n".utf8)))
        response.closesConnection = closes
        response.trace.errorCode = code
        return response
    }
}
