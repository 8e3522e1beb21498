internal import Foundation
internal import UploadCore

/// What a hook answers: the JSON of tusd 2 (package `hooks`, type `HookResponse`); every member may be missing.
struct HookReply: Decodable, Equatable {
    struct Answer: Decodable, Equatable {
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

    var answer: Answer?
    var rejectsUpload: Bool?
    var rejectsTermination: Bool?
    var changes: Changes?
    var stopsUpload: Bool?

    enum CodingKeys: String, CodingKey {
        case answer = "HTTPResponse"
        case rejectsUpload = "RejectUpload"
        case rejectsTermination = "RejectTermination"
        case changes = "ChangeFileInfo"
        case stopsUpload = "StopUpload"
    }

    init() {}

    /// Reads the content of an answer; one without content changes nothing.
    ///
    /// - Throws: `HookFailure` for what is not such JSON, or asks for what can not be.
    init(content: [UInt8]) throws(HookFailure) {
        if content.allSatisfy({ [0x20, 0x09, 0x0A, 0x0D].contains($0) }) {
            self.init()
            return
        }
        do {
            self = try JSONDecoder().decode(HookReply.self, from: Data(content))
        } catch {
            throw HookFailure("the answer of the hook is not the JSON of a hook answer")
        }
        // What tusd's receivers written in Go send for a member that they did not set.
        if answer?.status == 0 { answer?.status = nil }
        if answer?.body == "" { answer?.body = nil }
        if changes?.id == "" { changes?.id = nil }
        if let status = answer?.status, !(200...599).contains(status) {
            throw HookFailure("the answer of the hook has a StatusCode of \(status), which is none for a final answer")
        }
        if let id = changes?.id, !Self.isUsable(id) {
            throw HookFailure("the answer of the hook has an ID with characters that can not stand in a URL's path")
        }
    }

    /// RFC 3986 §3.3, neither begun nor ended by a slash; 255 bytes at most.
    private static func isUsable(_ id: String) -> Bool {
        let allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~%!$'()*+,;=/:@&"
        return id.utf8.count <= 255 && id.allSatisfy(allowed.contains) && !id.hasPrefix("/") && !id.hasSuffix("/")
    }

    /// What the client is to be answered; `nil` if the hook says nothing of that.
    var hookAnswer: HookAnswer? {
        guard let answer, answer.status != nil || answer.body != nil || answer.header?.isEmpty == false else {
            return nil
        }
        return HookAnswer(status: answer.status, body: answer.body, fields: answer.header ?? [:])
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

/// Why a hook could not be asked; for the log.
struct HookFailure: Error, CustomStringConvertible {
    let description: String
    /// Whether asking again may help.
    var isTransient = false
    /// When the receiver wants to be asked again, in seconds from now.
    var retryAfter: Double?

    init(_ description: String, isTransient: Bool = false, retryAfter: Double? = nil) {
        self.description = description
        self.isTransient = isTransient
        self.retryAfter = retryAfter
    }
}
