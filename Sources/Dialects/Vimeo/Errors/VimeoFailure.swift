internal import Bytes
internal import Foundation
internal import HTTPWire
internal import UploadModel

/// A refusal in the form of Vimeo's API (protocol notes §3.4): status, numeric code, texts, and invalid parameters.
struct VimeoFailure: Error, Equatable {
    struct Parameter: Equatable {
        /// The name of the field, with dots, such as `upload.size`.
        var field: String
        var code: Int
        var message: String
        /// For the developer; `nil` for the message.
        var advice: String?
    }

    var status: Status
    /// `nil` for failures of authentication before 3.4, which have only a text.
    var code: Int?
    /// For the user of the app.
    var message: String
    /// For the developer: what to change.
    var advice: String
    var parameters: [Parameter] = []
    var fields = HTTPFields()

    init(_ status: Status, _ code: Int?, _ message: String, _ advice: String? = nil) {
        self.status = status
        self.code = code
        self.message = message
        self.advice = advice ?? message
    }

    // MARK: Input

    /// 2204: a body whose members are wrong, which are all listed.
    static func invalid(_ parameters: [Parameter]) -> VimeoFailure {
        var failure = VimeoFailure(
            400,
            2204,
            "Something strange occurred. Please contact the app owners.",
            "The parameters passed to this endpoint did not pass our validation; see invalid_parameters."
        )
        failure.parameters = parameters
        return failure
    }

    static func invalid(_ field: String, _ message: String, _ code: Int = 2204) -> VimeoFailure {
        invalid([Parameter(field: field, code: code, message: message)])
    }

    /// 2205: a body that cannot be read.
    static func malformed(_ message: String) -> VimeoFailure {
        VimeoFailure(400, 2205, "The request could not be read.", message)
    }

    /// 3116: members of another version of the API.
    static let wrongVersion = VimeoFailure(
        400,
        3116,
        "The version of the API does not fit to the request.",
        "`upload` needs version 3.4 in `Accept`, `type` one before it."
    )

    // MARK: Access

    /// 401; iOS compares the field exactly.
    static func unauthenticated(_ code: Int, _ message: String) -> VimeoFailure {
        var failure = VimeoFailure(401, code, message)
        failure.fields["WWW-Authenticate"] = "Bearer error=\"invalid_token\""
        return failure
    }

    static let badToken = unauthenticated(8000, "You must provide a valid authenticated access token.")
    static let noToken = unauthenticated(8003, "You must provide a valid authenticated access token.")
    static let noUser = unauthenticated(8002, "The access token has no user; ask for one that has.")

    /// Neither the limits of an app user nor a revocation would hold at the real service.
    static let notDirect = VimeoFailure(
        403,
        nil,
        "Tokens of identity providers are not for direct mode.",
        "Ask the app's backend for a token."
    )
    static let foreignToken = VimeoFailure(
        403,
        nil,
        "The token is not from this server, and does not end here.",
        "Sign out at its issuer."
    )
    static let noPull = VimeoFailure(
        403,
        nil,
        "Tokens of identity providers cannot have files fetched.",
        "Upload the file, or ask the app's backend to have it fetched."
    )

    static func missingScope(_ scope: VimeoScope) -> VimeoFailure {
        VimeoFailure(
            403,
            nil,
            "Your access token does not have the \"\(scope.rawValue)\" scope",
            "Ask for a token with the scope \(scope.rawValue)."
        )
    }

    // MARK: Resources

    static let notFound = VimeoFailure(
        404,
        5000,
        "The requested video couldn't be found.",
        "There is no such resource."
    )

    static let noVideoFile = VimeoFailure(404, 5006, "The video file could not be found.", "Create another ticket.")

    static let badSignature = VimeoFailure(404, 8400, "The signature is wrong.", "Use complete_uri as it was issued.")

    static func methodNotAllowed(_ allowed: [HTTPMethod]) -> VimeoFailure {
        var failure = VimeoFailure(405, nil, "The method is not allowed here.")
        failure.fields["Allow"] = allowed.map(\.rawValue).joined(separator: ", ")
        return failure
    }

    static let busy = VimeoFailure(
        409,
        nil,
        "The video is being changed by another request.",
        "Another request changes the same video; send the request again."
    )

    // MARK: Uploads

    /// What the core's error means to clients of the API.
    ///
    /// - Parameter error: Of a call that concerns a video.
    init(_ error: UploadError) {
        switch error.code {
        case .notFound, .gone: self = .notFound
        case .quotaExceeded(let refusal): self.init(refusal, error.message)
        case .tooLarge: self = .invalid("upload.size", error.message)
        case .contentTypeRefused:
            self = .invalid("name", error.message)
        case .rejected: self.init(403, nil, error.message)
        case .forbidden: self.init(403, nil, error.message)
        case .unauthenticated: self = .unauthenticated(8000, error.message)
        case .busy, .interrupted: self = .busy
        case .invalidRequest: self = .malformed(error.message)
        case .tooManyRequests(let refusal):
            self.init(429, nil, "Too many API requests. Wait a minute, and try again.", error.message)
            fields["Retry-After"] = refusal.retryAfter
            // Some clients take 429 for a rate limit only with this field (protocol notes §3.5).
            fields["X-RateLimit-Remaining"] = "0"
        case .storageFull: self.init(507, nil, "The server has no space left.", error.message)
        case .unavailable, .finishing:
            self.init(503, nil, "The service is not available at the moment.", error.message)
            fields["Retry-After"] = "5"
        case .offsetMismatch, .lengthConflict, .lengthExceeded, .checksumMismatch, .digestMismatch,
            .unsupportedChecksum, .notOpen, .conditionFailed, .invalidParts, .grantUsed, .timedOut, .disconnected,
            .storageFailure:
            self.init(500, 4003, "An internal error occurred.", "An internal error occurred; try again.")
        }
    }

    /// A quota that is used up.
    ///
    /// - Parameters:
    ///   - refusal: By the core.
    ///   - message: Of the core.
    ///   - cap: Total bytes that the token allows; its refusal has a code of its own.
    ///   - quota: Of the user: if a quota of the period would refuse it, too, its code is given (protocol notes §3.4).
    init(_ refusal: QuotaRefusal, _ message: String, cap: Int64? = nil, _ quota: VimeoQuota? = nil) {
        let isOverPeriod = quota?.periodBytes.map { refusal.wanted > $0 - (quota?.periodUsed ?? 0) } ?? false
        let code =
            switch refusal.measure {
            case .storedBytes where isOverPeriod: 4102
            case .storedBytes where refusal.isByCap(cap): 3428
            case .storedBytes: 4101
            case .periodBytes: 4102
            case .openUploads: quota?.hasUsedUploads ?? false ? 4104 : 4103
            case .periodUploads: 4104
            }
        self.init(403, code, "You have reached your upload quota.", message)
        var seconds = refusal.secondsToWait
        if code == 4102 || code == 4104, seconds == nil, let quota {
            seconds = Int64(max(1, quota.periodEnd.timeIntervalSinceNow.rounded(.up)))
        }
        if let seconds { fields["Retry-After"] = String(seconds) }
    }

    // MARK: The response

    func response(requestID: String) -> Response {
        var members: JSONMembers = [
            "error": .string(message), "link": .null, "developer_message": .string(advice),
        ]
        if let code { members["error_code"] = .integer(Int64(code)) }
        if !parameters.isEmpty {
            members["invalid_parameters"] = .array(
                parameters.map { parameter in
                    .object([
                        "field": .string(parameter.field), "error_code": .integer(Int64(parameter.code)),
                        "error": .string(parameter.message),
                        "developer_message": .string(parameter.advice ?? parameter.message),
                    ])
                }
            )
        }
        var fields = fields
        fields["Content-Type"] = "application/vnd.vimeo.error+json"
        fields["Cache-Control"] = "no-store"
        if let code { fields["Vimeo-Error-Code"] = String(code) }
        var response = Response(status, fields, .bytes(VimeoJSON.bytes(.object(members))))
        response.trace.errorCode = code.map(String.init) ?? String(status.code)
        return response
    }
}

extension QuotaRefusal {
    /// Whether what a token allows is used up, and not what the account allows.
    func isByCap(_ cap: Int64?) -> Bool { measure == .storedBytes && account.kind == .subject && limit == cap }
}

/// Encodes documents of the API.
enum VimeoJSON {
    static func bytes(_ value: JSONValue) -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        // Texts, integers and flags always encode.
        return Array((try? encoder.encode(value)) ?? Data())
    }
}
