package import UploadModel

/// The sender of a request.
package enum Principal: Sendable, Equatable {
    /// An app's backend.
    case key(APIKey)
    /// An app user, on behalf of the app's backend.
    case grant(Grant)

    /// The id of the key or the grant; for logs and records, never a secret.
    package var name: String {
        switch self {
        case .key(let key): key.id
        case .grant(let grant): grant.id
        }
    }
}
