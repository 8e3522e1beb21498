/// Actions that a session may be allowed, by their names in requests and settings.
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
