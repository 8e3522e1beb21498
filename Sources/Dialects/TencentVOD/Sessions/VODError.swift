internal import CloudCalls
internal import ObjectGateway
internal import UploadModel

/// Why a call is not served, in whatever form its client speaks.
enum VODError: Error, Sendable {
    /// In the codes of the upload SDKs.
    case refused(VODFailure)
    /// In the codes of API 3.0.
    case call(TencentCallFailure)
    /// By the core, which refuses or has failed.
    case core(UploadError)
    /// The cloud did not answer (`direct` mode).
    case cloud(CloudForwarder.Failure)

    init(_ code: VODFailure.Code, _ message: String) { self = .refused(VODFailure(code, message)) }

    /// - Parameters:
    ///   - code: Of API 3.0.
    ///   - message: What to change, in one sentence.
    init(_ code: String, _ message: String) { self = .call(TencentCallFailure(code, message)) }

    static func invalid(_ message: String) -> VODError { VODError(.invalidRequest, message) }

    /// What it means to the client of an upload SDK; `nil` if the call cannot be served now.
    var refusal: VODFailure? {
        switch self {
        case .refused(let failure): failure
        case .call(let failure): VODFailure(.invalidRequest, failure.message)
        case .core(let error): VODFailure(refusal: error)
        case .cloud: nil
        }
    }

    /// What it means to the caller of API 3.0; `nil` if the call cannot be served now.
    var callFailure: TencentCallFailure? {
        if case .call(let failure) = self { return failure }
        return refusal.map(TencentCallFailure.init)
    }

    /// `Retry-After`; `nil` without one.
    var retryAfter: String? { if case .core(let error) = self { error.retryAfter } else { nil } }

    /// For the log.
    var message: String {
        switch self {
        case .refused(let failure): failure.message
        case .call(let failure): failure.message
        case .core(let error): error.message
        case .cloud(let failure): failure.message
        }
    }
}

/// A call of the core, whose error becomes one of this dialect.
func core<Success>(
    _ call: @autoclosure () async throws(UploadError) -> Success
) async throws(VODError) -> Success {
    do throws(UploadError) { return try await call() } catch { throw .core(error) }
}
