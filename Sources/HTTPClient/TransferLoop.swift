internal import CCurl
internal import Foundation
internal import Glibc
internal import Synchronization
internal import Transport

/// The thread on which all transfers of a client run, by libcurl's multi interface.
///
/// Invariant for `@unchecked`: `sockets`, `hops`, `hopOf`, `answered`, `line` and the multi handle's transfers are touched only on the thread; what others
/// touch is in `inbox`. The multi handle is made before the thread starts and freed by it, under the lock of `inbox`, after
/// which nobody wakes it any more.
final class TransferLoop: @unchecked Sendable {
    struct Settings: Sendable {
        var userAgent: String
        var maximumTransfers: Int
        var keptConnections: Int
        var addresses: AddressPolicy
        var authorities: String?
        var proxy: WebProxy?

        /// What the socket can not tell, because a proxy looks names up.
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
        /// The multi handle is there.
        var canWake = false
    }

    private let settings: Settings
    private let inbox: Mutex<Inbox>
    private let multi: UnsafeMutableRawPointer?
    private let sockets = OpenSockets()
    /// What runs, by its easy handle.
    private var hops: [UnsafeMutableRawPointer: Hop] = [:]
    /// The same, by its transfer: content wakes its transfer often.
    private var hopOf: [ObjectIdentifier: Hop] = [:]
    /// What has an answer to read before its content goes on, since the last turn.
    private var answered: [Hop] = []
    /// What waits for others to end, in order.
    private var line: [Transfer] = []

    /// libcurl must be initialised once, before anything else of it is called.
    private static let isInitialized = curl_global_init(Int(CURL_GLOBAL_DEFAULT)) == CURLE_OK

    init(_ settings: Settings) {
        self.settings = settings
        let multi = Self.isInitialized ? curl_multi_init() : nil
        self.multi = multi
        // Without memory for a multi handle, the client behaves as a closed one.
        inbox = Mutex(Inbox(isClosed: multi == nil, canWake: multi != nil))
        guard let multi else { return }
        _ = ccurl_multi_set_long(multi, CURLMOPT_MAXCONNECTS, settings.keptConnections)
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
            // The thread takes all work at once, so what is not the first was told of before.
            if inbox.work.count == 1 { wake(inbox) }
            return false
        }
        if isClosed, case .start(let transfer) = work { transfer.ended(.failure(.stopped)) }
    }

    /// A wake-up is kept until the next wait, so none is lost.
    private func wake(_ inbox: borrowing Inbox) {
        if inbox.canWake { curl_multi_wakeup(multi) }
    }

    // MARK: The thread

    private func run() {
        guard let multi else { return }
        // A peer that goes away while TLS is written must not end the process.
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
            // What follows on something that ended, or was answered, can be done at once.
            let goesOn = resumeAnswered()
            if finishEnded(multi) || goesOn { continue }
            // At most: libcurl's own timers end the wait earlier.
            curl_multi_poll(multi, nil, 0, 60_000, nil)
        }
        stop(multi)
    }

    private func perform(_ work: Work, _ multi: UnsafeMutableRawPointer) {
        switch work {
        case .start(let transfer):
            if transfer.isAbandoned { return }
            if hops.count < settings.maximumTransfers {
                begin(transfer, transfer.request, transfer.request.request.deadline, multi)
            } else {
                line.append(transfer)
            }
        case .resume(let transfer):
            // May call back with the bytes that it had to hold.
            hopOf[ObjectIdentifier(transfer)]?.resume()
        case .abandon(let transfer):
            if let hop = hopOf[ObjectIdentifier(transfer)] {
                remove(hop, multi)
                beginNext(multi)
            } else {
                line.removeAll { $0 === transfer }
            }
        }
    }

    private func begin(
        _ transfer: Transfer,
        _ request: PreparedRequest,
        _ deadline: ContinuousClock.Instant?,
        _ multi: UnsafeMutableRawPointer,
        onNewConnection: Bool = false
    ) {
        if let refusal = settings.refusal(of: request.target) {
            transfer.ended(.failure(refusal))
            return
        }
        guard let hop = Hop(transfer, request, deadline, settings, sockets, onNewConnection: onNewConnection) else {
            transfer.ended(.failure(.badRequest("the request can not be sent")))
            return
        }
        guard curl_multi_add_handle(multi, hop.handle) == CURLM_OK else {
            transfer.ended(.failure(.unreachable))
            return
        }
        hops[hop.handle] = hop
        hopOf[ObjectIdentifier(transfer)] = hop
        hop.hasAnswer = { [unowned self, unowned hop] in answered.append(hop) }
    }

    /// libcurl reads before it sends, and content that pauses would hold the end of a transfer that has its answer.
    ///
    /// - Returns: Whether there was any.
    private func resumeAnswered() -> Bool {
        guard !answered.isEmpty else { return false }
        for hop in answered where hops[hop.handle] === hop { hop.resume() }
        answered = []
        return true
    }

    private func beginNext(_ multi: UnsafeMutableRawPointer) {
        while hops.count < settings.maximumTransfers, !line.isEmpty {
            perform(.start(line.removeFirst()), multi)
        }
    }

    /// - Returns: Whether anything has ended.
    private func finishEnded(_ multi: UnsafeMutableRawPointer) -> Bool {
        var result = CURLE_OK
        var hasEnded = false
        while let handle = ccurl_next_ended(multi, &result) {
            guard let hop = hops[handle] else { continue }
            hasEnded = true
            remove(hop, multi)
            do throws(HTTPClientError) {
                if hop.mustBeSentAgain(result) {
                    begin(hop.transfer, hop.request, hop.deadline, multi, onNewConnection: true)
                } else if let following = try hop.followingRequest(result) {
                    begin(hop.transfer, following, hop.deadline, multi)
                } else {
                    hop.transfer.ended(hop.outcome(result))
                }
            } catch {
                hop.transfer.ended(.failure(error))
            }
        }
        if hasEnded { beginNext(multi) }
        return hasEnded
    }

    private func remove(_ hop: Hop, _ multi: UnsafeMutableRawPointer) {
        curl_multi_remove_handle(multi, hop.handle)
        hops[hop.handle] = nil
        hopOf[ObjectIdentifier(hop.transfer)] = nil
    }

    private func stop(_ multi: UnsafeMutableRawPointer) {
        for hop in Array(hops.values) {
            remove(hop, multi)
            hop.transfer.ended(.failure(.stopped))
        }
        for transfer in line { transfer.ended(.failure(.stopped)) }
        line = []
        inbox.withLock { inbox in
            inbox.canWake = false
            _ = curl_multi_cleanup(multi)
        }
    }
}

extension HTTPClientRequest {
    /// When it has to be over, if it begins now; `nil` for never.
    fileprivate var deadline: ContinuousClock.Instant? { timeout > .zero ? .now + timeout : nil }
}
