internal import Bytes
internal import Foundation
internal import UploadCore
internal import UploadModel
internal import VODKit

/// The documents of the API, complete enough for the strictest of its clients (protocol notes §4.2, §8.5).
struct VimeoDocuments: Sendable {
    let links: VimeoLinks
    let media: MediaLinks
    let now: Date
    /// URL of the gateway as its client sees it, without a slash at the end.
    let base: String
    let quota: VimeoQuota
    /// In whose name links to content are made.
    struct Reader: Sendable {
        /// The id of the API key.
        let issuer: String
        /// No link outlives it.
        let expiresAt: Date
    }

    /// For whom they are; `nil` gives no links by which bytes come.
    var caller: VimeoCaller?
    /// `nil` for a reader that may not read content.
    var reader: Reader?

    // MARK: Texts

    /// `2018-06-28T08:05:11+00:00`: no fractions, which iOS does not read.
    static func time(_ date: Date) -> JSONValue {
        let seconds = Date(timeIntervalSince1970: date.timeIntervalSince1970.rounded(.down))
        let text = seconds.formatted(.iso8601)
        return .string(text.replacing("Z", with: "+00:00"))
    }

    static func time(_ seconds: Int64) -> JSONValue { time(Date(timeIntervalSince1970: Double(seconds))) }

    private static func text(_ text: String?) -> JSONValue { text.map(JSONValue.string) ?? .null }

    /// What brings bytes to a video, such as a link: `nil` unless the caller may add to it, because whoever has it may write.
    private func forSenders(to video: VimeoVideo, _ text: String?) -> String? {
        caller?.mayAdd(toVideoBegunBy: video.principal) == true ? text : nil
    }

    // MARK: Users

    func user(_ user: VimeoUser) -> JSONValue {
        .object([
            "uri": .string(user.uri),
            "name": .string(user.subject),
            "link": .string("\(base)\(user.uri)"),
            "account": .string("basic"),
            "resource_key": .string(VimeoDigest.hexadecimal("vimeo user \(user.subject)", 20)),
            "created_time": Self.time(0),
            "pictures": Self.noPictures(user.uri),
            "metadata": .object([
                "connections": .object([
                    "videos": .object([
                        "uri": .string("\(user.uri)/videos"), "options": .array([.string("GET"), .string("POST")]),
                    ])
                ])
            ]),
            "upload_quota": quota.document,
        ])
    }

    // MARK: Videos

    func video(_ entry: VimeoEntry) -> JSONValue {
        let video = entry.video
        let labels = video.labels
        let created = Self.time(entry.record.record.createdAt)
        var members: JSONMembers = [
            "uri": .string(video.uri),
            "name": .string(labels.name ?? "Untitled"),
            "description": Self.text(labels.description),
            "type": .string("video"),
            "link": .string("\(base)\(video.uri)"),
            "player_embed_url": .string("\(base)\(video.uri)"),
            "manage_link": .string("\(base)\(video.uri)"),
            "duration": .integer(0),
            "width": .integer(400),
            "height": .integer(300),
            "language": Self.text(labels.locale),
            "license": Self.text(labels.license),
            "embed": .object(["html": .null]),
            "created_time": created,
            "modified_time": Self.time(video.modifiedAt),
            "release_time": created,
            "content_rating": .array(labels.contentRating.map(JSONValue.string)),
            "privacy": .object([
                "view": .string(labels.view), "embed": .string(labels.embed), "comments": .string(labels.comments),
                "download": .bool(labels.canDownload), "add": .bool(labels.canAdd),
            ]),
            "pictures": entry.picture.map { picture($0, of: video) } ?? Self.noPictures(video.uri),
            "tags": .array([]),
            "categories": .array([]),
            "stats": .object(["plays": .integer(0)]),
            "metadata": .object([
                "connections": .object([
                    "pictures": Self.connection("\(video.uri)/pictures", ["GET", "POST"], entry.pictures),
                    "texttracks": Self.connection("\(video.uri)/texttracks", ["GET", "POST"], entry.textTracks),
                    "versions": Self.connection("\(video.uri)/versions", ["GET", "POST"], entry.versions.count + 1),
                    "comments": Self.connection("\(video.uri)/comments", ["GET"]),
                    "credits": Self.connection("\(video.uri)/credits", ["GET"]),
                    "likes": Self.connection("\(video.uri)/likes", ["GET"]),
                ]),
                "interactions": .object([:]),
            ]),
            "user": user(video.user),
            "app": .object(["name": .string("Sluice"), "uri": .string("/apps/1")]),
            "status": .string(entry.status.rawValue),
            "resource_key": .string(video.resourceKey),
            "upload": upload(entry),
            "transcode": .object(["status": .string(entry.status.stage)]),
            "is_playable": .bool(entry.status == .available),
            "has_audio": .bool(false),
        ]
        if let password = labels.password { members["password"] = .string(password) }
        if reader != nil, entry.status == .available, let upload = entry.active {
            let file = JSONValue.object([
                "quality": .string("source"), "type": Self.text(upload.metadata.contentType),
                "size": .integer(upload.length ?? upload.offset), "created_time": created,
                "link": Self.text(contentLink(upload.id)),
            ])
            members["files"] = .array([file])
            members["download"] = .array([file])
        }
        return .object(members)
    }

    /// `upload` of a video.
    func upload(_ entry: VimeoEntry) -> JSONValue {
        let video = entry.video
        // Also when it is complete: clients ask there, first of all about an empty file.
        let path: String? =
            switch video.approach {
            case .tus: entry.upload.map { links.tusPath($0.id) }
            case .post, .streaming: links.path(video)
            case .pull, .ticket: nil
            }
        let link = forSenders(to: video, path.map { base + $0 })
        return .object([
            "status": .string(entry.status.stage),
            "approach": .string(video.approach == .ticket ? "streaming" : video.approach.rawValue),
            "upload_link": Self.text(link),
            "size": (entry.upload?.length ?? video.size).map(JSONValue.integer) ?? .null,
            "form": Self.text(video.approach == .post ? link.map(Self.form) : nil),
            "complete_uri": .null,
            "redirect_url": Self.text(video.redirectURL),
            "link": .null,
        ])
    }

    /// The form of approach `post` (protocol notes §4.4).
    static func form(_ action: String) -> String {
        """
        <form method="POST" action="\(action)" enctype="multipart/form-data">\
        <input type="file" name="file_data"><input type="submit" name="submit" value="Submit"></form>
        """
    }

    private static func connection(_ uri: String, _ options: [String], _ total: Int = 0) -> JSONValue {
        .object([
            "uri": .string(uri), "options": .array(options.map(JSONValue.string)), "total": .integer(Int64(total)),
        ])
    }

    private static func noPictures(_ uri: String) -> JSONValue {
        .object([
            "uri": .null, "active": .bool(false), "type": .string("default"), "sizes": .array([]),
            "resource_key": .string(VimeoDigest.hexadecimal("vimeo pictures \(uri)", 20)),
        ])
    }

    // MARK: Versions

    /// A file of a video (protocol notes §4.8).
    ///
    /// - Parameters:
    ///   - version: `nil` for the first file.
    ///   - upload: Its upload.
    ///   - entry: The video.
    /// - Returns: The document.
    func version(_ version: VimeoVideo.Version?, _ upload: Upload, of entry: VimeoEntry) -> JSONValue {
        let video = entry.video
        let isComplete = upload.state == .completed
        return .object([
            "uri": .string("\(video.uri)/versions/\(version?.id ?? video.id)"),
            "filename": Self.text(version?.fileName ?? upload.metadata.filename),
            "filesize": isComplete ? .integer(upload.offset) : .null,
            "upload_date": isComplete ? Self.time(upload.endedAt ?? upload.updatedAt) : .null,
            "duration": .null,
            "active": .bool(isComplete && entry.active?.id == upload.id),
            "user": user(video.user),
            "app": .object(["name": .string("Sluice"), "uri": .string("/apps/1")]),
            "created_time": Self.time(upload.createdAt),
            "modified_time": Self.time(upload.updatedAt),
            "metadata": .object(["connections": .object([:]), "interactions": .object([:])]),
            "upload": version == nil
                ? self.upload(entry)
                : .object([
                    "status": .string(isComplete ? "complete" : "in_progress"), "approach": .string("tus"),
                    "upload_link": Self.text(forSenders(to: video, base + links.tusPath(upload.id))),
                    "size": upload.length.map(JSONValue.integer) ?? .null, "form": .null, "complete_uri": .null,
                    "redirect_url": .null, "link": .null,
                ]),
            "transcode": .object(["status": .string(isComplete ? "complete" : "in_progress")]),
            "play": .object([:]),
        ])
    }

    // MARK: Pictures and text tracks

    /// A picture (protocol notes §6).
    func picture(_ picture: VimeoAttachment, of video: VimeoVideo) -> JSONValue {
        var sizes: [JSONValue] = []
        if let id = picture.uploadID.flatMap({ UploadID($0) }), let link = contentLink(id) {
            sizes.append(.object(["width": .integer(0), "height": .integer(0), "link": .string(link)]))
        }
        return .object([
            "uri": .string(picture.uri(of: video)), "active": .bool(video.activePicture == picture.id),
            "type": .string("custom"), "base_link": .string(base + picture.uri(of: video)), "sizes": .array(sizes),
            "link": Self.text(forSenders(to: video, base + links.path(picture))), "default_picture": .bool(false),
            "resource_key": .string(VimeoDigest.hexadecimal("vimeo picture \(picture.subject) \(picture.id)", 20)),
        ])
    }

    /// A text track (protocol notes §6).
    func textTrack(_ track: VimeoAttachment, of video: VimeoVideo) -> JSONValue {
        let id = track.uploadID.flatMap { UploadID($0) }
        return .object([
            "uri": .string(track.uri(of: video)), "active": .bool(video.activeTracks?.contains(track.id) ?? false),
            "type": Self.text(track.type), "language": Self.text(track.language),
            "display_language": Self.text(track.language), "id": .integer(track.id), "name": Self.text(track.name),
            "link": Self.text(forSenders(to: video, base + links.path(track))),
            "link_expires_time": .integer(2_147_483_647),
            "hls_link": Self.text(id.flatMap(contentLink)),
            "hls_link_expires_time": .integer(linkEnd.unixSeconds),
        ])
    }

    /// Seconds for which links to content are valid, at most.
    static let linkLifetime: TimeInterval = 86_400

    /// When the links end: with the token of their reader at the latest.
    private var linkEnd: Date {
        let end = now.addingTimeInterval(Self.linkLifetime)
        guard let reader, reader.expiresAt < end else { return end }
        return Date(timeIntervalSince1970: Double(reader.expiresAt.unixSeconds))
    }

    /// A link by which anyone can download content; `nil` if the reader may not read it.
    private func contentLink(_ id: UploadID) -> String? {
        guard let reader else { return nil }
        let query = media.query(for: id, expiresAt: linkEnd, issuer: reader.issuer, at: now)
        return "\(base)/media/\(id.text)?\(query)"
    }

    // MARK: Tickets

    /// A ticket of the Old Upload (protocol notes §5.2).
    func ticket(_ entry: VimeoEntry) -> JSONValue {
        let video = entry.video
        let link = forSenders(to: video, base + links.path(video))
        return ticket(
            video.id,
            of: video.user,
            link: link,
            completion: video.approach == .post ? nil : forSenders(to: video, links.completionURI(video)),
            form: video.approach == .post ? link.map(Self.form) : nil
        )
    }

    /// A ticket, of this gateway or of a form at Vimeo.
    ///
    /// - Parameters:
    ///   - id: Of the ticket.
    ///   - owner: Its user.
    ///   - link: Where the bytes go.
    ///   - completion: `complete_uri`; a form needs none.
    ///   - form: As HTML.
    /// - Returns: The document.
    func ticket(_ id: Int64, of owner: VimeoUser, link: String?, completion: String?, form: String?) -> JSONValue {
        .object([
            "uri": .string("\(owner.uri)/uploads/\(id)"),
            "ticket_id": .string(String(id)),
            "user": user(owner),
            "upload_link": Self.text(link),
            "upload_link_secure": Self.text(link),
            "complete_uri": Self.text(completion),
            "form": Self.text(form),
            "quota": quota.oldDocument,
        ])
    }
}

extension VimeoEntry {
    /// `status` of a video (protocol notes §4.9).
    enum Status: String {
        case uploading, available
        case uploadingError = "uploading_error"
        case quotaExceeded = "quota_exceeded"
        case totalCapExceeded = "total_cap_exceeded"

        /// `status` of `upload` and `transcode`.
        var stage: String {
            switch self {
            case .uploading: "in_progress"
            case .available: "complete"
            default: "error"
            }
        }

        /// `state` of `/videos/ID/status`.
        var state: String {
            switch self {
            case .uploading: "upload_incomplete"
            case .available: "ready"
            case .uploadingError: "failed"
            case .quotaExceeded: "exceeds_quota"
            case .totalCapExceeded: "exceeds_total_cap"
            }
        }
    }

    var status: Status {
        if active?.state == .completed, !video.isTicket { return .available }
        switch video.failure {
        case nil: return .uploading
        case .uploading: return .uploadingError
        case .quota: return .quotaExceeded
        case .total: return .totalCapExceeded
        }
    }
}
