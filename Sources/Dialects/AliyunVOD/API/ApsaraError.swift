internal import CloudCalls
internal import UploadModel

/// Why a call is not served.
enum ApsaraError: Error, Sendable {
    case refused(AliyunCallFailure)
    /// By the core, which refuses or has failed.
    case core(UploadError)

    init(_ status: Int, _ code: String, _ message: String) {
        self = .refused(AliyunCallFailure(status, code, message))
    }

    /// The answer; `nil` if the call cannot be served now.
    var refusal: AliyunCallFailure? {
        switch self {
        case .refused(let failure): failure
        case .core(let error): AliyunCallFailure(refusal: error)
        }
    }

    /// `Retry-After`; `nil` without one.
    var retryAfter: String? { if case .core(let error) = self { error.retryAfter } else { nil } }

    /// For the log, and for whoever asks for a job.
    var message: String {
        switch self {
        case .refused(let failure): failure.message
        case .core(let error): error.message
        }
    }

    static let forbidden = ApsaraError(
        403,
        "Forbidden",
        "The caller is not allowed to do this: check the scopes and limits of the API key, or the policy of the session."
    )

    static func invalid(_ name: String, _ rule: String) -> ApsaraError { .refused(.invalid(name, rule)) }

    static func missing(_ name: String) -> ApsaraError { .refused(.missing(name)) }

    static let duplicatedReference = ApsaraError(
        400,
        "InvalidReferenceId.Duplicated",
        "The `ReferenceId` belongs to other media of this application."
    )

    static let noVideo = ApsaraError(404, "InvalidVideo.NotFound", "There is no video with this id.")
    static let noImage = ApsaraError(404, "InvalidImage.NotFound", "There is no image with this id.")
    static let noMedia = ApsaraError.refused(.noMedia)
}

extension AliyunCallFailure {
    static let noMedia = AliyunCallFailure(404, "InvalidMedia.NotFound", "There is no media with this id.")

    static func invalid(_ name: String, _ rule: String) -> AliyunCallFailure {
        AliyunCallFailure(400, "InvalidParameter", "`\(name)` \(rule).")
    }

    /// What the core's refusal means to the caller; `nil` for an error of the server.
    init?(refusal error: UploadError) {
        switch error.code {
        case .tooLarge: self = .invalid("FileSize", "is too large: \(error.message)")
        case .contentTypeRefused: self = .invalid("FileName", "has a type that is not allowed: \(error.message)")
        case .quotaExceeded: self.init(403, "OperationDenied", error.message)
        case .forbidden, .rejected: self.init(403, "Forbidden", error.message)
        case .tooManyRequests: self.init(400, "Throttling.User", error.message)
        case .invalidRequest, .unauthenticated, .notFound, .gone, .offsetMismatch, .lengthConflict, .lengthExceeded,
            .checksumMismatch, .digestMismatch, .unsupportedChecksum, .notOpen, .conditionFailed, .invalidParts,
            .grantUsed, .interrupted, .busy, .timedOut, .disconnected, .storageFull, .storageFailure, .finishing,
            .unavailable:
            return nil
        }
    }

    /// What the caller is told of an error of the server.
    init(failure error: UploadError) {
        let isBusy = error.code == .unavailable
        self.init(
            isBusy ? 503 : 500,
            isBusy ? "ServiceUnAvailable" : "InternalError",
            "The server cannot do this now; try again."
        )
    }
}

/// A call of the core, whose error becomes one of this dialect.
func core<Success>(
    _ call: @autoclosure () async throws(UploadError) -> Success
) async throws(ApsaraError) -> Success {
    do throws(UploadError) { return try await call() } catch { throw .core(error) }
}
