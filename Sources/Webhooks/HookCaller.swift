internal import Foundation
internal import Synchronization
package import UploadModel

/// How hooks are called.
package struct HookSettings: Sendable {
    package var events: Set<HookName>
    /// For one call, until its response has arrived.
    package var timeout: Duration
    /// Whether the server continues if the call of a blocking hook fails.
    package var isFailOpen: Bool
    /// Number of attempts to deliver an event.
    package var maximumAttempts: Int
    /// Maximum number of concurrent calls.
    package var concurrency: Int
    /// Fields of the client's request that blocking hooks include.
    package var forwardedFields: [String]

    package init(
        events: Set<HookName>,
        timeout: Duration = .seconds(15),
        isFailOpen: Bool = false,
        maximumAttempts: Int = 20,
        concurrency: Int = 16,
        forwardedFields: [String] = []
    ) {
        self.events = events
        self.timeout = timeout
        self.isFailOpen = isFailOpen
        self.maximumAttempts = maximumAttempts
        self.concurrency = concurrency
        self.forwardedFields = forwardedFields
    }
}

/// How hooks reach the app.
package protocol HookTransport: Sendable {
    /// - Parameters:
    ///   - message: The hook.
    ///   - timeout: Until the response is there.
    /// - Returns: The content of the response, if the app accepted the hook.
    /// - Throws: `HookFailure`.
    func send(_ message: HookMessage, within timeout: Duration) async throws(HookFailure) -> [UInt8]
    /// Ends calls of blocking hooks: the requests that wait for them must end now. Returns at once.
    func cutOff()
    /// Ends calls in progress, after all that wait for them have ended.
    func close()
    /// Sends hooks to another URL from now on, if it sends them to one.
    func follow(url: String)
}

extension HookTransport {
    package func cutOff() {}
    package func close() {}
    package func follow(url: String) {}
}

/// One hook on its way.
package struct HookMessage: Sendable {
    package let name: HookName
    package let upload: Upload
    /// Identifies the hook; the same for every attempt.
    package let id: String
    /// The time of this attempt, Unix seconds.
    package let timestamp: Int64
    /// The payload, JSON.
    package let content: [UInt8]
    /// Fields of the client's request that the settings name; they are part of the payload too.
    package let fields: [(name: String, value: String)]
}

/// Sends one hook and reads its response.
package struct HookCaller: Sendable {
    package var settings: HookSettings { live.current }
    private let live: LiveHookSettings
    private let transport: any HookTransport
    private let report: HookReport?
    /// Of blocking hooks.
    let turns: UserTurns

    /// - Parameters:
    ///   - settings: How it is called.
    ///   - transport: Sends the hooks.
    ///   - report: Takes the durations of the calls.
    ///   - blockingCalls: The number of calls of blocking hooks that the transport can have at once.
    package init(
        _ settings: HookSettings,
        _ transport: any HookTransport,
        report: HookReport? = nil,
        blockingCalls: Int = Self.usualBlockingCalls
    ) {
        turns = UserTurns(blockingCalls)
        live = LiveHookSettings(settings)
        self.transport = transport
        self.report = report
    }

    /// To a URL; in proportion to the connections that a backend takes.
    package static let usualBlockingCalls = 256

    /// - Parameters:
    ///   - name: The hook.
    ///   - upload: What it is about.
    ///   - payload: The content of the hook.
    ///   - id: Identifies the hook; the same for every attempt.
    ///   - now: The time of this attempt.
    ///   - timeout: Until the response has arrived.
    ///   - fields: Additional header fields.
    /// - Returns: The app's response, if it accepted the hook.
    /// - Throws: `HookFailure`.
    func call(
        _ name: HookName,
        _ upload: Upload,
        _ payload: HookPayload,
        id: String,
        at now: Date,
        timeout: Duration,
        fields: [(name: String, value: String)] = []
    ) async throws(HookFailure) -> HookReply {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        guard let data = try? encoder.encode(payload) else { throw HookFailure("the hook cannot be encoded as JSON") }
        let message = HookMessage(
            name: name,
            upload: upload,
            id: id,
            timestamp: Int64(now.timeIntervalSince1970),
            content: [UInt8](data),
            fields: fields
        )
        let start = ContinuousClock.now
        do throws(HookFailure) {
            let reply = try await transport.send(message, within: timeout)
            report?.called(for: .now - start, isAnswered: true)
            return try HookReply(content: reply, to: name)
        } catch {
            report?.called(for: .now - start, isAnswered: false)
            throw error
        }
    }

    /// Calls hooks by other settings from now on.
    func follow(_ settings: HookSettings, url: String?) {
        live.replace(with: settings)
        if let url { transport.follow(url: url) }
    }

    /// Does work for which a request waits; it is cancelled at `cutOff`.
    func whileServing<Success: Sendable>(_ work: @escaping @Sendable () async -> Success) async -> Success {
        let task = Task { await work() }
        let id = live.waits.begin { task.cancel() }
        defer { live.waits.end(id) }
        return await withTaskCancellationHandler {
            await task.value
        } onCancel: {
            task.cancel()
        }
    }

    func cutOff() {
        live.waits.cutOff()
        transport.cutOff()
    }

    func close() { transport.close() }
}

/// What requests wait for.
private final class RequestWaits: Sendable {
    private struct State {
        var cancels: [UInt64: @Sendable () -> Void] = [:]
        var lastID: UInt64 = 0
        var isCutOff = false
    }

    private let state = Mutex(State())

    /// - Returns: For `end`.
    func begin(_ cancel: @escaping @Sendable () -> Void) -> UInt64 {
        let (id, isCutOff) = state.withLock { state in
            state.lastID += 1
            state.cancels[state.lastID] = cancel
            return (state.lastID, state.isCutOff)
        }
        if isCutOff { cancel() }
        return id
    }

    func end(_ id: UInt64) { state.withLock { $0.cancels[id] = nil } }

    func cutOff() {
        let cancels = state.withLock { state in
            state.isCutOff = true
            return Array(state.cancels.values)
        }
        for cancel in cancels { cancel() }
    }
}

private final class LiveHookSettings: Sendable {
    private let settings: Mutex<HookSettings>
    let waits = RequestWaits()

    init(_ settings: HookSettings) { self.settings = Mutex(settings) }

    var current: HookSettings { settings.withLock { $0 } }

    func replace(with other: HookSettings) { settings.withLock { $0 = other } }
}
