internal import CSystem
internal import Foundation
internal import HTTPWire
internal import Synchronization
internal import Transport

/// What all connections of a server share.
final class ServerContext: Sendable {
    let configuration: ServerConfiguration
    let spans: Spans
    let pool: BlockingPool
    let pipes = ReuseCache<SplicePipe>(capacity: 32)
    let buffers = ReuseCache<RecordBuffer>(capacity: 16)
    let handler: any RequestHandler
    let observer: any ServerObserver
    private let requestPrefix: String
    private let requestCount = Atomic<UInt64>(0)
    private let parkCount = Atomic<UInt64>(0)
    private let date = Mutex((second: Int64(-1), text: ""))

    init(
        configuration: ServerConfiguration,
        pool: BlockingPool,
        handler: any RequestHandler,
        observer: any ServerObserver
    ) {
        self.configuration = configuration
        spans = Spans(configuration)
        self.pool = pool
        self.handler = handler
        self.observer = observer
        requestPrefix = String(UInt32.random(in: .min ... .max), radix: 36)
    }

    /// The times of the configuration as nanoseconds, made once: dividing a `Duration` takes longer than the clock.
    struct Spans: Sendable {
        let head, idle, body, total, write: Nanoseconds

        init(_ configuration: ServerConfiguration) {
            head = MonotonicClock.span(configuration.headTimeout)
            idle = MonotonicClock.span(configuration.idleTimeout)
            body = MonotonicClock.span(configuration.bodyTimeout)
            total = MonotonicClock.span(configuration.totalTimeout)
            write = MonotonicClock.span(configuration.writeTimeout)
        }
    }

    /// A name for the next request: unique in this process, and very likely among processes.
    func nextRequestID() -> String {
        requestPrefix + "-" + String(requestCount.wrappingAdd(1, ordering: .relaxed).newValue, radix: 36)
    }

    /// A connection gave back the memory of its task.
    ///
    /// After many of them there are pages that hold nothing any more, but malloc keeps them until it is asked.
    func parked() {
        guard parkCount.wrappingAdd(1, ordering: .relaxed).newValue.isMultiple(of: 1024) else { return }
        Task { await pool.run { csys_trim_heaps() } }
    }

    /// The Date field (RFC 9110 §6.6.1), made once a second.
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
