internal import Synchronization
internal import UploadCore
package import UploadModel

/// Records all events.
package final class RecordingObserver: UploadObserver {
    private let recorded = Mutex<[UploadEvent]>([])

    package init() {}

    package func observe(_ event: UploadEvent) {
        recorded.withLock { $0.append(event) }
    }

    package var events: [UploadEvent] { recorded.withLock { $0 } }

    /// One word for each event, in order: `created`, `appended 5`, `completed`, `terminated`, `expired`, `taken over`,
    /// `broken off 5`, `swept 100 5 0` if blobs had no record, `failed`.
    package var story: [String] {
        events.compactMap { event in
            switch event {
            case .created: "created"
            case .appended(_, let bytes): "appended \(bytes)"
            case .completed: "completed"
            case .terminated: "terminated"
            case .expired: "expired"
            case .takenOver: "taken over"
            case .brokenOff(_, _, let bytes): "broken off \(bytes)"
            case .swept(_, 0, 0): nil
            case .swept(let blobs, let setAside, let left): "swept \(blobs) \(setAside) \(left)"
            case .failed: "failed"
            case .turnedAway, .refused: nil
            }
        }
    }
}
