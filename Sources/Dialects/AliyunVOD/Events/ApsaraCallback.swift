internal import Bytes
internal import Digests
internal import Foundation
internal import ObjectStore
internal import Signing
internal import UploadModel
internal import VODKit

/// Where the events of an application are posted (`SetMessageCallback`).
struct ApsaraCallback: Sendable, Equatable, Codable {
    var url: String
    /// `ALL`, or types of events.
    var types: [String]
    var isSigned: Bool
    /// Sealed.
    var key: String

    static let recordKind = "aliyun callback"

    func wants(_ type: String) -> Bool { types.contains("ALL") || types.contains(type) }

    /// The fields with which the receiver recognises the sender ("Callback authentication", ApsaraVideo VOD documentation).
    ///
    /// - Parameters:
    ///   - url: The URL that is called.
    ///   - key: The key, opened.
    ///   - now: Unix seconds.
    /// - Returns: The fields.
    static func fields(url: String, key: String, at now: Int64) -> [CallbackMessage.Field] {
        let code = Digest.hash("\(url)|\(now)|\(key)".utf8, .md5)
        return [
            CallbackMessage.Field("X-VOD-TIMESTAMP", String(now)),
            CallbackMessage.Field("X-VOD-SIGNATURE", Hexadecimal.encode(code)),
        ]
    }
}

/// The callbacks of all applications.
struct ApsaraCallbacks: Sendable {
    private let records: any DialectRecords
    private let ring: SealingKeyRing
    private let clock: any WallClock

    init(records: any DialectRecords, master: MasterSecret, clock: any WallClock) {
        self.records = records
        self.clock = clock
        ring = SealingKeyRing(master: master, purpose: "aliyun vod callback v1")
    }

    /// `nil` if the application has none.
    func callback(of application: String) async throws(UploadError) -> ApsaraCallback? {
        guard let record = try await records.record(ApsaraCallback.recordKind, application) else { return nil }
        return try CodedRecord<ApsaraCallback>(record).content
    }

    /// Replaces the callback of an application.
    func set(_ callback: ApsaraCallback?, of application: String) async throws(UploadError) {
        guard let callback else {
            _ = try await records.removeRecord(ApsaraCallback.recordKind, application)
            return
        }
        let now = clock.now
        while true {
            let new = CodedRecord(ApsaraCallback.recordKind, application, callback, at: now, until: nil)
            if try await records.insert(new.record, at: now) { return }
            guard let record = try await records.record(ApsaraCallback.recordKind, application) else { continue }
            let found = try CodedRecord<ApsaraCallback>(record)
            if try await records.replace(found.replaced(by: callback, until: nil).record) { return }
        }
    }

    func seal(_ key: String) -> String { key.isEmpty ? "" : ring.seal(Array(key.utf8)).text }

    /// The key in plain text; empty if no key is set, or if it was sealed with another master secret.
    func open(_ sealed: String) -> String {
        guard let token = SealedToken(sealed), let plain = ring.open(token) else { return "" }
        return String(validating: plain, as: UTF8.self) ?? ""
    }
}

/// The custom settings of media ("UserData", ApsaraVideo VOD documentation).
struct ApsaraUserData: Sendable, Equatable {
    static let maximumExtend = 512
    static let maximumURL = 256

    /// JSON of what events repeat.
    private(set) var extend: String?
    /// Where events of this media are posted, if the application has a callback.
    private(set) var callbackURL: String?

    /// `nil` unless it is a JSON object with well-formed members, each once.
    init?(_ text: String) {
        guard let members = Self.members(text) else { return nil }
        switch members["Extend"] {
        case nil: break
        case .string(let text)?: extend = text
        case let value?:
            let encoder = JSONEncoder()
            encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
            guard let data = try? encoder.encode(value) else { return nil }
            extend = String(decoding: data, as: UTF8.self)
        }
        guard extend.map({ $0.utf8.count <= Self.maximumExtend }) ?? true else { return nil }
        guard let callback = members["MessageCallback"] else { return }
        guard let named = Self.object(callback), case .string(let url)? = named["CallbackURL"],
            url.utf8.count <= Self.maximumURL
        else { return nil }
        if let type = named["CallbackType"], type != .string("http") { return nil }
        callbackURL = url
    }

    /// An object, also as text.
    private static func object(_ value: JSONValue) -> JSONMembers? {
        switch value {
        case .object(let members): return members
        case .string(let text): return members(text)
        default: return nil
        }
    }

    private static func members(_ text: String) -> JSONMembers? {
        let json = Array(text.utf8)
        guard JSONLimits().excess(in: json) == nil,
            let members = JSONValue(json: json)?.members,
            JSONNames.areUnique(in: json)
        else { return nil }
        return members
    }
}
