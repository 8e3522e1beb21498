internal import UploadCore
internal import UploadModel

/// What a token may do ("Supported scopes" of Vimeo's documentation).
enum VimeoScope: String, Sendable, CaseIterable, Codable {
    case `public`, `private`, purchased, purchase, create, edit, delete, interact, upload, stats, email
    case promoCodes = "promo_codes"
    case videoFiles = "video_files"

    /// Those of a token whose maker names none: what an app that uploads needs.
    static let usual: [VimeoScope] = [.public, .private, .edit, .upload, .delete]

    /// The scope that an API key needs to do itself what a token with this one can do; `nil` for beginning uploads, and
    /// for what has no effect here.
    var keyScope: Scope? {
        switch self {
        case .public, .create, .upload, .purchase, .interact, .promoCodes: nil
        case .private, .purchased, .stats, .email, .videoFiles: .read
        case .edit: .upload
        case .delete: .delete
        }
    }

    /// What an app user with a token of an identity provider may do: `public`, and what needs the token's own scopes.
    ///
    /// Beginning uploads needs `upload`, as everywhere where a user uploads without a minted credential.
    static func scopes(of key: APIKey) -> Set<VimeoScope> {
        Set(
            allCases.filter { scope in
                switch scope {
                case .public: true
                case .upload, .create: key.allows(.upload)
                default: scope.keyScope.map(key.allows) ?? false
                }
            }
        )
    }

    /// What a token with scopes can do for its user, in the terms of API keys.
    static func rights(_ scopes: [VimeoScope], for subject: String?) -> MintedRights {
        MintedRights(Set(scopes.compactMap(\.keyScope)), subject: subject, reach: .uploads)
    }
}
