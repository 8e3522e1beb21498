internal import Foundation
internal import HTTPWire
internal import UploadModel

/// Why a request is refused or fails; rendered as a problem document (RFC 9457).
struct UploadProblem: Error {
    var status: Status
    /// Stable; for programs.
    var code: String
    /// `nil` if the problem says no more than its status.
    var type: String?
    /// For the client: what is wrong and what to change.
    var detail: String
    var expectedOffset: Int64?
    var providedOffset: Int64?
    /// Used with `expectedOffset`: whether the upload is complete.
    var isComplete = false
    var quota: QuotaRefusal?
    var fields = HTTPFields()
    var closesConnection = false

    init(_ status: Status, _ code: String, type: String? = nil, _ detail: String) {
        self.status = status
        self.code = code
        self.type = type.map { "https://iana.org/assignments/http-problem-types#" + $0 }
        self.detail = detail
    }

    static let mismatchingOffset = "mismatching-upload-offset"
    static let inconsistentLength = "inconsistent-upload-length"
    static let completedUpload = "completed-upload"

    static func wrapping<Success>(
        _ work: () async throws(UploadError) -> Success
    ) async throws(UploadProblem) -> Success {
        do throws(UploadError) {
            return try await work()
        } catch {
            throw UploadProblem(error)
        }
    }

    /// The error table of the dialect.
    ///
    /// Clients retry after 5xx and stop after 4xx (draft §4.4), so temporary failures are 5xx. The exception is content
    /// that arrived too slowly, which is caused by the client (RFC 9110 §15.5.9).
    init(_ error: UploadError) {
        let text = error.message
        switch error.code {
        case .invalidRequest: self.init(400, error.code.name, text)
        case .unauthenticated:
            self.init(401, error.code.name, text)
            fields["WWW-Authenticate"] =
                error.refusesCredential ? "Bearer " + BearerChallenge.invalidToken(text) : "Bearer"
        case .forbidden(let scope):
            self.init(403, error.code.name, text)
            // RFC 6750 §3.1
            if let scope { fields["WWW-Authenticate"] = "Bearer error=\"insufficient_scope\", scope=\"\(scope)\"" }
        case .notFound: self.init(404, error.code.name, text)
        case .gone: self.init(410, error.code.name, text)
        case .offsetMismatch(let expected):
            self.init(409, error.code.name, type: Self.mismatchingOffset, text)
            expectedOffset = expected
        case .lengthConflict, .lengthExceeded: self.init(400, error.code.name, type: Self.inconsistentLength, text)
        case .tooLarge: self.init(413, error.code.name, text)
        case .contentTypeRefused: self.init(415, error.code.name, text)
        case .checksumMismatch, .digestMismatch: self.init(400, error.code.name, text)
        case .unsupportedChecksum(let offered):
            self.init(400, error.code.name, text + " Offered: " + offered.joined(separator: ", ") + ".")
        case .notOpen: self.init(400, error.code.name, type: Self.completedUpload, text)
        case .conditionFailed: self.init(412, error.code.name, text)
        case .invalidParts: self.init(400, error.code.name, text)
        case .grantUsed: self.init(403, error.code.name, text)
        case .quotaExceeded(let refusal):
            self.init(refusal.resetsAt == nil ? 403 : 429, error.code.name, text)
            quota = refusal
            if let seconds = refusal.secondsToWait { fields["Retry-After"] = String(seconds) }
        case .tooManyRequests(let refusal):
            self.init(429, error.code.name, text)
            fields["Retry-After"] = refusal.retryAfter
            fields["RateLimit-Policy"] = refusal.policyField
            fields["RateLimit"] = refusal.limitField
        case .rejected: self.init(400, error.code.name, text)
        case .interrupted:
            self.init(409, error.code.name, text)
            closesConnection = true
        case .busy, .finishing, .unavailable:
            self.init(503, error.code.name, text)
            fields["Retry-After"] = "1"
            closesConnection = error.code == .unavailable
        case .timedOut:
            self.init(408, error.code.name, text)
            closesConnection = true
        case .disconnected:
            self.init(400, error.code.name, text)
            closesConnection = true
        case .storageFull: self.init(507, error.code.name, text)
        case .storageFailure: self.init(500, error.code.name, text)
        }
    }

    private struct Document: Encodable {
        var type: String
        var title: String
        var status: Int
        var code: String
        var detail: String
        var requestId: String
        var expectedOffset: Int64?
        var providedOffset: Int64?
        var quota: QuotaRefusal?

        enum CodingKeys: String, CodingKey {
            case type, title, status, code, detail, quota, requestId
            case expectedOffset = "expected-offset"
            case providedOffset = "provided-offset"
        }
    }

    func response(requestID: String) -> Response {
        let document = Document(
            type: type ?? "about:blank",
            title: status.phrase,
            status: status.code,
            code: code,
            detail: detail,
            requestId: requestID,
            expectedOffset: expectedOffset,
            providedOffset: providedOffset,
            quota: quota
        )
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        var response = Response(status, ["Content-Type": "application/problem+json", "Cache-Control": "no-store"])
        response.fields.append(contentsOf: fields)
        // Strings and numbers, which can always be encoded.
        response.content = .bytes([UInt8]((try? encoder.encode(document)) ?? Data()) + [10])
        response.closesConnection = closesConnection
        response.trace.errorCode = code
        return response
    }
}
