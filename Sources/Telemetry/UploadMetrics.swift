internal import Bytes
internal import CoreMetrics
package import MetricsKit
package import UploadModel

/// Counts what happens to uploads.
package final class UploadMetrics: Sendable {
    private let created: CounterTable
    private let bytesStored: Counter
    private let completed: Counter
    private let terminated: Counter
    private let expired: Counter
    private let takenOver: Counter
    private let brokenOff: CounterTable
    private let orphansSetAside: Counter
    private let orphansLeft: Meter
    private let failed: CounterTable
    private let turnedAway: CounterTable
    private let refused: CounterTable

    package init(_ metrics: MetricsRegistry) {
        created = metrics.counters("sluice_uploads_created_total", "Uploads that were created.", by: "dialect")
        bytesStored = metrics.counter("sluice_upload_bytes_total", "Bytes that were stored.")
        completed = metrics.counter("sluice_uploads_completed_total", "Uploads that were completed.")
        terminated = metrics.counter("sluice_uploads_terminated_total", "Uploads that clients gave up.")
        expired = metrics.counter("sluice_uploads_expired_total", "Uploads whose time was over.")
        takenOver = metrics.counter(
            "sluice_uploads_taken_over_total",
            "Writers that were cut off by a newer request."
        )
        brokenOff = metrics.counters("sluice_appends_broken_off_total", "Appends that ended early.", by: "reason")
        orphansSetAside = metrics.counter(
            "sluice_orphans_quarantined_total",
            "Blobs without a record that were set aside."
        )
        orphansLeft = metrics.gauge(
            "sluice_orphans_left",
            "Blobs without a record that are too many for the sweep to take."
        )
        failed = metrics.counters("sluice_upload_errors_total", "Failures of storage and state.", by: "code")
        turnedAway = metrics.counters(
            "sluice_leases_refused_total",
            "Requests that did not get an upload because others use it.",
            by: "code"
        )
        refused = metrics.counters(
            "sluice_quota_refusals_total",
            "Uploads, or bytes of them, that a quota refused.",
            by: "account",
            "quota"
        )
    }

    package func observe(_ event: UploadEvent) {
        switch event {
        case .created(let upload): created[upload.dialect].increment()
        case .appended(_, let bytes): bytesStored.increment(by: bytes)
        case .completed: completed.increment()
        case .terminated: terminated.increment()
        case .expired: expired.increment()
        case .takenOver: takenOver.increment()
        case .brokenOff(_, let failure, _): brokenOff[Self.label(failure)].increment()
        case .swept(_, let setAside, let left):
            orphansSetAside.increment(by: setAside)
            orphansLeft.set(left)
        case .failed(_, let error): failed[error.code.name].increment()
        case .turnedAway(_, let error): turnedAway[error.code.name].increment()
        case .refused(let refusal): refused[refusal.account.kind.rawValue, refusal.measure.rawValue].increment()
        }
    }

    private static func label(_ failure: SourceFailure) -> String {
        switch failure {
        case .disconnected: "disconnected"
        case .interrupted: "taken_over"
        case .timedOut: "timed_out"
        case .shuttingDown: "shutting_down"
        case .malformed: "malformed"
        case .tooLarge: "too_large"
        }
    }
}
