/// What a token may do ("Supported scopes" of Vimeo's documentation).
enum VimeoScope: String, Sendable, CaseIterable, Codable {
    case `public`, `private`, purchased, purchase, create, edit, delete, interact, upload, stats, email
    case promoCodes = "promo_codes"
    case videoFiles = "video_files"

    /// Those of a token whose maker names none: what an app that uploads needs.
    static let usual: [VimeoScope] = [.public, .private, .edit, .upload, .delete]
}
