internal import Bytes
internal import Foundation
internal import HTTPWire
internal import UploadCore
internal import UploadModel
internal import VODKit

/// Creating videos, within the limits of their user.
extension VimeoBroker {
    func create(_ call: VimeoCall) async throws(VimeoError) -> Response {
        var body = try await VimeoVideoCalls.creation(call, limit: local.bodyLimit)
        let version = try VimeoVersion(accept: call.request.head.fields["Accept"]).decided(by: body)
        let new = version == .old ? try VimeoVideoCalls.old(&body) : try VimeoVideoCalls.video(&body)
        if new.approach == .ticket { return try await local.createOld(new, body.labels, call) }
        if new.approach == .streaming { return try await createStreamed(new, body.labels, call) }
        var upload: JSONMembers = ["approach": .string(new.approach.rawValue)]
        if let size = new.size { upload["size"] = .string(String(size)) }
        if let url = new.redirectURL { upload["redirect_url"] = .string(url) }
        if let link = new.link { upload["link"] = .string(link) }
        let members = body.labels.merging(["upload": .object(upload)]) { $1 }
        let title = new.labels.name.flatMap { MetadataText.isName($0) ? $0 : nil }
        let admission = try await core(await admit(new.fileName ?? title, new.contentType, new.size, call))
        do throws(VimeoError) {
            let made = try await upstream.create(
                "/me/videos",
                members,
                approach: new.approach,
                fields: new.isOld ? VimeoUpstream.videoFields : Self.videoFields(call)
            )
            let video = Self.video(made, new.approach, source: nil, call)
            do throws(UploadError) {
                try await videos.insert(video)
            } catch {
                await upstream.delete(video.uri)
                throw .core(error)
            }
            if new.isOld, new.approach == .post { return call.response(Self.ticket(video, call), "uploadticket", 201) }
            // Clients insist on 200 for tus, and on 201 for the others (protocol notes §1).
            return call.response(try await shown(video, call), "video", new.approach == .tus ? 200 : 201)
        } catch {
            await withdraw(admission)
            throw error
        }
    }

    /// The ticket of a video whose bytes go to Vimeo by a form.
    static func ticket(_ video: VimeoCloudVideo, _ call: VimeoCall) -> JSONValue {
        var (link, form): (String?, String?)
        if case .object(let upload)? = shared(video.members, video, call)["upload"] {
            if case .string(let text)? = upload["upload_link"] { link = text }
            if case .string(let text)? = upload["form"] { form = text }
        }
        return call.documents.ticket(video.id, of: call.user, link: link, completion: nil, form: form)
    }

    static func video(
        _ made: VimeoUpstream.Made,
        _ approach: VimeoVideo.Approach,
        source: Int64?,
        _ call: VimeoCall
    ) -> VimeoCloudVideo {
        var video = VimeoCloudVideo(
            id: made.id,
            subject: call.user.subject,
            issuer: call.caller.grant.issuer,
            principal: call.caller.grant.id,
            approach: approach,
            source: source,
            document: "{}",
            status: "uploading"
        )
        video.learn(made.document)
        return video
    }

    /// Approach `streaming`: the video is Vimeo's from the beginning, and the bytes come here.
    func createStreamed(
        _ new: VimeoUploads.New,
        _ labels: JSONMembers,
        _ call: VimeoCall
    ) async throws(VimeoError) -> Response {
        guard let size = new.size else {
            throw VimeoError.refused(.invalid("upload.size", "is missing: Vimeo needs the number of bytes", 2254))
        }
        let entry = try await local.uploads.create(new, by: call.caller)
        let made: VimeoUpstream.Made
        do throws(VimeoError) {
            made = try await make(size, labels, call)
        } catch {
            await giveBack(entry)
            throw error
        }
        do throws(VimeoError) {
            let transfer = try await transfer(of: entry, to: made)
            guard try await core(await transfers.insert(transfer)) else { throw VimeoError.refused(.busy) }
            try await core(await transfers.adopt(transfer))
            guard let video = try await core(await videos.one(transfer.video, of: call.user)) else {
                throw VimeoError.refused(.notFound)
            }
            if size == 0 { transfers.arrived(transfer.recordKey) }
            return VimeoVideoCalls.traced(call.response(try await shown(video.content, call), "video", 201), entry)
        } catch {
            // If there is a transfer already, it ends the video at Vimeo.
            if try await core(await transfers.one(entry.record.record.key)) == nil {
                await upstream.delete("/videos/\(made.id)")
            }
            await giveBack(entry)
            throw error
        }
    }

    /// Ends a local video that Vimeo has not accepted, and what it counted.
    func giveBack(_ entry: VimeoEntry) async {
        // If this fails, which is logged, it counts until it expires.
        _ = try? await library.delete(entry)
        if let upload = entry.upload { try? await uploads.withdraw(upload) }
    }

    /// Creates a video, or another file of one, that is to take bytes from here.
    func make(
        _ size: Int64,
        _ labels: JSONMembers,
        replacing replaced: Int64? = nil,
        named name: String? = nil,
        _ call: VimeoCall
    ) async throws(VimeoError) -> VimeoUpstream.Made {
        let upload = JSONValue.object(["approach": .string("tus"), "size": .string(String(size))])
        guard let replaced else {
            let members = labels.merging(["upload": upload]) { $1 }
            return try await upstream.create("/me/videos", members, approach: .tus, fields: VimeoUpstream.videoFields)
        }
        return try await upstream.create(
            "/videos/\(replaced)/versions",
            ["upload": upload, "file_name": .string(name ?? "video")],
            approach: .tus,
            fields: VimeoUpstream.versionFields
        )
    }

    func transfer(of entry: VimeoEntry, to made: VimeoUpstream.Made) async throws(VimeoError) -> VimeoTransfer {
        let source = entry.video
        let video = source.replaces ?? made.id
        if source.replaces == nil, let id = source.uploadID.flatMap({ UploadID($0) }) {
            // The app's hooks learn the uri that its clients know.
            _ = try? await uploads.editMetadata(of: id) { $0.changed(by: ["vimeo_uri": "/videos/\(video)"]) }
        }
        return VimeoTransfer(
            source: source.id,
            subject: source.subject,
            issuer: source.issuer,
            principal: source.principal,
            video: video,
            isVersion: source.replaces != nil,
            approach: source.approach,
            link: made.link ?? "",
            document: String(decoding: VimeoJSON.bytes(.object(made.document)), as: UTF8.self)
        )
    }

    // MARK: Limits

    /// Checks limits, counts the upload in the quotas of the period, and asks the app.
    func admit(_ name: String?, _ type: String?, _ size: Int64?, _ call: VimeoCall) async throws(UploadError)
        -> ElsewhereAdmission
    {
        try await uploads.admitElsewhere([Self.upload(name, type, size)], under: call.caller.grant)
    }

    static func upload(_ name: String?, _ type: String?, _ size: Int64?) -> NewUpload {
        var values: [String: String] = [:]
        values["filename"] = name
        values["filetype"] = type
        return NewUpload(dialect: "vimeo", length: size, metadata: UploadMetadata(describing: values))
    }

    /// Takes back what was counted: without a link the client cannot upload.
    func withdraw(_ admission: ElsewhereAdmission) async {
        // If this fails, which is logged, the upload counts until the period ends.
        try? await uploads.withdraw(admission)
    }
}

extension VimeoBody {
    /// What the members say about a video, for Vimeo; others are not passed on.
    var labels: JSONMembers {
        var labels: JSONMembers = [:]
        for name in ["name", "description", "password", "license", "locale", "content_rating"] {
            labels[name] = self[name]
        }
        var body = self
        var privacy: JSONMembers = [:]
        for name in ["view", "embed", "comments"] { privacy[name] = self["privacy.\(name)"] }
        for name in ["download", "add"] { privacy[name] = body.bool("privacy.\(name)").map(JSONValue.bool) }
        if !privacy.isEmpty { labels["privacy"] = .object(privacy) }
        return labels
    }
}
