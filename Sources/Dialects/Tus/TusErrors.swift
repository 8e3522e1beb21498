internal import HTTPWire
internal import UploadCore

/// Why a request gets no good answer.
enum TusFailure: Error, Sendable {
    case upload(UploadError)
    case refused(TusRefusal)

    /// That of an append, which is `.rejected` only where the app has stopped the upload.
    init(ofAppend error: UploadError) {
        self = error.code == .rejected ? .refused(.stopped(error.message)) : .upload(error)
    }

    /// Runs calls into the domain, so that their errors and those of the dialect come out as one type.
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

/// What is wrong with a request in the words of the protocol, before the domain is asked.
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
    /// The app or the server has ended the upload while bytes came.
    case stopped(String)
}

/// The error table of the dialect.
///
/// tus 1.0.0 fixes some status codes and no form; the form is tusd's, a stable code and a text: `ERR_…: text`.
///
/// Clients rule the choice of status where the protocol leaves one: TUSKit reads `Upload-Offset` from any answer to a
/// PATCH, so no error but 409 has it; tus-js-client tries again after 409, 423 and 5xx but gives up after other 4xx,
/// and after HEAD starts from zero unless it sees 423.
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
        case .invalidRequest: return answer(400, "ERR_INVALID_REQUEST", text)
        case .unauthenticated:
            return answer(401, "ERR_UNAUTHENTICATED", text, ["WWW-Authenticate": "Bearer"])
        case .forbidden(let scope):
            // RFC 6750 §3.1
            let challenge = scope.map { "Bearer error=\"insufficient_scope\", scope=\"\($0)\"" }
            return answer(403, "ERR_FORBIDDEN", text, challenge.map { ["WWW-Authenticate": $0] } ?? [:])
        case .notFound: return answer(404, "ERR_UPLOAD_NOT_FOUND", text)
        case .gone: return answer(410, "ERR_UPLOAD_GONE", text)
        case .offsetMismatch(let expected):
            return answer(409, "ERR_MISMATCHED_OFFSET", text, ["Upload-Offset": String(expected)])
        // tus 1.0.0, creation-defer-length, fixes no status; tusd has 400.
        case .lengthConflict: return answer(400, "ERR_INVALID_UPLOAD_LENGTH", text)
        case .lengthExceeded: return answer(413, "ERR_UPLOAD_SIZE_EXCEEDED", text)
        case .tooLarge: return answer(413, "ERR_MAX_SIZE_EXCEEDED", text)
        case .contentTypeRefused: return answer(415, "ERR_CONTENT_TYPE_REFUSED", text)
        case .checksumMismatch: return answer(460, "ERR_CHECKSUM_MISMATCH", text)
        // Not 460, after which the same bytes could be sent again.
        case .digestMismatch: return answer(400, "ERR_DIGEST_MISMATCH", text)
        case .unsupportedChecksum(let offered):
            return answer(
                400,
                "ERR_UNSUPPORTED_CHECKSUM",
                text + " Offered: " + offered.joined(separator: ", ") + ".",
                ["Tus-Checksum-Algorithm": offered.joined(separator: ",")]
            )
        // tus 1.0.0, concatenation: PATCH to a final upload.
        case .notOpen: return answer(403, "ERR_FINAL_UPLOAD", text)
        case .conditionFailed: return answer(412, "ERR_CONDITION_FAILED", text)
        case .invalidParts: return answer(400, "ERR_INVALID_PARTS", text)
        case .grantUsed: return answer(403, "ERR_GRANT_USED", text)
        case .quotaExceeded(let refusal):
            let fields: HTTPFields? = refusal.secondsToWait.map { ["Retry-After": String($0)] }
            return answer(refusal.resetsAt == nil ? 403 : 429, "ERR_QUOTA_EXCEEDED", text, fields ?? [:])
        case .rejected: return answer(400, "ERR_REJECTED", text)
        case .interrupted: return answer(423, "ERR_UPLOAD_INTERRUPTED", text, closes: true)
        case .busy: return answer(423, "ERR_UPLOAD_LOCKED", text, retryAfter)
        case .timedOut: return answer(transient(408, method), "ERR_READ_TIMEOUT", text, closes: true)
        // Only a client that closed one direction sees this: a body shorter than announced (RFC 9112 §8).
        case .disconnected: return answer(400, "ERR_BODY_INCOMPLETE", text, closes: true)
        case .storageFull: return answer(transient(507, method), "ERR_STORAGE_FULL", text + " Try again later.")
        case .storageFailure: return answer(500, "ERR_STORAGE_FAILURE", text)
        case .finishing: return answer(transient(503, method), "ERR_FINISHING", text, retryAfter)
        case .unavailable: return answer(transient(503, method), "ERR_UNAVAILABLE", text, retryAfter, closes: true)
        }
    }

    private static func response(to refusal: TusRefusal) -> Response {
        switch refusal {
        case .unsupportedVersion:
            answer(
                412,
                "ERR_UNSUPPORTED_VERSION",
                "Send Tus-Resumable: \(Tus.version).",
                ["Tus-Version": Tus.version]
            )
        case .methodNotAllowed(let allowed):
            answer(
                405,
                "ERR_METHOD_NOT_ALLOWED",
                "This resource has no such method; see Allow.",
                ["Allow": allowed.map(\.rawValue).joined(separator: ", ")]
            )
        case .wrongContentType:
            answer(415, "ERR_INVALID_CONTENT_TYPE", "Send Content-Type: application/offset+octet-stream.")
        case .invalidLength(let text): answer(400, "ERR_INVALID_UPLOAD_LENGTH", text)
        case .invalidOffset(let text): answer(400, "ERR_INVALID_OFFSET", text)
        case .invalidMetadata(let text): answer(400, "ERR_INVALID_METADATA", text)
        case .invalidChecksum(let text):
            answer(
                400,
                "ERR_INVALID_CHECKSUM",
                text + " Offered: " + TusChecksum.offered.joined(separator: ", ") + ".",
                ["Tus-Checksum-Algorithm": TusChecksum.offered.joined(separator: ",")]
            )
        case .invalidConcatenation(let text): answer(400, "ERR_INVALID_CONCAT", text)
        // The code and the status of tusd.
        case .stopped(let text): answer(400, "ERR_UPLOAD_STOPPED", text)
        }
    }

    /// In seconds: soon enough for an impatient client, late enough for a restart.
    private static let retryAfter: HTTPFields = ["Retry-After": "1"]

    /// What passes by itself is 423 on HEAD.
    private static func transient(_ status: Status, _ method: HTTPMethod) -> Status {
        method == .head ? 423 : status
    }

    private static func answer(
        _ status: Status,
        _ code: String,
        _ text: String,
        _ fields: HTTPFields = [:],
        closes: Bool = false
    ) -> Response {
        var fields = fields
        // 404 and 410 may be cached otherwise (RFC 9110 §15.1), and nothing about an upload may be.
        fields.append("Cache-Control", "no-store")
        fields.append("Content-Type", "text/plain; charset=utf-8")
        var response = Response(status, fields, .bytes(Array("\(code): \(text)\n".utf8)))
        response.closesConnection = closes
        return response
    }
}
