internal import Foundation
internal import UploadCore
internal import UploadModel

/// Progress and speed of running uploads that listeners follow.
///
/// Used only by the polling task.
struct ProgressBoard {
    /// Progress of one upload.
    struct Line: Sendable {
        let upload: UploadID
        let subject: String?
        let text: [UInt8]
    }

    private struct Row {
        var upload: Upload
        var meter: ProgressMeter
        var isRunning = true
        var ranAt: ContinuousClock.Instant
        /// `nil` before the first report.
        var reported: (offset: Int64, rate: Int64)?
    }

    private var rows: [UploadID: Row] = [:]
    /// Uploads whose end was reported although their append may not be finished.
    private var ended: Set<UploadID> = []

    /// The uploads being polled.
    var uploads: Set<UploadID> { Set(rows.keys) }

    /// Polls the uploads that are receiving bytes, and for some seconds those that have stopped.
    ///
    /// - Parameters:
    ///   - service: The upload events.
    ///   - isWanted: Whether a listener follows an upload.
    /// - Returns: One line for each upload that progressed or stopped.
    mutating func look(_ service: EventService, _ isWanted: (Upload) -> Bool) async -> [Line] {
        let running = service.lookAtAppends().filter { isWanted($0.upload) }
        let now = ContinuousClock.now
        ended.formIntersection(running.map(\.upload.id))
        for id in rows.keys { rows[id]?.isRunning = false }
        for append in running where !ended.contains(append.upload.id) {
            let id = append.upload.id
            let new = Row(
                upload: append.upload,
                meter: ProgressMeter(offset: append.upload.offset, at: append.beganAt),
                ranAt: now
            )
            var row = rows[id] ?? new
            row.upload = append.upload
            row.isRunning = true
            row.ranAt = now
            rows[id] = row
        }
        rows = rows.filter { $0.value.isRunning || now - $0.value.ranAt < Self.memory }
        var lines: [Line] = []
        for (id, row) in rows {
            guard let offset = await service.currentLength(of: id) else { continue }
            var row = row
            row.meter.see(offset, at: .now)
            let news = (offset: row.meter.offset, rate: row.meter.bytesPerSecond)
            let isNews = row.reported.map { $0.offset != news.offset || ($0.rate > 0 && news.rate == 0) } ?? true
            if isNews {
                row.reported = news
                lines.append(
                    Line(
                        upload: id,
                        subject: row.upload.subject,
                        text: EventText.progress(of: row.upload, by: row.meter, at: service.now)
                    )
                )
            }
            rows[id] = row
        }
        return lines
    }

    /// Nothing is reported for an upload after its end.
    mutating func end(_ id: UploadID) {
        rows[id] = nil
        ended.insert(id)
    }

    /// How long an upload is polled after its last append, until its rate has dropped to zero.
    private static let memory = Duration.seconds(10)
}
