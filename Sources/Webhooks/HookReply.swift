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
    /// - Throws: `HookFailure` if it is not such JSON or has invalid values.
    init(content: [UInt8]) throws(HookFailure) {
        if content.allSatisfy({ [0x20, 0x09, 0x0A, 0x0D].contains($0) }) {
            self.init()
            return
        }
        do {
            self = try JSONDecoder().decode(HookReply.self, from: Data(content))
        } catch {
            throw HookFailure("the response of the hook is not the JSON of a hook response")
        }
        // tusd's receivers written in Go send 0 for a status that was not set.
        if response?.status == 0 { response?.status = nil }
        if response?.body == "" { response?.body = nil }
        if changes?.id == "" { changes?.id = nil }
        if let status = response?.status, !(200...599).contains(status) {
            throw HookFailure("the StatusCode in the response of the hook is \(status); use 200 to 599")
        }
        if let id = changes?.id, !Self.isUsable(id) {
            throw HookFailure("the ID in the response of the hook has characters that a URL path cannot contain")
        }
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
    package var isTransient = false
    /// Seconds until the receiver wants the next attempt.
    package var retryAfter: Double?
    /// What the client gets if the gateway itself failed, whatever the settings say about failures of the app.
    var refusal: UploadError?

    init(_ description: String, isTransient: Bool = false, retryAfter: Double? = nil) {
        self.description = description
        self.isTransient = isTransient
        self.retryAfter = retryAfter
    }

    /// A failure of the gateway: it had no place for the call.
    static func noTurn(_ description: String) -> HookFailure {
        var failure = HookFailure(description)
        failure.refusal = UploadError(.unavailable, "Too many uploads wait for the app's approval; try again later.")
        return failure
    }
}
