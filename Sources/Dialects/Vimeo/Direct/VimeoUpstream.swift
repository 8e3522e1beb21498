internal import Bytes
internal import Foundation
internal import HTTPWire
internal import ObjectGateway
internal import UploadModel

/// Vimeo's API as the broker uses it: documents, and failures in our form.
struct VimeoUpstream: Sendable {
    let cloud: VimeoForwarder
    let clock: any WallClock
    /// For the operator: what only they can mend.
    let report: @Sendable (_ call: String, _ message: String) -> Void
    /// In whose turn the API is called; `nil` for the gateway's own work.
    var subject: String?

    /// A document that Vimeo sent.
    struct Document {
        var members: JSONMembers
        /// `Last-Modified`.
        var modified: String?
    }

    /// Something that was created, and to where its bytes go.
    struct Made {
        var id: Int64
        var uri: String
        var document: JSONMembers
        /// `nil` for approaches without one.
        var link: String?
    }

    /// Members of videos that are always asked for (protocol notes §11).
    static let needed = ["uri", "link", "name", "status", "resource_key", "upload", "transcode"]
    /// Of a client that wants everything: Vimeo allows more calls to those who name what they need (§3.3).
    static let videoFields =
        needed + [
            "description", "type", "player_embed_url", "manage_link", "duration", "width", "height", "language",
            "embed",
            "created_time", "modified_time", "release_time", "content_rating", "license", "privacy", "password",
            "pictures", "tags", "stats", "categories", "metadata", "app", "is_playable", "has_audio", "files",
            "download",
        ]
    static let versionFields = [
        "uri", "filename", "filesize", "upload_date", "duration", "active", "app", "created_time", "modified_time",
        "metadata", "upload", "transcode", "play",
    ]
    static let pictureFields = [
        "uri", "active", "type", "base_link", "sizes", "link", "resource_key", "default_picture",
    ]
    static let textTrackFields = [
        "uri", "active", "type", "language", "display_language", "id", "link", "link_expires_time", "hls_link",
        "hls_link_expires_time", "name",
    ]
    static let statusFields = ["state", "progress", "time_left"]

    /// Calls the API.
    ///
    /// - Parameters:
    ///   - method: Such as GET.
    ///   - path: Without a query.
    ///   - query: With names and values that need no escapes.
    ///   - body: `nil` for none.
    ///   - since: `If-Modified-Since`.
    /// - Returns: The response; its status is 200 to 399.
    /// - Throws: `VimeoError`.
    func call(
        _ method: HTTPMethod,
        _ path: String,
        _ query: [(name: String, value: String)] = [],
        body: JSONValue? = nil,
        since: String? = nil
    ) async throws(VimeoError) -> VimeoForwarder.Reply {
        let text = query.map { "\($0.name)=\($0.value)" }.joined(separator: "&")
        let reply: VimeoForwarder.Reply
        do throws(CloudForwarder.Failure) {
            reply = try await cloud.call(
                method.rawValue,
                text.isEmpty ? path : "\(path)?\(text)",
                json: body.map(VimeoJSON.bytes),
                since: since,
                for: subject
            )
        } catch {
            throw .refused(Self.unavailable("\(error.message)."))
        }
        guard (200..<400).contains(reply.status) else { throw .refused(failure(reply)) }
        return reply
    }

    /// Calls the API for a document.
    ///
    /// - Returns: `nil` for 304.
    /// - Throws: `VimeoError`.
    func document(
        _ method: HTTPMethod,
        _ path: String,
        fields: [String],
        _ query: [(name: String, value: String)] = [],
        body: JSONValue? = nil,
        since: String? = nil
    ) async throws(VimeoError) -> Document? {
        let query = [(name: "fields", value: fields.joined(separator: ","))] + query
        let reply = try await call(method, path, query, body: body, since: since)
        if reply.status == 304 { return nil }
        guard let members = Self.members(reply.content) else {
            throw VimeoError(502, nil, "Vimeo sent no document.", "The response of Vimeo cannot be read; try again.")
        }
        return Document(members: members, modified: reply.modified)
    }

    /// Creates a video, or another file of one.
    ///
    /// - Parameters:
    ///   - path: Of the collection.
    ///   - body: Of the call.
    ///   - approach: That the answer must have.
    ///   - fields: What the answer is to have.
    /// - Returns: What was created.
    /// - Throws: `VimeoError`; what Vimeo made of a request that it took for another one is deleted.
    func create(
        _ path: String,
        _ body: JSONMembers,
        approach: VimeoVideo.Approach,
        fields: [String]
    ) async throws(VimeoError) -> Made {
        let document = try await document(.post, path, fields: fields, body: .object(body))?.members ?? [:]
        guard case .string(let uri)? = document["uri"], let id = Self.id(uri) else {
            throw VimeoError(502, nil, "Vimeo did not tell what it has created.", "Try again.")
        }
        var upload: JSONMembers = [:]
        if case .object(let members)? = document["upload"] { upload = members }
        var link: String?
        if case .string(let text)? = upload["upload_link"], text.hasPrefix("https://") || text.hasPrefix("http://") {
            link = text
        }
        guard upload["approach"] == .string(approach.rawValue), link != nil || approach != .tus else {
            // The request was lost on the way, or the account may not upload so (protocol notes §11).
            await delete(uri)
            throw VimeoError(
                502,
                nil,
                "Vimeo did not begin the upload.",
                "Vimeo answered with another approach than \(approach.rawValue); check that the account may upload by it."
            )
        }
        return Made(id: id, uri: uri, document: document, link: link)
    }

    /// Deletes something that nobody knows of.
    func delete(_ uri: String) async {
        guard uri.hasPrefix("/"), uri.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "?") }) else {
            return
        }
        // If this fails, which is logged, an empty video stays in the account.
        _ = try? await call(.delete, uri)
    }

    /// The number in `/videos/123`, `/videos/123:hash` and `/videos/1/versions/123`.
    private static func id(_ uri: String) -> Int64? {
        uri.split(separator: "/").last.flatMap { VimeoVideo.id(String($0.prefix { $0 != ":" })) }
    }

    static func members(_ content: [UInt8]) -> JSONMembers? {
        JSONValue(json: content)?.members
    }

    // MARK: Failures

    private static func unavailable(_ advice: String) -> VimeoFailure {
        var failure = VimeoFailure(503, nil, "Vimeo is not available at the moment.", advice)
        failure.fields["Retry-After"] = "5"
        return failure
    }

    private func reported(_ advice: String) -> VimeoFailure {
        report("upstream", advice)
        return Self.unavailable(advice)
    }

    /// A refusal of Vimeo, by its code.
    private func failure(_ reply: VimeoForwarder.Reply) -> VimeoFailure {
        switch reply.status {
        case 429:
            var failure = VimeoFailure(429, nil, "Too many API requests. Wait a while, and try again.")
            let end = reply.resumesAt ?? clock.now.addingTimeInterval(60)
            failure.fields["X-RateLimit-Remaining"] = "0"
            if case .string(let text) = VimeoDocuments.time(end) { failure.fields["X-RateLimit-Reset"] = text }
            failure.fields["Retry-After"] = String(
                max(1, Int64(end.timeIntervalSince(clock.now).rounded(.up)))
            )
            return failure
        case 401: return reported("Vimeo refuses the gateway's access token (vimeo.accessToken).")
        case 400..<500: break
        default: return reported("Vimeo returned status \(reply.status); try again.")
        }
        let members = Self.members(reply.content) ?? [:]
        func text(_ value: JSONValue?) -> String? {
            guard case .string(let text)? = value else { return nil }
            return cloud.redacted(text).first(scalars: 1000)
        }
        func code(_ value: JSONValue?) -> Int? {
            switch value {
            case .integer(let number)?: Int(exactly: number)
            case .string(let text)?: Int(text)
            default: nil
            }
        }
        let message = text(members["error"]) ?? "Vimeo refused the request."
        var failure = VimeoFailure(
            Status(reply.status),
            code(members["error_code"]),
            message,
            text(members["developer_message"]) ?? "Vimeo refused the request with status \(reply.status): \(message)"
        )
        if case .array(let elements)? = members["invalid_parameters"] {
            for case .object(let element) in elements.prefix(100) {
                failure.parameters.append(
                    VimeoFailure.Parameter(
                        field: text(element["field"]) ?? "",
                        code: code(element["error_code"]) ?? 2204,
                        message: text(element["error"]) ?? text(element["developer_message"]) ?? "",
                        advice: text(element["developer_message"])
                    )
                )
            }
        }
        return failure
    }
}
