internal import CoreMetrics
package import MetricsKit
internal import Synchronization
package import Tracing
internal import UploadCore
internal import UploadModel

/// Decides which requests are traced, and keeps finished spans until they are exported.
///
/// The queue is bounded: while the collector is away or too slow, spans are dropped and counted.
package final class Tracer: SpanRecorder {
    /// Maximum number of spans in memory.
    static let capacity = 8192
    /// Maximum number of spans in one request to the collector.
    static let batch = 512

    private let queue = Mutex<[FinishedSpan]>([])
    /// Traces with a lower random number are sampled; so all services with the same ratio choose the same traces.
    private let threshold: Double
    private let dropped: CounterTable
    let exported: Counter
    /// Rings when a batch is full.
    let bell = EventBell()

    package init(sampleRatio: Double, metrics: MetricsRegistry) {
        threshold = sampleRatio * 0x1p63
        dropped = metrics.counters("sluice_trace_spans_dropped_total", "Spans that were lost.", by: "reason")
        exported = metrics.counter("sluice_trace_spans_exported_total", "Spans that the collector took.")
        metrics.sample("sluice_trace_spans_waiting", .gauge, "Spans that wait to be exported.") { [weak self] in
            Double(self?.waiting ?? 0)
        }
    }

    var waiting: Int { queue.withLock { $0.count } }

    package func scope(continuing parent: TraceContext?) -> TraceScope {
        guard let parent else {
            let root = TraceContext.root { low in Double(low >> 1) < threshold }
            return TraceScope(root, parentID: 0, self)
        }
        return TraceScope(parent.child(), parentID: parent.spanID, self)
    }

    package func record(_ span: FinishedSpan) {
        let count = queue.withLock { queue -> Int? in
            if queue.count >= Self.capacity { return nil }
            queue.append(span)
            return queue.count
        }
        guard let count else { return drop(1, "queue_full") }
        if count == Self.batch { bell.ring() }
    }

    func drop(_ count: Int, _ reason: String) { dropped[reason].increment(by: Int64(count)) }

    /// Removes the oldest spans from the queue.
    func take() -> [FinishedSpan] {
        queue.withLock { queue in
            let batch = Array(queue.prefix(Self.batch))
            queue.removeFirst(batch.count)
            return batch
        }
    }
}
