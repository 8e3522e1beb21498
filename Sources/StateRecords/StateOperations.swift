internal import CoreMetrics
package import MetricsKit
internal import SystemIO
internal import Tracing
package import UploadModel

/// Measures the operations of a state store, and makes each a span of the trace that is followed.
package struct StateOperations: Sendable {
    package enum Kind: Sendable {
        /// Changes nothing.
        case read
        /// A transaction, with its sync.
        case write
    }

    /// The raw value is that of the label `backend`.
    package enum Backend: String, Sendable {
        case sqlite, postgres

        /// A well-known value of `db.system.name` (https://opentelemetry.io/docs/specs/semconv/registry/attributes/db/).
        fileprivate var system: String {
            switch self {
            case .sqlite: "sqlite"
            case .postgres: "postgresql"
            }
        }

        fileprivate var spanKind: FinishedSpan.Kind {
            switch self {
            case .sqlite: .work
            case .postgres: .client
            }
        }
    }

    private struct Timers: Sendable {
        let done: Timer
        let failed: Timer

        init(_ metrics: MetricsRegistry, _ backend: String, _ operation: String) {
            func timer(_ outcome: String) -> Timer {
                metrics.timer(
                    "sluice_state_operation_duration_seconds",
                    "Operations of the state, with the time that they waited.",
                    ["backend": backend, "operation": operation, "outcome": outcome]
                )
            }
            done = timer("ok")
            failed = timer("failed")
        }
    }

    private let reads: Timers
    private let writes: Timers
    private let backend: Backend

    /// - Parameters:
    ///   - backend: What stores the state.
    ///   - metrics: Takes the samples.
    package init(_ backend: Backend, _ metrics: MetricsRegistry = MetricsRegistry()) {
        self.backend = backend
        reads = Timers(metrics, backend.rawValue, "read")
        writes = Timers(metrics, backend.rawValue, "write")
    }

    /// Measures `body`.
    ///
    /// What the domain refuses, such as a quota that is used up, is an answer and no failure.
    package func measured<Success>(
        _ kind: Kind,
        _ body: () async throws(UploadError) -> Success
    ) async throws(UploadError) -> Success {
        let timers = kind == .read ? reads : writes
        let start = MonotonicClock.now
        let span = TraceScope.current?.child()
        do throws(UploadError) {
            let value = try await body()
            timers.done.recordNanoseconds(Int64(clamping: MonotonicClock.now - start))
            end(span, kind)
            return value
        } catch {
            let timer = error.isOfState ? timers.failed : timers.done
            timer.recordNanoseconds(Int64(clamping: MonotonicClock.now - start))
            end(span, kind, error: error.isOfState ? "state" : nil)
            throw error
        }
    }

    private func end(_ span: TraceScope?, _ kind: Kind, error: String? = nil) {
        span?.end(
            kind == .read ? "state read" : "state write",
            backend.spanKind,
            [FinishedSpan.Attribute("db.system.name", backend.system)],
            error: error
        )
    }
}

extension UploadError {
    /// Whether the state itself failed.
    fileprivate var isOfState: Bool {
        switch code {
        case .storageFull, .storageFailure, .unavailable: true
        default: false
        }
    }
}
