/// What a session may be allowed, by the names that requests and settings have for it.
package enum SessionAction: String, Sendable, CaseIterable {
    case upload, read, delete

    package var actions: Set<ObjectAction> {
        switch self {
        case .upload: ObjectAction.upload
        case .read: ObjectAction.read
        case .delete: [.deleteObject]
        }
    }
}
