internal import Bytes
internal import Foundation
internal import HTTPWire
internal import UploadModel
internal import VODKit

/// Files, pictures and text tracks of videos at Vimeo.
extension VimeoBroker {
    /// A page of a list at Vimeo, each element as `shown` makes it.
    func collection(
        _ name: String,
        of id: Int64,
        _ fields: [String],
        _ call: VimeoCall,
        shown: (JSONValue, VimeoCloudVideo) -> JSONValue
    ) async throws(VimeoError) -> Response {
        let page = try call.page()
        let video = try await seen(id, call)
        let document = try await upstream.document(
            .get,
            "\(video.uri)/\(name)",
            fields: Self.fields(call, fields),
            [(name: "page", value: String(page.number)), (name: "per_page", value: String(page.size))]
        )
        guard let members = document?.members, case .array(let elements)? = members["data"] else {
            throw VimeoError(502, nil, "Vimeo sent no list.")
        }
        var total = elements.count
        if case .integer(let number)? = members["total"] { total = Int(clamping: max(0, number)) }
        return call.response(page, of: total, elements.map { shown($0, video) })
    }

    /// A document in which our user stands in the place of the account's.
    static func with(_ element: JSONValue, _ video: VimeoCloudVideo, _ call: VimeoCall) -> JSONValue {
        guard case .object(let known) = element else { return element }
        var members = shared(known, video, call)
        guard members["upload"] != nil || members["user"] != nil else { return .object(members) }
        members["user"] = call.documents.user(call.user)
        return .object(members)
    }

    /// A picture or a text track, whose `link` takes its bytes.
    static func attachment(_ element: JSONValue, _ video: VimeoCloudVideo, _ call: VimeoCall) -> JSONValue {
        guard case .object(let known) = element else { return element }
        var members = shared(known, video, call)
        if members["link"] != nil, !call.caller.mayAdd(toVideoBegunBy: video.principal) { members["link"] = .null }
        return .object(members)
    }

    func addVersion(_ id: Int64, _ call: VimeoCall) async throws(VimeoError) -> Response {
        var body = try await VimeoBody(of: call.request, limit: local.bodyLimit)
        try VimeoVideoCalls.checkVersion(&body, call)
        guard let video = try await core(await videos.one(id, of: call.user)?.content) else {
            throw VimeoError(404, 5012, "The video could not be found.")
        }
        try call.caller.requireAdding(toVideoBegunBy: video.principal)
        let (name, size) = try VimeoVideoCalls.version(&body)
        let admission = try await core(await admit(name, nil, size, call))
        do throws(VimeoError) {
            let made = try await upstream.create(
                "\(video.uri)/versions",
                [
                    "file_name": .string(name),
                    "upload": .object(["approach": .string("tus"), "size": .string(String(size))]),
                ],
                approach: .tus,
                fields: Self.fields(call, VimeoUpstream.versionFields, needing: ["uri", "upload"])
            )
            try await core(await videos.watch(video))
            return call.response(Self.with(.object(made.document), video, call), "video.version", 201)
        } catch {
            await withdraw(admission)
            throw error
        }
    }

    func addAttachment(_ kind: VimeoAttachment.Kind, to id: Int64, _ call: VimeoCall) async throws(VimeoError)
        -> Response
    {
        var body = try await VimeoBody(of: call.request, limit: local.bodyLimit)
        let video = try await owned(id, call)
        try call.caller.requireAdding(toVideoBegunBy: video.principal)
        let members = try Self.members(of: kind, &body, isNew: true)
        let document = try await upstream.document(
            .post,
            "\(video.uri)/\(kind.collection)",
            fields: Self.fields(call, kind.fields),
            body: .object(members)
        )
        return call.response(.object(document?.members ?? [:]), kind.mediaType, 201)
    }

    func attachment(_ kind: VimeoAttachment.Kind, _ id: Int64, of video: Int64, _ call: VimeoCall)
        async throws(VimeoError)
        -> Response
    {
        let found = try await owned(video, call)
        let path = "\(found.uri)/\(kind.collection)/\(id)"
        var body: JSONValue?
        switch call.method {
        case .get, .head:
            guard call.caller.maySee(begunBy: found.principal) else { throw VimeoError.refused(.notFound) }
        case .delete:
            // Vimeo does not tell whether its bytes are there.
            try call.caller.requireRemoving(isComplete: true)
            _ = try await upstream.call(.delete, path)
            return Response(204)
        case .patch:
            try call.caller.require(.edit)
            var read = try await VimeoBody(of: call.request, limit: local.bodyLimit)
            body = .object(try Self.members(of: kind, &read, isNew: false))
        default: break
        }
        let document = try await upstream.document(
            call.method == .patch ? .patch : .get,
            path,
            fields: Self.fields(call, kind.fields),
            body: body
        )
        return call.response(Self.attachment(.object(document?.members ?? [:]), found, call), kind.mediaType)
    }

    /// The members of a picture or a text track that Vimeo is told.
    static func members(of kind: VimeoAttachment.Kind, _ body: inout VimeoBody, isNew: Bool)
        throws(VimeoError) -> JSONMembers
    {
        var members: JSONMembers = [:]
        if let isActive = body.bool("active") { members["active"] = .bool(isActive) }
        switch kind {
        case .picture:
            switch body["time"] {
            case .integer(let seconds)? where seconds >= 0: members["time"] = .integer(seconds)
            case .number(let seconds)? where seconds >= 0: members["time"] = .number(seconds)
            case nil: break
            default: body.reject("time", "must be a number of seconds")
            }
        case .textTrack:
            let type = body.choice("type", of: VimeoAttachment.types)
            if isNew, type == nil, body.problems.isEmpty { body.reject("type", "is missing") }
            for (name, value) in [
                ("type", type), ("language", body.text("language", atMost: 32)),
                ("name", body.text("name", atMost: 256)),
            ] {
                if let value { members[name] = .string(value) }
            }
        }
        try body.finish()
        return members
    }
}

extension VimeoAttachment.Kind {
    var fields: [String] {
        switch self {
        case .picture: VimeoUpstream.pictureFields
        case .textTrack: VimeoUpstream.textTrackFields
        }
    }
}
