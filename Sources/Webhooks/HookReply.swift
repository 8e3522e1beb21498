internal import Foundation
internal import UploadModel

/// The response to a hook: the JSON of tusd 2 (package `hooks`, type `HookResponse`); every member is optional.
struct HookReply: Decodable, Equatable {
    struct Reply: Decodable, Equatable {
        var status: Int?
        var body: String?
        var header: [String: String]?

        enum CodingKeys: String, CodingKey {
            case status = "StatusCode"
            case body = "Body"
            case header = "Header"
        }

        /// Whether a response can have the status.
        var isUsable: Bool { status.map { (200...599).contains($0) } ?? true }
    }

    struct Changes: Decodable, Equatable {
        var id: String?
        var metadata: [String: String]?
        var storage: [String: String]?

        enum CodingKeys: String, CodingKey {
            case id = "ID"
            case metadata = "MetaData"
            case storage = "Storage"
        }
    }

    var response: Reply?
    var rejectsUpload: Bool?
    var rejectsTermination: Bool?
    var changes: Changes?
    var stopsUpload: Bool?

    enum CodingKeys: String, CodingKey {
        case response = "HTTPResponse"
        case rejectsUpload = "RejectUpload"
        case rejectsTermination = "RejectTermination"
        case changes = "ChangeFileInfo"
        case stopsUpload = "StopUpload"
    }

    init() {}

    /// Parses the content of a response; empty content changes nothing.
    ///
    /// A rejection or a stop counts whatever else is wrong, because a client chooses names that the app puts into its response.
    ///
    /// - Parameters:
    ///   - content: JSON.
    ///   - name: The hook that it answers.
    /// - Throws: `HookFailure` if it is not such JSON or has invalid values, and neither rejects nor stops.
    init(content: [UInt8], to name: HookName) throws(HookFailure) {
        do throws(HookFailure) {
            self = try Self.parsed(content)
        } catch {
            guard let verdict = try? JSONDecoder().decode(Verdict.self, from: Data(content)), verdict.refuses(name)
            else { throw error }
            self.init()
            rejectsUpload = verdict.rejectsUpload
            rejectsTermination = verdict.rejectsTermination
            stopsUpload = verdict.stopsUpload
            // Its response can be good, though its changes are not.
            let response = (try? JSONDecoder().decode(Explanation.self, from: Data(content)))?.response
            if response?.isUsable == true { self.response = response }
        }
    }

    /// Only what a response decides.
    private struct Verdict: Decodable {
        var rejectsUpload: Bool?
        var rejectsTermination: Bool?
        var stopsUpload: Bool?

        enum CodingKeys: String, CodingKey {
            case rejectsUpload = "RejectUpload"
            case rejectsTermination = "RejectTermination"
            case stopsUpload = "StopUpload"
        }

        init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: CodingKeys.self)
            rejectsUpload = try? container.decode(Bool.self, forKey: .rejectsUpload)
            rejectsTermination = try? container.decode(Bool.self, forKey: .rejectsTermination)
            stopsUpload = try? container.decode(Bool.self, forKey: .stopsUpload)
        }

        func refuses(_ name: HookName) -> Bool {
            switch name {
            case .preCreate: rejectsUpload == true
            case .preTerminate: rejectsTermination == true
            case .postReceive: stopsUpload == true
            case .preFinish, .postCreate, .postFinish, .postTerminate: false
            }
        }
    }

    /// Only the response for the client.
    private struct Explanation: Decodable {
        var response: Reply?

        enum CodingKeys: String, CodingKey { case response = "HTTPResponse" }
    }

    private static func parsed(_ content: [UInt8]) throws(HookFailure) -> HookReply {
        if content.allSatisfy({ [0x20, 0x09, 0x0A, 0x0D].contains($0) }) { return HookReply() }
        var reply: HookReply
        do {
            reply = try JSONDecoder().decode(HookReply.self, from: Data(content))
        } catch {
            throw HookFailure("the response of the hook is not the JSON of a hook response")
        }
        // tusd's receivers written in Go send 0 for a status that was not set.
        if reply.response?.status == 0 { reply.response?.status = nil }
        if reply.response?.body == "" { reply.response?.body = nil }
        if reply.changes?.id == "" { reply.changes?.id = nil }
        if let status = reply.response?.status, reply.response?.isUsable == false {
            throw HookFailure("the StatusCode in the response of the hook is \(status); use 200 to 599")
        }
        if let id = reply.changes?.id, !Self.isUsable(id) {
            throw HookFailure("the ID in the response of the hook has characters that a URL path cannot contain")
        }
        return reply
    }

    /// RFC 3986 §3.3, without a leading or trailing slash; at most 255 bytes.
    private static func isUsable(_ id: String) -> Bool {
        let allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~%!$'()*+,;=/:@&"
        return id.utf8.count <= 255 && id.allSatisfy(allowed.contains) && !id.hasPrefix("/") && !id.hasSuffix("/")
    }

    /// The response for the client; `nil` if the hook does not define one.
    var hookResponse: HookResponse? {
        guard let response, response.status != nil || response.body != nil || response.header?.isEmpty == false else {
            return nil
        }
        return HookResponse(status: response.status, body: response.body, fields: response.header ?? [:])
    }

    var creationChanges: CreationChanges {
        CreationChanges(
            alias: changes?.id,
            metadata: changes?.metadata,
            // tusd's file store calls it Path.
            key: changes?.storage?["Key"] ?? changes?.storage?["Path"]
        )
    }
}

/// Why the call of a hook failed; for the log.
package struct HookFailure: Error, CustomStringConvertible {
    package let description: String
    /// Whether another attempt may succeed.
    package var isTransient: Bool
    /// Whether the app is away, or failed: what `hooks.onFailure` is for.
    ///
    /// Anything else is an answer, or a failure of the gateway: no client must get past the app by it.
    var isOutage: Bool
    /// Seconds until the receiver wants the next attempt.
    package var retryAfter: Double?
    /// What the client gets, if the cause is known.
    var refusal: UploadError?

    init(_ description: String, isTransient: Bool = false, isOutage: Bool = false, retryAfter: Double? = nil) {
        self.description = description
        self.isTransient = isTransient
        self.isOutage = isOutage
        self.retryAfter = retryAfter
    }

    /// A failure of the gateway: it had no place for the call.
    static func noTurn(_ description: String) -> HookFailure {
        var failure = HookFailure(description)
        failure.refusal = UploadError(.unavailable, "Too many uploads wait for the app's approval; try again later.")
        return failure
    }
}
