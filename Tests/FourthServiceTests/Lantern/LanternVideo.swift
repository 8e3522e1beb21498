import Foundation
import UploadModel
import VODKit

/// A video: a record with the id of its upload.
struct LanternVideo: Sendable, Equatable, Codable {
    enum State: String, Sendable, Codable {
        /// Its bytes are to come.
        case begun
        case committed
        /// Nothing finds it, and its bytes are being removed.
        case deleted
    }

    /// What a client asks for.
    struct New: Sendable, Equatable, Codable {
        var title: String
        var tags: [String]?
        var size: Int64?
        var user: String?
    }

    var id: String
    var title: String
    var tags: [String]
    /// Bytes.
    var size: Int64?
    var user: String?
    /// The API key that began it.
    var issuer: String
    var state = State.begun
    /// When it is removed if nobody commits it, in Unix milliseconds.
    var endsAt: Int64

    static let recordKind = "lantern video"

    /// Whose begun videos it counts among.
    var account: String { user ?? issuer }
}

extension LanternVideo: FoundByTerms {
    static let all = "all"
    static func tagged(_ tag: String) -> String { "tag/" + DialectTerm.part(tag) }
    static func owned(by user: String) -> String { "user/" + DialectTerm.part(user) }
    /// Background work finds it by this until then.
    static func pending(_ state: State) -> String { "pending/\(state.rawValue)" }

    func terms(createdAt time: Date) -> [DialectTerm] {
        switch state {
        case .begun: [DialectTerm(Self.pending(state), at: endsAt)]
        case .deleted: [DialectTerm(Self.pending(state), at: 0)]
        case .committed:
            Set([Self.all] + tags.map(Self.tagged) + [user].compactMap { $0 }.map(Self.owned))
                .map { DialectTerm($0, at: time.unixMilliseconds) }
        }
    }
}

/// An event for the app's server.
struct LanternEvent: MediaEvent, Equatable {
    /// In the order in which they happen.
    enum Kind: String, Sendable, Codable {
        case committed = "1-committed"
        case deleted = "2-deleted"
    }

    /// The event says all.
    struct Details: EventDetails {}

    var kind: Kind
    var video: String
    var title: String
    var subject: String?
    var attempts = 0
    var dueAt: Int64 = 0

    static let recordKind = "lantern event"
    static let unit: Int64 = 1000

    var sequence: String? { video + "/" }
    var key: String { "\(video)/\(kind.rawValue)" }

    var document: [UInt8] {
        let type =
            switch kind {
            case .committed: "video.ready"
            case .deleted: "video.deleted"
            }
        let text = try? JSONEncoder().encode(["type": type, "video": video, "title": title])
        return Array(text ?? Data())
    }
}
