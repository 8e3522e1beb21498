internal import HTTPWire
internal import ObjectGateway
internal import UploadModel

/// Why a call, or bytes for a link, are not taken.
enum VimeoError: Error, Sendable {
    /// In the form of the API.
    case refused(VimeoFailure)
    /// By the core, which refuses or has failed.
    case core(UploadError)
    /// What was read of a video holds no longer: another request has changed it, or its upload.
    case changed
    /// Vimeo did not answer (`direct` mode).
    case cloud(CloudForwarder.Failure)

    init(_ status: Status, _ code: Int?, _ message: String, _ advice: String? = nil) {
        self = .refused(VimeoFailure(status, code, message, advice))
    }

    /// What it means to clients of the API.
    var failure: VimeoFailure {
        switch self {
        case .refused(let failure): failure
        case .core(let error): VimeoFailure(error)
        case .changed: .busy
        case .cloud(let failure): VimeoFailure(UploadError(.unavailable, failure.message))
        }
    }

    /// Whether the operator is to know of it.
    var isOfServer: Bool {
        switch self {
        case .refused, .changed: false
        case .core(let error): VimeoFailure(error).status.code >= 500
        case .cloud: true
        }
    }

    /// For the log.
    var message: String {
        switch self {
        case .refused(let failure): failure.advice
        case .core(let error): error.message
        case .changed: "Another request has changed the video."
        case .cloud(let failure): failure.message
        }
    }
}

/// A call of the core, whose error becomes one of this dialect.
func core<Success>(
    _ call: @autoclosure () async throws(UploadError) -> Success
) async throws(VimeoError) -> Success {
    do throws(UploadError) { return try await call() } catch { throw .core(error) }
}
