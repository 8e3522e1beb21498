internal import HTTPWire

/// A resource of the API.
enum VimeoResource: Equatable {
    /// `nil` for the caller, `/me`.
    case user(Int64?)
    case videos(Int64?)
    case upload(user: Int64, ticket: Int64)
    case video(Int64)
    case status(Int64)
    case clientToken, codeToken, verify, tokens

    /// - Parameter segments: Of the path; an empty one at the end is ignored.
    init?(_ segments: [String]) {
        var segments = segments
        if segments.last == "" { segments.removeLast() }
        switch (segments.first, segments.count) {
        case ("me", 1): self = .user(nil)
        case ("me", 2) where segments[1] == "videos": self = .videos(nil)
        case ("users", 2...4):
            guard let user = VimeoVideo.id(segments[1]) else { return nil }
            if segments.count == 2 {
                self = .user(user)
            } else if segments.count == 3, segments[2] == "videos" {
                self = .videos(user)
            } else if segments.count == 4, segments[2] == "uploads", let ticket = VimeoVideo.id(segments[3]) {
                self = .upload(user: user, ticket: ticket)
            } else {
                return nil
            }
        case ("videos", 2...3):
            guard let video = VimeoVideo.id(segments[1]) else { return nil }
            if segments.count == 2 {
                self = .video(video)
            } else if segments[2] == "status" {
                self = .status(video)
            } else {
                return nil
            }
        case ("oauth", 3) where segments[1] == "authorize" && segments[2] == "client": self = .clientToken
        case ("oauth", 2) where segments[1] == "access_token": self = .codeToken
        case ("oauth", 2) where segments[1] == "verify": self = .verify
        case ("tokens", 1): self = .tokens
        default: return nil
        }
    }

    var methods: [HTTPMethod] {
        switch self {
        case .user, .status, .verify: [.get]
        case .videos: [.get, .post]
        case .upload: [.get, .delete]
        case .video: [.get, .patch, .delete]
        case .clientToken, .codeToken: [.post]
        case .tokens: [.delete]
        }
    }

    /// For metrics.
    var name: String {
        switch self {
        case .user: "user"
        case .videos: "videos"
        case .upload: "upload"
        case .video: "video"
        case .status: "status"
        case .clientToken, .codeToken: "token"
        case .verify: "verify"
        case .tokens: "tokens"
        }
    }

    /// Methods and templates, for descriptions of the API.
    static let operations: [(method: HTTPMethod, template: String)] = [
        (.get, "/me"), (.get, "/me/videos"), (.post, "/me/videos"), (.get, "/users/{user}"),
        (.get, "/users/{user}/videos"), (.post, "/users/{user}/videos"), (.get, "/users/{user}/uploads/{ticket}"),
        (.delete, "/users/{user}/uploads/{ticket}"), (.get, "/videos/{video}"), (.patch, "/videos/{video}"),
        (.delete, "/videos/{video}"), (.get, "/videos/{video}/status"), (.post, "/oauth/authorize/client"),
        (.post, "/oauth/access_token"), (.get, "/oauth/verify"), (.delete, "/tokens"),
    ]
}
