import Synchronization
import UploadModel

@testable import ObjectStore

/// Stands in for an app: receives callbacks to the hosts `a.example` and `b.example`, with configured responses.
final class RecordingSender: CallbackSender {
    struct Call: Equatable {
        let url: String
        let message: CallbackMessage

        var content: String { String(decoding: message.content, as: UTF8.self) }
    }

    /// Runs before the app responds, once.
    let meanwhile = Mutex<(@Sendable () async -> Void)?>(nil)
    private let state = Mutex((calls: [Call](), failures: [CallbackFailure?]()))
    private let responses: [String: Result<CallbackResponse, CallbackFailure>]

    static let ok = CallbackResponse(status: 200, length: 8, body: Array(#"{"a":"b"}"#.utf8))

    init(_ responses: [String: Result<CallbackResponse, CallbackFailure>] = [:]) { self.responses = responses }

    var calls: [Call] { state.withLock { $0.calls } }
    var ends: [CallbackFailure?] { state.withLock { $0.failures } }

    func problem(with url: String) -> CallbackURLProblem? {
        guard url.hasPrefix("http") else { return .malformed }
        return mayName(host: String(url.split(separator: "/")[1])) ? nil : .notAllowed
    }

    func mayName(host: String) -> Bool { ["a.example", "b.example"].contains(host) }

    func send(_ message: CallbackMessage, to url: String) async throws(CallbackFailure) -> CallbackResponse {
        state.withLock { $0.calls.append(Call(url: url, message: message)) }
        await meanwhile.withLock { $0.take() }?()
        return try (responses[url] ?? .success(Self.ok)).get()
    }

    func ended(_ failure: CallbackFailure?) { state.withLock { $0.failures.append(failure) } }
}
