import HTTPWire
import RESTKit
import UploadModel

/// The table of errors of Lantern.
struct LanternFailure: Error, Equatable {
    var status: Status
    var code: String
    var message: String
    var retryAfter: String?

    init(_ status: Status, _ code: String, _ message: String) {
        self.status = status
        self.code = code
        self.message = message
    }

    static let noVideo = LanternFailure(404, "no_video", "There is no such video.")
    static let foreignUser = LanternFailure(403, "forbidden", "The API key is not for this user.")

    static func incomplete(_ offset: Int64) -> LanternFailure {
        LanternFailure(409, "incomplete", "Only \(offset) bytes are there; send the others first.")
    }

    static func malformed(_ message: String) -> LanternFailure { LanternFailure(400, "malformed", message) }

    init(_ error: UploadError) {
        let (status, code): (Status, String) =
            switch error.code {
            case .invalidRequest: (400, "malformed")
            case .unauthenticated: (401, "unauthenticated")
            case .forbidden, .rejected, .grantUsed: (403, "forbidden")
            case .notFound, .gone: (404, "no_video")
            case .busy, .interrupted, .notOpen, .conditionFailed: (409, "busy")
            case .tooLarge, .lengthExceeded: (413, "too_large")
            case .contentTypeRefused: (415, "no_such_type")
            case .quotaExceeded: (403, "quota")
            case .tooManyRequests: (429, "slow_down")
            case .storageFull: (507, "full")
            case .unavailable, .finishing: (503, "later")
            case .offsetMismatch, .lengthConflict, .checksumMismatch, .digestMismatch, .unsupportedChecksum,
                .invalidParts, .timedOut, .disconnected, .storageFailure:
                (500, "failure")
            }
        self.init(status, code, error.message)
        retryAfter = error.retryAfter
    }

    var response: Response {
        var response = JSONResponse.response(status, ["error": code, "message": message])
        response.fields["Retry-After"] = retryAfter
        response.trace.errorCode = code
        return response
    }
}
