internal import Bytes
internal import HTTPWire
internal import UploadModel
internal import VODKit

/// Pictures and text tracks (protocol notes §6).
extension VimeoVideoCalls {
    func attachments(_ kind: VimeoAttachment.Kind, of id: Int64, _ call: VimeoCall) async throws(VimeoError) -> Response
    {
        let page = try call.page()
        let video = try await seen(id, call).video
        let all = try await core(await library.attachments.all(kind, of: video))
        return call.response(page, of: all.count, page.part(of: all).map { call.documents.attachment($0, of: video) })
    }

    func addAttachment(_ kind: VimeoAttachment.Kind, to id: Int64, _ call: VimeoCall) async throws(VimeoError)
        -> Response
    {
        var body = try await VimeoBody(of: call.request, limit: bodyLimit)
        let entry = try await entry(id, of: call.user)
        try call.caller.requireAdding(toVideoBegunBy: entry.video.principal)
        var new = VimeoAttachment(
            id: VimeoVideo.newID(at: library.clock.now),
            kind: kind,
            video: id,
            subject: call.user.subject,
            issuer: call.caller.grant.issuer,
            principal: call.caller.grant.id,
            limits: VimeoLimits(call.caller.grant)
        )
        let isActive = body.bool("active") ?? false
        if kind == .textTrack {
            new.read(&body)
            if new.type == nil, body.problems.isEmpty { body.reject("type", "is missing") }
        }
        try body.finish()
        let added = try await library.add(new, to: entry)
        let attachment = added.attachment
        let video = isActive ? try await activate(attachment, true, in: entry) : added.video
        return call.response(call.documents.attachment(attachment, of: video), kind.mediaType, 201)
    }

    func attachment(
        _ kind: VimeoAttachment.Kind,
        _ number: Int64,
        of id: Int64,
        _ call: VimeoCall
    ) async throws(VimeoError) -> Response {
        let entry = try await entry(id, of: call.user)
        guard let found = try await core(await library.attachments.one(kind, number, of: entry.video)) else {
            throw VimeoError.refused(.notFound)
        }
        var video = entry.video
        var shown = found.content
        switch call.method {
        case .get, .head:
            guard call.caller.maySee(begunBy: video.principal) else { throw VimeoError.refused(.notFound) }
        case .delete:
            let isComplete = try await core(await library.attachments.settled(shown).attachment.uploadID) != nil
            try call.caller.requireRemoving(isComplete: isComplete)
            guard try await core(await library.remove(found, from: entry)) else { throw VimeoError.refused(.notFound) }
            return Response(204)
        case .patch:
            try call.caller.require(.edit)
            var body = try await VimeoBody(of: call.request, limit: bodyLimit)
            let isActive = body.bool("active")
            var probe = found.content
            if kind == .textTrack { probe.read(&body) }
            try body.finish()
            if !found.has(probe) {
                let members = body
                shown = try await library.attachments.change(found) { attachment in
                    var body = members
                    attachment.read(&body)
                }
                try await core(await library.touch(entry))
            }
            if let isActive { video = try await activate(found.content, isActive, in: entry) }
        default: break
        }
        let attachment = try await core(await library.attachments.settled(shown).attachment)
        return call.response(call.documents.attachment(attachment, of: video), kind.mediaType)
    }

    /// Makes one the active picture, or a shown text track, or takes that back.
    private func activate(_ attachment: VimeoAttachment, _ isActive: Bool, in entry: VimeoEntry)
        async throws(VimeoError)
        -> VimeoVideo
    {
        let now = library.clock.now.unixSeconds
        let changed = try await core(
            await library.change(entry) { video in
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
        )
        guard let changed else { throw VimeoError.refused(.notFound) }
        return changed
    }
}

extension VimeoAttachment {
    /// Takes what a body says about a text track; other members stay.
    mutating func read(_ body: inout VimeoBody) {
        if let text = body.choice("type", of: Self.types) { type = text }
        if let text = body.text("language", atMost: 32) { language = text }
        if let text = body.text("name", atMost: 256) { name = text }
    }
}

extension VimeoAttachment.Kind {
    /// Of documents.
    var mediaType: String {
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
