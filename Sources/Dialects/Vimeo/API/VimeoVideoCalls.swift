internal import Bytes
internal import Foundation
internal import HTTPWire
internal import RESTKit
internal import UploadCore
internal import UploadModel
internal import VODKit

/// What answers the calls that concern users, videos and tickets: this gateway with its own videos, or Vimeo.
protocol VimeoService: Sendable {
    /// - Throws: `VimeoError`.
    func answer(_ resource: VimeoResource, _ call: VimeoCall) async throws(VimeoError) -> Response
}

/// The calls that concern users, videos and tickets.
struct VimeoVideoCalls: VimeoService {
    let library: VimeoLibrary
    let uploads: VimeoUploads
    let links: VimeoLinks
    let media: MediaLinks
    let publicURL: PublicURL
    let bodyLimit: Int

    func documents(
        _ user: VimeoUser,
        _ grant: Grant,
        _ request: Request,
        for caller: VimeoCaller? = nil
    ) async throws(VimeoError) -> VimeoDocuments {
        let report = try await core(await library.quota.quota(of: Account(.subject, user.subject)))
        let now = library.clock.now
        return VimeoDocuments(
            links: links,
            media: media,
            now: now,
            base: publicURL.base(for: request),
            quota: VimeoQuota(report, cap: grant.storedBytes),
            caller: caller,
            reader: caller?.reader(at: now)
        )
    }

    /// A call with what every answer needs.
    func call(_ method: HTTPMethod, _ request: Request, by caller: VimeoCaller) async throws(VimeoError) -> VimeoCall {
        let query = try Self.query(of: request.head)
        let user = try caller.user()
        return VimeoCall(
            method: method,
            request: request,
            caller: caller,
            user: user,
            query: query,
            fields: VimeoFields(query.all("fields")),
            documents: try await documents(user, caller.grant, request, for: caller)
        )
    }

    func answer(_ resource: VimeoResource, _ call: VimeoCall) async throws(VimeoError) -> Response {
        let (user, caller) = (call.user, call.caller)
        switch (resource, call.method) {
        case (.user(let number), _):
            try Self.check(number, is: user)
            return call.response(call.documents.user(user), "user")
        case (.videos(let number), .post):
            try Self.check(number, is: user)
            try caller.require(.upload)
            return try await create(call)
        case (.videos(let number), _):
            try Self.check(number, is: user)
            return try await list(call)
        case (.upload(let number, let ticket), .delete):
            try Self.check(number, is: user)
            try caller.require(.upload)
            return try await complete(ticket, of: user, call.query)
        case (.upload(let number, let ticket), _):
            try Self.check(number, is: user)
            let entry = try await seen(ticket, call, isTicket: true)
            return call.response(call.documents.ticket(entry), "uploadattempt")
        case (.video(let id), .patch):
            try caller.require(.edit)
            return try await change(id, call)
        case (.video(let id), .delete):
            try caller.require(.delete)
            guard let entry = try await core(await library.entry(id, of: user)), !entry.video.isTicket else {
                // Its deletion may have been interrupted, and the client repeats it.
                try await core(await library.finishDeletion(id, of: user))
                throw VimeoError.refused(.notFound)
            }
            guard try await core(await library.delete(entry)) else { throw VimeoError.refused(.notFound) }
            return Response(204)
        case (.video(let id), _):
            let seen = try await seen(id, call)
            let entry = try await core(await library.described(try await uploads.polled(seen)))
            return Self.traced(Self.unlessKnown(entry, call), entry)
        case (.status(let id), _):
            let seen = try await seen(id, call)
            let entry = try await core(await uploads.polled(seen))
            return Self.traced(call.response(try await status(entry), "video"), entry)
        case (.files(let id), _):
            try caller.require(.upload)
            return try await replace(id, call)
        case (.versions(let id), .post):
            try caller.require(.upload)
            return try await addVersion(id, call)
        case (.versions(let id), _): return try await versions(id, call)
        case (.version(let video, let id), _): return try await version(id, of: video, call)
        case (.attachments(let kind, let video), .post):
            try caller.require(.upload)
            return try await addAttachment(kind, to: video, call)
        case (.attachments(let kind, let video), _): return try await attachments(kind, of: video, call)
        case (.attachment(let kind, let video, let id), _):
            return try await attachment(kind, id, of: video, call)
        default: throw VimeoError.refused(.notFound)
        }
    }

    private static func query(of head: RequestHead) throws(VimeoError) -> QueryItems {
        do throws(QueryItems.Failure) {
            return try QueryItems(head.target.rawQuery)
        } catch {
            throw VimeoError.refused(.malformed("The query cannot be read: \(error.reason)."))
        }
    }

    /// A caller reaches only what belongs to its user.
    static func check(_ number: Int64?, is user: VimeoUser) throws(VimeoError) {
        if let number, number != user.number { throw VimeoError.refused(.notFound) }
    }

    func entry(_ id: Int64, of user: VimeoUser, isTicket: Bool = false) async throws(VimeoError) -> VimeoEntry {
        guard let entry = try await core(await library.entry(id, of: user)) else { throw VimeoError.refused(.notFound) }
        // A ticket is no video yet, and stays readable as a ticket afterwards.
        if isTicket ? !entry.video.hasTicket : entry.video.isTicket { throw VimeoError.refused(.notFound) }
        return entry
    }

    /// The same, for a caller that wants to read it.
    func seen(_ id: Int64, _ call: VimeoCall, isTicket: Bool = false) async throws(VimeoError) -> VimeoEntry {
        let entry = try await entry(id, of: call.user, isTicket: isTicket)
        guard call.caller.maySee(begunBy: entry.video.principal) else { throw VimeoError.refused(.notFound) }
        return entry
    }

    // MARK: Creating

    private func create(_ call: VimeoCall) async throws(VimeoError) -> Response {
        var body = try await Self.creation(call, limit: bodyLimit)
        let version = try VimeoVersion(accept: call.request.head.fields["Accept"]).decided(by: body)
        if version == .old { return try await createOld(try Self.old(&body), body.labels, call) }
        let new = try Self.video(&body)
        let entry = try await create(new, call)
        // Clients insist on 200 for tus, and on 201 for the others (protocol notes §1).
        return Self.traced(call.response(call.documents.video(entry), "video", new.approach == .tus ? 200 : 201), entry)
    }

    /// The members of a creation.
    ///
    /// vimeo-dot-net before 2.x sends those of the Old Upload in the query.
    static func creation(_ call: VimeoCall, limit: Int) async throws(VimeoError) -> VimeoBody {
        let body = try await VimeoBody(of: call.request, limit: limit)
        guard body.members.isEmpty, call.query.first("type") != nil else { return body }
        var members: JSONMembers = [:]
        for name in ["type", "link", "redirect_url", "size"] {
            members[name] = call.query.first(name).map(JSONValue.string)
        }
        return VimeoBody(members)
    }

    private func create(_ new: VimeoUploads.New, _ call: VimeoCall) async throws(VimeoError) -> VimeoEntry {
        if new.size == nil { try call.documents.quota.checkRoom(cap: call.caller.grant.storedBytes) }
        do throws(VimeoError) {
            return try await uploads.create(new, by: call.caller)
        } catch {
            guard new.isOld, case .core(let cause) = error, case .tooLarge = cause.code else { throw error }
            throw VimeoError.refused(.invalid("size", cause.message))
        }
    }

    /// Creates what a client before 3.4 asks for: a ticket, or a video whose bytes the gateway fetches.
    ///
    /// - Parameters:
    ///   - new: Of `old`.
    ///   - labels: What the client said, for Vimeo.
    ///   - call: The call.
    /// - Returns: 201 with the ticket, or with the video.
    /// - Throws: `VimeoError`.
    func createOld(_ new: VimeoUploads.New, _ labels: JSONMembers, _ call: VimeoCall) async throws(VimeoError)
        -> Response
    {
        var new = new
        if !labels.isEmpty { new.said = String(decoding: VimeoJSON.bytes(.object(labels)), as: UTF8.self) }
        let entry = try await create(new, call)
        return Self.traced(
            new.approach == .pull
                ? call.response(call.documents.video(entry), "video", 201)
                : call.response(call.documents.ticket(entry), "uploadticket", 201),
            entry
        )
    }

    static func traced(_ response: Response, _ entry: VimeoEntry) -> Response {
        var response = response
        response.trace.uploadID = entry.video.uploadID
        response.trace.mediaID = String(entry.video.id)
        return response
    }

    /// The members of a creation before 3.4 (protocol notes §5.2).
    ///
    /// - Parameters:
    ///   - body: Of the call.
    ///   - replaced: The video whose file is replaced, which only `streaming` does.
    /// - Returns: For `type` `streaming` a ticket, for `POST` one whose bytes come by a form, for `pull` a video.
    /// - Throws: `VimeoError` 2204.
    static func old(_ body: inout VimeoBody, replacing replaced: Int64? = nil) throws(VimeoError) -> VimeoUploads.New {
        let types: [String: VimeoVideo.Approach] =
            replaced == nil ? ["streaming": .ticket, "POST": .post, "pull": .pull] : ["streaming": .ticket]
        let type = (body.text("type", atMost: 64) ?? "").lowercasedASCII()
        let approach = types.first { $0.key.lowercasedASCII() == type }?.value
        if approach == nil {
            body.reject("type", "must be one of: \(types.keys.sorted().joined(separator: ", "))", 2230)
        }
        let size = body.size("size")
        _ = body.bool("upgrade_to_1080", 2255)
        let redirect = body.redirectURL("redirect_url")
        _ = body.text("machine_id", atMost: 256, 2257)
        _ = body.bool("create_clip", 2258)
        let link = body.text("link", atMost: 8192)
        if approach == .pull, link == nil, body.problems.isEmpty { body.reject("link", "is missing") }
        var labels = VimeoVideo.Labels()
        labels.read(&body)
        try body.finish()
        return VimeoUploads.New(
            labels: labels,
            approach: approach ?? .ticket,
            isOld: true,
            size: size,
            redirectURL: approach == .post ? redirect : nil,
            replaces: replaced,
            link: approach == .pull ? link : nil
        )
    }

    /// The members of a video (protocol notes §4.1).
    static func video(_ body: inout VimeoBody) throws(VimeoError) -> VimeoUploads.New {
        var labels = VimeoVideo.Labels()
        labels.read(&body)
        if labels.name?.isEmpty ?? false { labels.name = nil }
        guard body["upload"] != nil else {
            // What the real service does when a client loses its body.
            try body.finish()
            return VimeoUploads.New(labels: labels, approach: .post)
        }
        let approaches: [VimeoVideo.Approach] = [.tus, .streaming, .post, .pull]
        let text = body.text("upload.approach", atMost: 64) ?? ""
        let approach = VimeoVideo.Approach(rawValue: text)
        if approach.map({ !approaches.contains($0) }) ?? true {
            body.reject(
                "upload.approach",
                "must be one of: \(approaches.map(\.rawValue).joined(separator: ", "))",
                2230
            )
        }
        let size = body.size("upload.size")
        if approach == .tus, size == nil, body.problems.isEmpty {
            body.reject("upload.size", "is missing: tus needs the number of bytes", 2254)
        }
        let type = body.text("upload.mime_type", atMost: 256)
        let redirect = body.redirectURL("upload.redirect_url")
        // Some clients say `upload_link` (protocol notes §4.5).
        var link = body.text("upload.link", atMost: 8192)
        if link == nil, approach == .pull { link = body.text("upload.upload_link", atMost: 8192) }
        if approach == .pull, link == nil, body.problems.isEmpty { body.reject("upload.link", "is missing") }
        let fileName = body.text("file_name", atMost: 1024)
        try body.finish()
        return VimeoUploads.New(
            labels: labels,
            approach: approach ?? .post,
            size: size,
            fileName: fileName,
            contentType: type.flatMap { MediaType($0)?.description },
            redirectURL: redirect,
            link: approach == .pull ? link : nil
        )
    }

    // MARK: Reading

    private func list(_ call: VimeoCall) async throws(VimeoError) -> Response {
        let page = try call.page()
        let caller = call.caller
        guard caller.maySee(begunBy: caller.grant.id) else { return call.response(page, of: 0, []) }
        let own = caller.mayRead ? nil : caller.grant.id
        let found = try await core(await library.videos(page, of: call.user, begunBy: own))
        var documents: [JSONValue] = []
        for entry in try await core(await library.entries(of: found.media, of: call.user)) {
            documents.append(call.documents.video(try await core(await library.described(entry))))
        }
        return call.response(page, of: found.count, documents)
    }

    /// 304 if nothing changed since the client read it (RFC 9110 §13.1.3); bytes that arrive do not count.
    private static func unlessKnown(_ entry: VimeoEntry, _ call: VimeoCall) -> Response {
        let now = call.documents.now.unixSeconds
        // From this second on it was as it is: what changes later in the second of an answer is not missed.
        var changed = max(entry.video.modifiedAt, entry.active?.updatedAt.unixSeconds ?? 0) + 1
        if call.documents.reader != nil, entry.status == .available || entry.picture != nil {
            // The links to content that the client knows must not end before its next call.
            let period = call.caller.linkPeriod
            changed = max(changed, now / period * period)
            // Those of an earlier token may have ended.
            changed = max(changed, call.caller.grant.issueTime.unixSeconds)
        }
        let modified = HTTPDate.format(min(changed, now))
        let since = call.request.head.fields["If-Modified-Since"].flatMap { HTTPDate.parse($0) }
        if let since, changed <= since { return Response(304, ["Last-Modified": modified]) }
        var response = call.response(call.documents.video(entry), "video")
        response.fields["Last-Modified"] = modified
        return response
    }

    private func status(_ entry: VimeoEntry) async throws(VimeoError) -> JSONValue {
        var progress: Int64 = entry.status == .available ? 100 : 0
        if entry.status == .uploading, let upload = entry.upload, let length = upload.length, length > 0 {
            progress = min(99, try await core(await library.uploads.inspect(upload.id).offset) * 100 / length)
        }
        return .object([
            "state": .string(entry.status.state), "progress": .integer(progress), "time_left": .integer(0),
        ])
    }

    // MARK: Changing

    private func change(_ id: Int64, _ call: VimeoCall) async throws(VimeoError) -> Response {
        var body = try await VimeoBody(of: call.request, limit: bodyLimit)
        let entry = try await entry(id, of: call.user)
        var probe = entry.video.labels
        probe.read(&body)
        if probe.name?.isEmpty ?? false { body.reject("name", "must not be empty", 2231) }
        try body.finish()
        let (now, members) = (library.clock.now.unixSeconds, body)
        let changed = try await core(
            await library.change(entry) { video in
                var (video, body) = (video, members)
                video.labels.read(&body)
                video.modifiedAt = now
                return video
            }
        )
        guard changed != nil else { throw VimeoError.refused(.notFound) }
        let current = try await self.entry(id, of: call.user)
        let described = try await core(await library.described(current))
        return call.response(call.documents.video(described), "video")
    }

    // MARK: Completing

    /// `DELETE complete_uri` (protocol notes §5.5).
    private func complete(_ ticket: Int64, of user: VimeoUser, _ query: QueryItems) async throws(VimeoError) -> Response
    {
        let signature = try Self.signature(query)
        let entry = try await core(await library.entry(ticket, of: user))
        guard let entry, entry.video.approach == .ticket else { throw VimeoError.refused(.noVideoFile) }
        guard links.verifiesTicket(ticket, of: user, signature) else { throw VimeoError.refused(.badSignature) }
        let video = try await uploads.complete(entry)
        return Self.completed(video.uri, uploadID: video.uploadID)
    }

    /// The signature of `complete_uri`.
    static func signature(_ query: QueryItems) throws(VimeoError) -> String {
        guard let signature = query.first("signature"), !signature.isEmpty else {
            throw VimeoError(404, 5007, "There is no signature.", "Use complete_uri as it was issued.")
        }
        return signature
    }

    /// 201 with the video that a ticket has become.
    static func completed(_ uri: String, uploadID: String?) -> Response {
        var response = VimeoResponse.document(.object([:]), "video", 201)
        response.fields["Location"] = uri
        response.trace.uploadID = uploadID
        return response
    }
}

extension VimeoBody {
    /// A URL to which a browser can be sent.
    fileprivate mutating func redirectURL(_ path: String) -> String? {
        guard let url = text(path, atMost: 2048, 2256) else { return nil }
        let hasHost = ["https://", "http://"].contains { url.hasPrefix($0) && url.utf8.count > $0.utf8.count }
        if hasHost, url.unicodeScalars.allSatisfy({ $0.value > 0x20 && !(0x7F...0x9F).contains($0.value) }) {
            return url
        }
        reject(path, "must be an http or https URL", 2256)
        return nil
    }
}

extension VimeoVideo.Labels {
    private static let views = ["anybody", "contacts", "disable", "nobody", "password", "unlisted", "users"]

    /// Takes what a body says; other members stay.
    mutating func read(_ body: inout VimeoBody) {
        if let text = body.text("name", atMost: 128, 2250) { name = text }
        if let text = body.text("description", atMost: 5000, 2251) { description = text }
        switch body["privacy"] {
        case nil, .object?: break
        default: body.reject("privacy", "must be an object")
        }
        if let text = body.choice("privacy.view", of: Self.views, 2232) { view = text }
        if let text = body.choice("privacy.embed", of: ["private", "public", "whitelist"]) { embed = text }
        if let text = body.choice("privacy.comments", of: ["anybody", "contacts", "nobody"]) { comments = text }
        if let value = body.bool("privacy.download") { canDownload = value }
        if let value = body.bool("privacy.add") { canAdd = value }
        if let text = body.text("password", atMost: 32, 2233) { password = text }
        if view == "password", password?.isEmpty ?? true {
            body.reject("password", "is missing: privacy.view is password", 2233)
        }
        if let text = body.text("license", atMost: 32) { license = text }
        if let text = body.text("locale", atMost: 32) { locale = text }
        switch body["content_rating"] {
        case .array(let values)?:
            let texts = values.compactMap { value in if case .string(let text) = value { text } else { nil as String? }
            }
            if texts.count != values.count || texts.count > 16 || texts.contains(where: { $0.utf8.count > 32 }) {
                body.reject("content_rating", "must be a list of texts")
            } else {
                contentRating = texts
            }
        case .string(let text)? where text.utf8.count <= 32: contentRating = [text]
        case nil: break
        default: body.reject("content_rating", "must be a list of texts")
        }
    }
}
