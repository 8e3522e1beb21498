internal import UploadModel

/// Which events a listener receives.
struct EventFilter: Sendable {
    /// Only this upload; the stream ends with it.
    var upload: UploadID?
    var subject: String?
    var kinds = EventFilter.recorded
    var hasProgress = true

    /// Recorded events for listeners; recorded `progress` is for hooks only, listeners get it live.
    static let recorded = Set(EventRecord.Kind.allCases).subtracting([.progress])

    /// All names of events that a list of types can have.
    static let names = EventRecord.Kind.allCases.map(\.eventName)

    func matches(_ upload: UploadID, _ subject: String?) -> Bool {
        (self.upload == nil || self.upload == upload)
            && (self.subject == nil || self.subject.isSameSubject(as: subject))
    }
}

extension EventRecord.Kind {
    /// As event streams name it.
    var eventName: String { "upload." + rawValue }

    /// No further events follow for the upload, except for the end of its media.
    var endsUpload: Bool {
        switch self {
        case .completed, .terminated, .expired: true
        case .created, .progress, .updated: false
        }
    }
}
