package import UploadModel

/// The hooks, named as in tusd 2 (https://tus.github.io/tusd/advanced-topics/hooks/).
package enum HookName: String, Sendable, CaseIterable {
    case preCreate = "pre-create"
    case postCreate = "post-create"
    case postReceive = "post-receive"
    case preFinish = "pre-finish"
    case postFinish = "post-finish"
    case preTerminate = "pre-terminate"
    case postTerminate = "post-terminate"

    /// Whether a request waits for the app's response.
    var isBlocking: Bool { self == .preCreate || self == .preFinish || self == .preTerminate }

    /// The hook for an event, or `nil`.
    package init?(_ kind: EventRecord.Kind) {
        switch kind {
        case .created: self = .postCreate
        case .progress: self = .postReceive
        case .completed: self = .postFinish
        // tusd has no expiry; for the app both mean that the bytes are gone.
        case .terminated, .expired: self = .postTerminate
        case .updated: return nil
        }
    }
}
