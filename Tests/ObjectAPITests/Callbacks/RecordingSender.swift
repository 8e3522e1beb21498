import Synchronization

@testable import ObjectAPI

/// Takes callbacks to the hosts `a.example` and `b.example` in the place of an app, and answers them as it is told.
final class RecordingSender: CallbackSender {
    struct Call: Equatable {
        let url: String
        let message: CallbackMessage

        var content: String { String(decoding: message.content, as: UTF8.self) }
    }

    /// What is done while the app thinks.
    let meanwhile = Mutex<(@Sendable () async -> Void)?>(nil)
    private let state = Mutex((calls: [Call](), failures: [CallbackFailure?]()))
    private let answers: [String: Result<CallbackAnswer, CallbackFailure>]

    static let ok = CallbackAnswer(status: 200, length: 8, body: Array(#"{"a":"b"}"#.utf8))

    init(_ answers: [String: Result<CallbackAnswer, CallbackFailure>] = [:]) { self.answers = answers }

    var calls: [Call] { state.withLock { $0.calls } }
    var ends: [CallbackFailure?] { state.withLock { $0.failures } }

    func problem(with url: String) -> CallbackURLProblem? {
        guard url.hasPrefix("http") else { return .malformed }
        return mayName(host: String(url.split(separator: "/")[1])) ? nil : .notAllowed
    }

    func mayName(host: String) -> Bool { ["a.example", "b.example"].contains(host) }

    func send(_ message: CallbackMessage, to url: String) async throws(CallbackFailure) -> CallbackAnswer {
        state.withLock { $0.calls.append(Call(url: url, message: message)) }
        await meanwhile.withLock { $0 }?()
        return try (answers[url] ?? .success(Self.ok)).get()
    }

    func ended(_ failure: CallbackFailure?) { state.withLock { $0.failures.append(failure) } }
}
