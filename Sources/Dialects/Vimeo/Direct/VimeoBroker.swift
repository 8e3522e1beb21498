internal import Bytes
internal import Foundation
internal import HTTPWire
internal import UploadCore
internal import UploadModel
internal import VODKit

/// `direct` mode: videos are created at Vimeo with the account's token.
///
/// Calls are checked here, and a user reaches only the videos that were created for it. Bytes go to Vimeo; those of
/// clients that know only what Vimeo no longer offers (tickets, approach `streaming`) come here first.
struct VimeoBroker: VimeoService {
    /// Users, and tickets until they are completed.
    let local: VimeoVideoCalls
    private(set) var upstream: VimeoUpstream
    let videos: VimeoCloudVideos
    let transfers: VimeoTransfers
    var library: VimeoLibrary { local.library }
    var uploads: UploadService { local.library.uploads }

    func answer(_ resource: VimeoResource, _ call: VimeoCall) async throws(VimeoError) -> Response {
        var own = self
        own.upstream.subject = call.user.subject
        return try await own.perform(resource, call)
    }

    private func perform(_ resource: VimeoResource, _ call: VimeoCall) async throws(VimeoError) -> Response {
        switch (resource, call.method) {
        case (.videos(let number), .post):
            try VimeoVideoCalls.check(number, is: call.user)
            try call.caller.require(.upload)
            return try await create(call)
        case (.videos(let number), _):
            try VimeoVideoCalls.check(number, is: call.user)
            return try await list(call)
        case (.upload(let number, let ticket), .delete):
            try VimeoVideoCalls.check(number, is: call.user)
            try call.caller.require(.upload)
            return try await complete(ticket, call)
        case (.upload(let number, let id), _):
            try VimeoVideoCalls.check(number, is: call.user)
            guard let video = try await core(await videos.one(id, of: call.user)?.content), video.approach == .post,
                call.caller.maySee(begunBy: video.principal)
            else { return try await local.answer(resource, call) }
            return call.response(Self.ticket(video, call), "uploadattempt")
        case (.video(let id), .patch):
            try call.caller.require(.edit)
            return try await change(id, call)
        case (.video(let id), .delete):
            try call.caller.require(.delete)
            return try await delete(id, call)
        case (.video(let id), _): return try await read(id, call)
        case (.status(let id), _):
            let video = try await seen(id, call)
            let fields = Self.fields(call, VimeoUpstream.statusFields)
            let document = try await upstream.document(.get, "\(video.uri)/status", fields: fields)
            return call.response(.object(Self.shared(document?.members ?? [:], video, call)), "video")
        case (.files(let id), _):
            try call.caller.require(.upload)
            try call.caller.requireAdding(toVideoBegunBy: try await owned(id, call).principal)
            var body = try await VimeoBody(of: call.request, limit: local.bodyLimit)
            return try await local.createOld(try VimeoVideoCalls.old(&body, replacing: id), body.labels, call)
        case (.versions(let id), .post):
            try call.caller.require(.upload)
            return try await addVersion(id, call)
        case (.versions(let id), _):
            return try await collection("versions", of: id, VimeoUpstream.versionFields, call) {
                Self.with($0, $1, call)
            }
        case (.version(let video, let id), _):
            let video = try await seen(video, call)
            let fields = Self.fields(call, VimeoUpstream.versionFields)
            let document = try await upstream.document(.get, "\(video.uri)/versions/\(id)", fields: fields)
            return call.response(Self.with(.object(document?.members ?? [:]), video, call), "video.version")
        case (.attachments(let kind, let id), .post):
            try call.caller.require(.upload)
            return try await addAttachment(kind, to: id, call)
        case (.attachments(let kind, let id), _):
            return try await collection(kind.collection, of: id, kind.fields, call) { Self.attachment($0, $1, call) }
        case (.attachment(let kind, let video, let id), _):
            return try await attachment(kind, id, of: video, call)
        default: return try await local.answer(resource, call)
        }
    }

    // MARK: Whose videos

    /// A video of the caller.
    ///
    /// - Throws: `VimeoError` 404 for those of others, and for all others in the account.
    func owned(_ id: Int64, _ call: VimeoCall) async throws(VimeoError) -> VimeoCloudVideo {
        guard let found = try await core(await videos.one(id, of: call.user)) else {
            throw VimeoError.refused(.notFound)
        }
        return found.content
    }

    /// The same, for a caller that wants to read it.
    func seen(_ id: Int64, _ call: VimeoCall) async throws(VimeoError) -> VimeoCloudVideo {
        let video = try await owned(id, call)
        guard call.caller.maySee(begunBy: video.principal) else { throw VimeoError.refused(.notFound) }
        return video
    }

    func list(_ call: VimeoCall) async throws(VimeoError) -> Response {
        let page = try call.page()
        let all = try await core(await videos.all(of: call.user).filter { call.caller.maySee(begunBy: $0.principal) })
        var documents: [JSONValue] = []
        for video in page.part(of: all) { documents.append(try await shown(video, call)) }
        return call.response(page, of: all.count, documents)
    }

    // MARK: Documents

    /// What Vimeo is asked for: what the client wants and Vimeo knows, and what is needed here.
    static func fields(_ call: VimeoCall, _ all: [String], needing needed: [String] = []) -> [String] {
        if call.fields.names.isEmpty { return all }
        var fields = needed
        for name in call.fields.names where !fields.contains(where: { name == $0 || name.hasPrefix($0 + ".") }) {
            let isName =
                name.utf8.count <= 128
                && name.utf8.allSatisfy { byte in
                    (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte)
                        || byte == UInt8(ascii: "_") || byte == UInt8(ascii: ".")
                }
            // Users are ours.
            if isName, name != "user", !name.hasPrefix("user.") { fields.append(name) }
        }
        return fields.isEmpty ? all : Array(fields.prefix(100))
    }

    static func videoFields(_ call: VimeoCall) -> [String] {
        fields(call, VimeoUpstream.videoFields, needing: VimeoUpstream.needed)
    }

    /// A video as its user sees it.
    func shown(_ video: VimeoCloudVideo, _ call: VimeoCall) async throws(VimeoError) -> JSONValue {
        var members = Self.shared(video.members, video, call)
        members["user"] = call.documents.user(call.user)
        var failure = video.failure
        if failure == nil, !video.isSettled, let key = video.sourceKey {
            failure = try await core(await library.entry(at: key)?.video.failure)
        }
        var upload: JSONMembers = [:]
        if case .object(let known)? = members["upload"] { upload = known }
        if video.approach == .streaming, let source = video.source {
            upload["approach"] = .string("streaming")
            let link = call.documents.base + local.links.path(source, of: call.user)
            upload["upload_link"] = call.caller.mayAdd(toVideoBegunBy: video.principal) ? .string(link) : .null
        }
        if let failure {
            members["status"] = .string(failure.rawValue)
            members["transcode"] = .object(["status": .string("error")])
            upload["status"] = .string("error")
        }
        members["upload"] = .object(upload)
        return .object(members)
    }

    /// Members of what Vimeo told of a video, as far as the caller may know them: links to content if it may read, and those by
    /// which bytes come if it may add to the video.
    static func shared(_ members: JSONMembers, _ video: VimeoCloudVideo, _ call: VimeoCall) -> JSONMembers {
        let members = call.caller.mayRead ? members : members.filter { !contentMembers.contains($0.key) }
        return call.caller.mayAdd(toVideoBegunBy: video.principal) ? members : withoutSending(members)
    }

    private static let contentMembers: Set<String> = ["files", "download", "play"]

    /// Members without what brings bytes, wherever Vimeo puts it: whoever has it may write.
    ///
    ///     "upload": {"approach": "tus", "upload_link": "https://…"}   "upload": {"approach": "tus", "upload_link": null}
    ///     "pictures": {"uri": "/…", "link": "https://…"}              "pictures": {"uri": "/…", "link": null}
    static func withoutSending(_ members: JSONMembers) -> JSONMembers {
        var kept = members
        for (name, value) in members {
            switch value {
            case _ where sendingMembers.contains(name): kept[name] = .null
            case .object(let inner) where name == "upload":
                var harmless = inner
                for (name, _) in inner where !harmlessMembers.contains(name) { harmless[name] = .null }
                kept[name] = .object(harmless)
            case .object(let inner):
                var inner = withoutSending(inner)
                if name == "pictures", inner["link"] != nil { inner["link"] = .null }
                kept[name] = .object(inner)
            case .array(let elements):
                kept[name] = .array(
                    elements.map { element in
                        guard case .object(let inner) = element else { return element }
                        return .object(withoutSending(inner))
                    }
                )
            case .null, .bool, .integer, .number, .string: break
            }
        }
        return kept
    }

    private static let sendingMembers: Set<String> = ["upload_link", "upload_link_secure", "complete_uri", "form"]
    /// Of `upload`, whose other members may be or become links.
    private static let harmlessMembers: Set<String> = ["status", "approach", "size", "redirect_url"]

    func read(_ id: Int64, _ call: VimeoCall) async throws(VimeoError) -> Response {
        let video = try await seen(id, call)
        let since = video.source == nil ? call.request.head.fields["If-Modified-Since"] : nil
        let document: VimeoUpstream.Document?
        do throws(VimeoError) {
            document = try await upstream.document(.get, video.uri, fields: Self.videoFields(call), since: since)
        } catch {
            if error.failure.status == 404 {
                _ = try await core(await videos.change(video.recordKey) { $0.isGone = true })
            }
            throw error
        }
        guard let document else { return Response(304) }
        var response = try await shown(document, video, call)
        if let modified = document.modified { response.fields["Last-Modified"] = modified }
        return response
    }

    /// Records what Vimeo told, and answers with it.
    func shown(_ document: VimeoUpstream.Document, _ video: VimeoCloudVideo, _ call: VimeoCall) async throws(VimeoError)
        -> Response
    {
        let known = try await core(
            await videos.change(video.recordKey) { video in
                // What the client asked for may be less than what is known.
                video.learn(video.members.merging(document.members) { $1 })
            }
        )
        var current = known ?? video
        current.learn(document.members)
        // A later file makes it change again.
        if let known, !known.isSettled { try await core(await videos.watch(known)) }
        return call.response(try await shown(current, call), "video")
    }

    // MARK: Changing

    func change(_ id: Int64, _ call: VimeoCall) async throws(VimeoError) -> Response {
        var body = try await VimeoBody(of: call.request, limit: local.bodyLimit)
        let video = try await owned(id, call)
        var labels = VimeoVideo.Labels()
        labels.read(&body)
        try body.finish()
        let document = try await upstream.document(
            .patch,
            video.uri,
            fields: Self.videoFields(call),
            body: .object(body.labels)
        )
        return try await shown(document ?? VimeoUpstream.Document(members: [:]), video, call)
    }

    func delete(_ id: Int64, _ call: VimeoCall) async throws(VimeoError) -> Response {
        let video = try await owned(id, call)
        do throws(VimeoError) {
            _ = try await upstream.call(.delete, video.uri)
        } catch {
            if error.failure.status == 404 { try await core(await forget(video)) }
            throw error
        }
        try await core(await forget(video))
        return Response(204)
    }

    /// Forgets a video that Vimeo has no longer, with bytes that were to go there.
    func forget(_ video: VimeoCloudVideo) async throws(UploadError) {
        if let key = video.sourceKey {
            if let entry = try await library.entry(at: key) { _ = try await library.delete(entry) }
            try await transfers.remove(key)
        }
        try await transfers.removeAll(to: video)
        try await videos.remove(video)
    }
}
