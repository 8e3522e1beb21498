internal import UploadCore

/// What a listener wants to hear of.
struct EventFilter: Sendable {
    /// Only of this upload; the stream then ends with it.
    var upload: UploadID?
    var subject: String?
    var kinds = EventFilter.recorded
    var hasProgress = true

    /// What happened and is told to listeners; `progress` is recorded for hooks only, and told live.
    static let recorded = Set(EventRecord.Kind.allCases).subtracting([.progress])

    /// All names of events that a list of types can have.
    static let names = EventRecord.Kind.allCases.map(\.eventName)

    func matches(_ upload: UploadID, _ subject: String?) -> Bool {
        (self.upload == nil || self.upload == upload) && (self.subject == nil || self.subject == subject)
    }
}

extension EventRecord.Kind {
    /// As event streams name it.
    var eventName: String { "upload." + rawValue }

    /// Nothing more comes of an upload after it, but for the end of its media.
    var endsUpload: Bool {
        switch self {
        case .completed, .terminated, .expired: true
        case .created, .progress, .updated: false
        }
    }
}
