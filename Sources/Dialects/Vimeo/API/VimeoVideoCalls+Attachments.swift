internal import Bytes
internal import HTTPWire
internal import UploadCore
internal import VODKit

/// Pictures and text tracks (protocol notes §6).
extension VimeoVideoCalls {
    func attachments(
        _ method: HTTPMethod,
        _ kind: VimeoAttachment.Kind,
        of id: Int64,
        _ user: VimeoUser,
        _ request: Request,
        by caller: VimeoCaller,
        _ documents: VimeoDocuments,
        _ fields: VimeoFields
    ) async throws -> Response {
        guard method == .post else {
            let entry = try await entry(id, of: user)
            let all = try await library.attachments.all(kind, of: entry.video)
            return VimeoResponse.page(all.map { documents.attachment($0, of: entry.video) }, request.head, fields)
        }
        try caller.require(.upload)
        var body = try await VimeoBody(of: request, limit: bodyLimit)
        let entry = try await entry(id, of: user)
        var attachment = VimeoAttachment(
            id: VimeoVideo.newID(at: library.clock.now),
            kind: kind,
            video: id,
            subject: user.subject,
            issuer: caller.grant.issuer,
            principal: caller.grant.id
        )
        let isActive = body.bool("active") ?? false
        if kind == .textTrack {
            attachment.type = body.choice("type", of: VimeoAttachment.types)
            attachment.language = body.text("language", atMost: 32)
            attachment.name = body.text("name", atMost: 256)
            if attachment.type == nil, body.problems.isEmpty { body.reject("type", "is missing") }
        }
        try body.finish()
        try await library.attachments.insert(attachment, of: entry.video)
        var video = entry.video
        if isActive { video = try await activate(attachment, true, in: entry) }
        let document = documents.attachment(attachment, of: video)
        return VimeoResponse.document(fields.applied(to: document), kind.mediaType, 201)
    }

    func attachment(
        _ method: HTTPMethod,
        _ kind: VimeoAttachment.Kind,
        _ number: Int64,
        of id: Int64,
        _ user: VimeoUser,
        _ request: Request,
        by caller: VimeoCaller,
        _ documents: VimeoDocuments,
        _ fields: VimeoFields
    ) async throws -> Response {
        let entry = try await entry(id, of: user)
        guard let found = try await library.attachments.one(kind, number, of: entry.video),
            found.content.subject == user.subject
        else { throw VimeoFailure.notFound }
        var video = entry.video
        switch method {
        case .delete:
            try caller.require(.edit)
            guard try await library.attachments.remove(found) else { throw VimeoFailure.notFound }
            return Response(204)
        case .patch:
            try caller.require(.edit)
            var body = try await VimeoBody(of: request, limit: bodyLimit)
            let isActive = body.bool("active")
            try body.finish()
            if let isActive { video = try await activate(found.content, isActive, in: entry) }
        default: break
        }
        let document = documents.attachment(try await library.attachments.settled(found.content).attachment, of: video)
        return VimeoResponse.document(fields.applied(to: document), kind.mediaType)
    }

    /// Makes one the active picture, or a shown text track, or takes that back.
    private func activate(_ attachment: VimeoAttachment, _ isActive: Bool, in entry: VimeoEntry) async throws
        -> VimeoVideo
    {
        let now = library.clock.now.unixSeconds
        let changed = try await library.change(entry) { video in
            var video = video
            video.modifiedAt = now
            switch attachment.kind {
            case .picture:
                if isActive {
                    video.activePicture = attachment.id
                } else if video.activePicture == attachment.id {
                    video.activePicture = nil
                }
            case .textTrack:
                var active = (video.activeTracks ?? []).filter { $0 != attachment.id }
                if isActive { active.append(attachment.id) }
                video.activeTracks = active
            }
            return video
        }
        guard let changed else { throw VimeoFailure.notFound }
        return changed
    }
}

extension VimeoAttachment.Kind {
    /// Of documents.
    fileprivate var mediaType: String {
        switch self {
        case .picture: "picture"
        case .textTrack: "video.texttrack"
        }
    }
}

extension VimeoDocuments {
    fileprivate func attachment(_ attachment: VimeoAttachment, of video: VimeoVideo) -> JSONValue {
        switch attachment.kind {
        case .picture: picture(attachment, of: video)
        case .textTrack: textTrack(attachment, of: video)
        }
    }
}
