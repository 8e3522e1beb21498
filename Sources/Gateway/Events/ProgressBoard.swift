internal import Foundation
internal import UploadCore

/// How far and how fast running uploads are, for those that somebody follows.
///
/// Used by the one task that looks.
struct ProgressBoard {
    /// What is new of an upload.
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
        /// `nil` before the first time.
        var told: (offset: Int64, rate: Int64)?
    }

    private var rows: [UploadID: Row] = [:]
    /// Uploads whose end was told although their append may not be quite over.
    private var ended: Set<UploadID> = []

    /// Those that are looked at.
    var uploads: Set<UploadID> { Set(rows.keys) }

    /// Looks at the uploads that get bytes, and for some seconds at those that got some.
    ///
    /// - Parameters:
    ///   - service: Where they are.
    ///   - isWanted: Whether somebody follows an upload.
    /// - Returns: One line of each upload that has moved, or has come to a stand.
    mutating func look(_ service: UploadService, _ isWanted: (Upload) -> Bool) async -> [Line] {
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
            let isNews = row.told.map { $0.offset != news.offset || ($0.rate > 0 && news.rate == 0) } ?? true
            if isNews {
                row.told = news
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

    /// Nothing is told of an upload after its end.
    mutating func end(_ id: UploadID) {
        rows[id] = nil
        ended.insert(id)
    }

    /// An upload is looked at for so long after its last append, which is until it has come to a stand.
    private static let memory = Duration.seconds(10)
}
