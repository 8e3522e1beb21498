internal import CCurl
internal import Foundation
internal import Glibc
internal import Synchronization
internal import Transport

/// A thread that runs transfers of a client, with a multi handle of libcurl; `TransferLoops` decides which ones.
///
/// Invariant for `@unchecked`: `sockets`, `attempts`, `attemptOf`, `responded` and the multi handle's transfers are
/// accessed only on the thread; `inbox` holds everything that other threads access. The multi handle is created before
/// the thread starts. The thread frees it under the lock of `inbox`; after that nothing wakes it.
final class TransferLoop: @unchecked Sendable {
    struct Settings: Sendable {
        var userAgent: String
        var maximumTransfers: Int
        var keptConnections: Int
        var maximumThreads: Int
        var addresses: AddressPolicy
        var authorities: String?
        var verifiesCertificates = true
        var server: LocalServer?
        var proxy: WebProxy?

        /// The address check that the socket cannot do because a proxy resolves names.
        func refusal(of target: WebAddress) -> HTTPClientError? {
            guard proxy != nil, let address = target.address ?? target.loopback, !addresses.allows(address) else {
                return nil
            }
            return .refusedAddress(address.description)
        }
    }

    private enum Work {
        case start(Transfer)
        case resume(Transfer)
        case abandon(Transfer)
    }

    private struct Inbox {
        var work: [Work] = []
        var isClosed = false
        /// Whether the multi handle exists.
        var canWake = false
    }

    private let settings: Settings
    /// Called once for each transfer that was started, before its caller learns that it has ended.
    private let left: @Sendable (Transfer) -> Void
    private let inbox: Mutex<Inbox>
    private let multi: UnsafeMutableRawPointer?
    /// Whether other threads can wake it; not if there was no free descriptor when it was created.
    let wakesUp: Bool
    private let sockets = OpenSockets()
    /// Running attempts, by their easy handle.
    private var attempts: [UnsafeMutableRawPointer: RequestAttempt] = [:]
    /// Running attempts, by their transfer: content wakes its transfer often.
    private var attemptOf: [ObjectIdentifier: RequestAttempt] = [:]
    /// Attempts that got a response since the last turn; they must read it before their content continues.
    private var responded: [RequestAttempt] = []

    /// libcurl must be initialised once, before any other call.
    private static let isInitialized = curl_global_init(Int(CURL_GLOBAL_DEFAULT)) == CURLE_OK

    /// - Parameters:
    ///   - settings: Of the client.
    ///   - keptConnections: The share of this thread; at least 1.
    ///   - left: Called on any thread for each transfer that was started, when it no longer needs this thread.
    init(_ settings: Settings, keptConnections: Int, left: @escaping @Sendable (Transfer) -> Void) {
        self.settings = settings
        self.left = left
        let multi = Self.isInitialized ? curl_multi_init() : nil
        self.multi = multi
        wakesUp = multi.map { curl_multi_wakeup($0) == CURLM_OK } ?? false
        // Without memory for a multi handle, the client behaves like a closed one.
        inbox = Mutex(Inbox(isClosed: multi == nil, canWake: multi != nil))
        guard let multi else { return }
        _ = ccurl_multi_set_long(multi, CURLMOPT_MAXCONNECTS, keptConnections)
        let thread = Thread { [self] in run() }
        thread.name = "sluice.http"
        thread.stackSize = 512 * 1024
        thread.start()
    }

    // MARK: Any thread

    func start(_ transfer: Transfer) { hand(.start(transfer)) }

    func resume(_ transfer: Transfer) { hand(.resume(transfer)) }

    func abandon(_ transfer: Transfer) { hand(.abandon(transfer)) }

    func close() {
        inbox.withLock { inbox in
            inbox.isClosed = true
            wake(inbox)
        }
    }

    private func hand(_ work: Work) {
        let isClosed = inbox.withLock { inbox in
            if inbox.isClosed { return true }
            inbox.work.append(work)
            // The thread takes all work at once, so a wake-up was already sent for the first item.
            if inbox.work.count == 1 { wake(inbox) }
            return false
        }
        if isClosed, case .start(let transfer) = work { end(transfer, .failure(.stopped)) }
    }

    /// libcurl keeps a wake-up until the next wait, so none is lost.
    private func wake(_ inbox: borrowing Inbox) {
        if inbox.canWake { curl_multi_wakeup(multi) }
    }

    // MARK: The thread

    private func run() {
        guard let multi else { return }
        // A peer that disconnects during a TLS write must not end the process with SIGPIPE.
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, SIGPIPE)
        pthread_sigmask(SIG_BLOCK, &signals, nil)
        while true {
            let (work, isClosed) = inbox.withLock { inbox in
                defer { inbox.work = [] }
                return (inbox.work, inbox.isClosed)
            }
            for item in work { perform(item, multi) }
            if isClosed { break }
            var running: Int32 = 0
            curl_multi_perform(multi, &running)
            // Work that results from finished or responded transfers can be done at once.
            let goesOn = resumeResponded()
            if finishEnded(multi) || goesOn { continue }
            // The maximum: libcurl's own timers end the wait earlier.
            curl_multi_poll(multi, nil, 0, wakesUp ? 60_000 : 20, nil)
        }
        stop(multi)
    }

    private func perform(_ work: Work, _ multi: UnsafeMutableRawPointer) {
        switch work {
        case .start(let transfer):
            if transfer.isAbandoned { return left(transfer) }
            begin(transfer, transfer.request, transfer.request.request.deadline, multi)
        case .resume(let transfer):
            // May call back with bytes that libcurl had to hold.
            attemptOf[ObjectIdentifier(transfer)]?.resume()
        case .abandon(let transfer):
            guard let attempt = attemptOf[ObjectIdentifier(transfer)] else { return }
            remove(attempt, multi)
            left(transfer)
        }
    }

    /// Ends a transfer that has no attempt any more.
    private func end(_ transfer: Transfer, _ result: Result<Void, HTTPClientError>) {
        // First, so that a request which follows at once is sent on this thread, which has the idle connection.
        left(transfer)
        transfer.ended(result)
    }

    private func begin(
        _ transfer: Transfer,
        _ request: PreparedRequest,
        _ deadline: ContinuousClock.Instant?,
        _ multi: UnsafeMutableRawPointer,
        onNewConnection: Bool = false
    ) {
        if let refusal = settings.refusal(of: request.target) {
            return end(transfer, .failure(refusal))
        }
        guard
            let attempt = RequestAttempt(
                transfer,
                request,
                deadline,
                settings,
                sockets,
                onNewConnection: onNewConnection
            )
        else {
            return end(transfer, .failure(.badRequest("the request cannot be sent")))
        }
        guard curl_multi_add_handle(multi, attempt.handle) == CURLM_OK else {
            return end(transfer, .failure(.unreachable))
        }
        attempts[attempt.handle] = attempt
        attemptOf[ObjectIdentifier(transfer)] = attempt
        attempt.hasResponse = { [unowned self, unowned attempt] in responded.append(attempt) }
    }

    /// libcurl reads before it sends, and paused content would delay the end of a transfer that already has its
    /// response.
    ///
    /// - Returns: Whether there were any.
    private func resumeResponded() -> Bool {
        guard !responded.isEmpty else { return false }
        for attempt in responded where attempts[attempt.handle] === attempt { attempt.resume() }
        responded = []
        return true
    }

    /// - Returns: Whether any transfer has ended.
    private func finishEnded(_ multi: UnsafeMutableRawPointer) -> Bool {
        var result = CURLE_OK
        var hasEnded = false
        while let handle = ccurl_next_ended(multi, &result) {
            guard let attempt = attempts[handle] else { continue }
            hasEnded = true
            remove(attempt, multi)
            do throws(HTTPClientError) {
                if attempt.needsResend(result) {
                    begin(attempt.transfer, attempt.request, attempt.deadline, multi, onNewConnection: true)
                } else if let following = try attempt.followingRequest(result) {
                    begin(attempt.transfer, following, attempt.deadline, multi)
                } else {
                    let outcome = attempt.outcome(result)
                    end(attempt.transfer, outcome)
                }
            } catch {
                end(attempt.transfer, .failure(error))
            }
        }
        return hasEnded
    }

    private func remove(_ attempt: RequestAttempt, _ multi: UnsafeMutableRawPointer) {
        curl_multi_remove_handle(multi, attempt.handle)
        attempts[attempt.handle] = nil
        attemptOf[ObjectIdentifier(attempt.transfer)] = nil
    }

    private func stop(_ multi: UnsafeMutableRawPointer) {
        for attempt in Array(attempts.values) {
            remove(attempt, multi)
            end(attempt.transfer, .failure(.stopped))
        }
        inbox.withLock { inbox in
            inbox.canWake = false
            _ = curl_multi_cleanup(multi)
        }
    }
}

extension HTTPClientRequest {
    /// The deadline of a transfer that starts now; `nil` for none.
    fileprivate var deadline: ContinuousClock.Instant? { timeout > .zero ? .now + timeout : nil }
}
