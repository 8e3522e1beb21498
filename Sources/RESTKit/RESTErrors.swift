package import Bytes
internal import HTTPWire
package import UploadModel

/// Converts domain errors to problems of the REST API.
package enum RESTErrors {
    package static func problem(_ error: UploadError) -> Problem {
        func make(_ status: Status, closes: Bool = false) -> Problem {
            var problem = Problem(status, error.code.name, error.message)
            problem.closesConnection = closes
            return problem
        }
        switch error.code {
        case .invalidRequest: return make(400)
        case .unauthenticated:
            var problem = make(401)
            let realm = "Bearer realm=\"sluice\""
            problem.fields["WWW-Authenticate"] =
                error.refusesCredential ? "\(realm), \(BearerChallenge.invalidToken(error.message))" : realm
            return problem
        case .forbidden(let scope):
            var problem = make(403)
            if let scope {
                problem.fields["WWW-Authenticate"] =
                    "Bearer realm=\"sluice\", error=\"insufficient_scope\", scope=\"\(scope)\""
            }
            return problem
        case .notFound: return make(404)
        case .gone: return make(410)
        case .offsetMismatch: return make(409)
        case .lengthConflict: return make(409)
        case .lengthExceeded: return make(413)
        case .tooLarge: return make(413)
        case .contentTypeRefused: return make(415)
        case .checksumMismatch: return make(460)
        case .digestMismatch: return make(400)
        case .unsupportedChecksum: return make(400)
        case .notOpen: return make(409)
        case .conditionFailed: return make(412)
        case .invalidParts: return make(400)
        case .grantUsed: return make(403)
        case .quotaExceeded(let refusal):
            var problem = make(refusal.resetsAt == nil ? 403 : 429)
            problem.quota = refusal
            if let seconds = refusal.secondsToWait { problem.fields["Retry-After"] = String(seconds) }
            return problem
        case .tooManyRequests(let refusal):
            var problem = make(429)
            problem.fields["Retry-After"] = refusal.retryAfter
            problem.fields["RateLimit-Policy"] = refusal.policyField
            problem.fields["RateLimit"] = refusal.limitField
            return problem
        case .rejected: return make(400)
        case .interrupted: return make(423, closes: true)
        case .busy:
            var problem = make(423)
            problem.fields["Retry-After"] = "1"
            return problem
        case .timedOut: return make(408, closes: true)
        case .disconnected: return make(400, closes: true)
        case .storageFull: return make(507)
        case .storageFailure: return make(500)
        case .finishing:
            var problem = make(503)
            problem.fields["Retry-After"] = "2"
            return problem
        case .unavailable:
            var problem = make(503, closes: true)
            problem.fields["Retry-After"] = "5"
            return problem
        }
    }

    /// A request whose content could not be read.
    package static func problem(_ failure: SourceFailure) -> Problem {
        var problem =
            switch failure {
            case .tooLarge(let limit):
                Problem(413, "content_too_large", "the content of this request is limited to \(limit) bytes")
            case .malformed(let reason): Problem(400, "malformed_request", "the content is malformed: \(reason)")
            case .timedOut: Problem(408, "request_timeout", "the content of the request did not arrive in time")
            case .shuttingDown: Problem(503, "unavailable", "the server is stopping; try again")
            case .disconnected, .interrupted: Problem(400, "disconnected", "the content of the request was cut off")
            }
        problem.closesConnection = true
        return problem
    }
}
