internal import CSystem
internal import Foundation
internal import HTTPWire
internal import Synchronization
internal import SystemIO

/// The state that all connections of a server share.
final class ServerContext: Sendable {
    let configuration: ServerConfiguration
    let timeouts: Timeouts
    let connectionLimits: ConnectionState.Limits
    let pool: BlockingPool
    let pipes = ReuseCache<SplicePipe>(capacity: 32)
    let buffers = ReuseCache<RecordBuffer>(capacity: 16)
    let handler: any RequestHandler
    let observer: any ServerObserver
    private let refusals: ServerRefusal.Writer?
    private let requestPrefix: String
    private let requestCount = Atomic<UInt64>(0)
    /// How often a connection was left without a task, because it was idle.
    let parkCount = Atomic<UInt64>(0)
    private let date = Mutex((second: Int64(-1), text: ""))

    init(
        configuration: ServerConfiguration,
        pool: BlockingPool,
        handler: any RequestHandler,
        observer: any ServerObserver,
        refusals: ServerRefusal.Writer?
    ) {
        self.configuration = configuration
        let timeouts = Timeouts(configuration)
        self.timeouts = timeouts
        connectionLimits = ConnectionState.Limits(
            head: timeouts.head,
            idle: timeouts.idle,
            write: timeouts.write,
            linger: MonotonicClock.span(configuration.lingerTimeout),
            lingerIdle: MonotonicClock.span(configuration.lingerIdleTimeout),
            drainBytes: configuration.drainBytes
        )
        self.pool = pool
        self.handler = handler
        self.observer = observer
        self.refusals = refusals
        requestPrefix = String(UInt32.random(in: .min ... .max), radix: 36)
    }

    /// The timeouts of the configuration in nanoseconds, converted once: dividing a `Duration` takes longer than
    /// reading the clock.
    struct Timeouts: Sendable {
        let head, idle, body, total, write, drain: Nanoseconds

        init(_ configuration: ServerConfiguration) {
            head = MonotonicClock.span(configuration.headTimeout)
            idle = MonotonicClock.span(configuration.idleTimeout)
            body = MonotonicClock.span(configuration.bodyTimeout)
            total = MonotonicClock.span(configuration.totalTimeout)
            write = MonotonicClock.span(configuration.writeTimeout)
            drain = MonotonicClock.span(configuration.drainTimeout)
        }
    }

    /// The response to a request that reaches no handler; it ends the connection.
    func response(to refusal: ServerRefusal) -> Response {
        var response = refusals?(refusal) ?? ServerErrors.response(refusal)
        response.closesConnection = true
        return response
    }

    /// An id for the next request: unique in this process, and very likely unique among processes.
    func nextRequestID() -> String {
        requestPrefix + "-" + String(requestCount.wrappingAdd(1, ordering: .relaxed).newValue, radix: 36)
    }

    /// Called when a connection becomes idle.
    ///
    /// After many of these calls there are unused heap pages, which malloc keeps until it is told to release them.
    func parked() {
        guard parkCount.wrappingAdd(1, ordering: .relaxed).newValue.isMultiple(of: 1024) else { return }
        Task { await pool.run { csys_trim_heaps() } }
    }

    /// The value of the Date field (RFC 9110 §6.6.1), formatted once per second.
    var currentDate: String {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME_COARSE, &time)
        let second = Int64(time.tv_sec)
        return date.withLock { cached in
            if cached.second != second { cached = (second, HTTPDate.format(second)) }
            return cached.text
        }
    }
}
