internal import HTTPWire

/// A resource of the API.
enum VimeoResource: Equatable {
    /// `nil` for the caller, `/me`.
    case user(Int64?)
    case videos(Int64?)
    case upload(user: Int64, ticket: Int64)
    case video(Int64)
    case status(Int64)
    case files(Int64)
    case versions(Int64)
    case version(video: Int64, Int64)
    case attachments(VimeoAttachment.Kind, video: Int64)
    case attachment(VimeoAttachment.Kind, video: Int64, Int64)
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
        case ("videos", 2...4):
            guard let video = VimeoVideo.id(segments[1]) else { return nil }
            if segments.count == 2 {
                self = .video(video)
            } else {
                self.init(below: video, segments[2...])
            }
        case ("oauth", 3) where segments[1] == "authorize" && segments[2] == "client": self = .clientToken
        case ("oauth", 2) where segments[1] == "access_token": self = .codeToken
        case ("oauth", 2) where segments[1] == "verify": self = .verify
        case ("tokens", 1): self = .tokens
        default: return nil
        }
    }

    private init?(below video: Int64, _ segments: ArraySlice<String>) {
        guard let name = segments.first else { return nil }
        let kind = VimeoAttachment.Kind.allCases.first { $0.collection == name }
        if segments.count == 2 {
            guard let id = segments.last.flatMap({ VimeoVideo.id($0) }) else { return nil }
            if name == "versions" {
                self = .version(video: video, id)
            } else if let kind {
                self = .attachment(kind, video: video, id)
            } else {
                return nil
            }
            return
        }
        switch name {
        case "status": self = .status(video)
        case "files": self = .files(video)
        case "versions": self = .versions(video)
        default:
            guard let kind else { return nil }
            self = .attachments(kind, video: video)
        }
    }

    /// The video that it is, or belongs to.
    var video: Int64? {
        switch self {
        case .video(let id), .status(let id), .files(let id), .versions(let id), .version(let id, _),
            .attachments(_, let id), .attachment(_, let id, _):
            id
        case .user, .videos, .upload, .clientToken, .codeToken, .verify, .tokens: nil
        }
    }

    var methods: [HTTPMethod] {
        switch self {
        case .user, .status, .version, .verify: [.get]
        case .videos, .versions, .attachments: [.get, .post]
        case .files: [.put]
        case .attachment: [.get, .patch, .delete]
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
        case .files: "files"
        case .versions, .version: "versions"
        case .attachments(let kind, _), .attachment(let kind, _, _): kind.collection
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
        (.delete, "/videos/{video}"), (.get, "/videos/{video}/status"), (.put, "/videos/{video}/files"),
        (.get, "/videos/{video}/versions"),
        (.post, "/videos/{video}/versions"), (.get, "/videos/{video}/versions/{item}"),
        (.get, "/videos/{video}/pictures"), (.post, "/videos/{video}/pictures"),
        (.get, "/videos/{video}/pictures/{item}"), (.patch, "/videos/{video}/pictures/{item}"),
        (.delete, "/videos/{video}/pictures/{item}"), (.get, "/videos/{video}/texttracks"),
        (.post, "/videos/{video}/texttracks"), (.get, "/videos/{video}/texttracks/{item}"),
        (.patch, "/videos/{video}/texttracks/{item}"), (.delete, "/videos/{video}/texttracks/{item}"),
        (.post, "/oauth/authorize/client"),
        (.post, "/oauth/access_token"), (.get, "/oauth/verify"), (.delete, "/tokens"),
    ]
}
