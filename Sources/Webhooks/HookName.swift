package import UploadCore

/// The hooks, by the names of tusd 2 (https://tus.github.io/tusd/advanced-topics/hooks/).
package enum HookName: String, Sendable, CaseIterable {
    case preCreate = "pre-create"
    case postCreate = "post-create"
    case postReceive = "post-receive"
    case preFinish = "pre-finish"
    case postFinish = "post-finish"
    case preTerminate = "pre-terminate"
    case postTerminate = "post-terminate"

    /// What tells an event; `nil` for one that no hook tells.
    package init?(_ kind: EventRecord.Kind) {
        switch kind {
        case .created: self = .postCreate
        case .progress: self = .postReceive
        case .completed: self = .postFinish
        // tusd has no expiry; to the app both say that the bytes are gone.
        case .terminated, .expired: self = .postTerminate
        case .updated: return nil
        }
    }
}
