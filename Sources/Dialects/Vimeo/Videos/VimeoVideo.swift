internal import Foundation
internal import UploadModel
internal import VODKit

/// A video of Vimeo's API, or a ticket of its Old Upload that is to become one.
///
/// Whether its bytes are there is told by the upload: this record never has to learn that.
struct VimeoVideo: Sendable, Equatable, Codable {
    /// How the bytes come.
    enum Approach: String, Sendable, Codable, CaseIterable {
        case tus, post, pull, streaming
        /// A ticket, before 3.4.
        case ticket
    }

    /// Why no bytes come any more (protocol notes §4.9).
    enum Failure: String, Sendable, Codable {
        case uploading = "uploading_error"
        case quota = "quota_exceeded"
        case total = "total_cap_exceeded"
    }

    /// What its user says about it.
    struct Labels: Sendable, Equatable, Codable {
        var name: String?
        var description: String?
        var view = "anybody"
        var embed = "public"
        var comments = "anybody"
        var canDownload = false
        var canAdd = true
        var password: String?
        var license: String?
        var locale: String?
        var contentRating: [String] = ["unrated"]
    }

    /// A later file of a video: in its place once all bytes are there (protocol notes §4.8).
    struct Version: Sendable, Equatable, Codable {
        var id: Int64
        /// Of the core.
        var uploadID: String
        var fileName: String?
    }

    var id: Int64
    var subject: String
    /// The API key that minted the token of its creator.
    var issuer: String?
    /// The token.
    var principal: String
    var labels = Labels()
    /// What was said about a ticket, as JSON, for Vimeo.
    var said: String?
    var approach: Approach
    /// Of the core; replaced when a client begins anew, and `nil` between both.
    var uploadID: String?
    /// The upload that is being replaced: if it was completed before it could be ended, it stays.
    var replacedID: String?
    /// Bytes, as announced.
    var size: Int64?
    /// Of its uploads.
    var metadata: [String: String] = [:]
    /// Where a browser goes after a form (`upload.redirect_url`).
    var redirectURL: String?
    /// Whether it is a ticket that was not completed.
    var isTicket = false
    var failure: Failure?
    /// Whether its client writes ends of ranges as positions instead of counts; see `VimeoContentRange`.
    var countsInclusively = false
    /// Total bytes that the token of its creator allowed its user.
    var total: Int64?
    /// What the token of its creator allowed, if it was one of an identity provider with limits.
    var limits: VimeoLimits?
    /// Oldest first; `nil` for none.
    var versions: [Version]?
    /// The video whose file a ticket replaces.
    var replaces: Int64?
    /// The picture that stands for the video.
    var activePicture: Int64?
    /// Text tracks that are shown.
    var activeTracks: [Int64]?
    /// Whether it is being removed, so that no other file comes any more.
    var isDeleted: Bool?
    /// Unix seconds.
    var modifiedAt: Int64

    static let recordKind = "vimeo video"

    /// Whether the Old Upload can read it as a ticket: one that is or was no video yet, or whose bytes come by a form.
    var hasTicket: Bool { approach == .ticket || approach == .post }

    var uri: String { "/videos/\(id)" }
    var user: VimeoUser { VimeoUser(subject) }
    var recordKey: String { Self.recordKey(id, of: user) }

    static func recordKey(_ id: Int64, of user: VimeoUser) -> String { user.prefix + "/" + keyPart(id) }

    /// The later the video, the earlier the key.
    static func keyPart(_ id: Int64) -> String {
        let digits = String(max(0, 9_999_999_999_999_999 - id))
        return String(repeating: "0", count: 16 - digits.count) + digits
    }

    /// A new id, later than those before it; below 2^53.
    static func newID(at now: Date) -> Int64 {
        (now.unixMilliseconds - epoch) * 1000 + Int64.random(in: 0..<1000)
    }

    /// 2020-01-01T00:00:00Z, in Unix milliseconds.
    private static let epoch: Int64 = 1_577_836_800_000

    /// 40 hexadecimal digits that stay the same (`resource_key`).
    var resourceKey: String { VimeoDigest.hexadecimal("vimeo video \(subject) \(id)", 20) }

    /// The id in a path; `nil` for any other text.
    static func id(_ text: String) -> Int64? {
        guard (1...16).contains(text.utf8.count), text.utf8.allSatisfy({ (0x30...0x39).contains($0) }),
            text.first != "0"
        else { return nil }
        return Int64(text)
    }
}

extension VimeoVideo: FoundByTerms {
    /// The term of the videos of a user, or of those that a token has begun for the user.
    static func term(_ subject: String, _ principal: String?) -> String {
        ([subject] + [principal].compactMap { $0 }).map(DialectTerm.part).joined(separator: "/")
    }

    func terms(createdAt time: Date) -> [DialectTerm] {
        guard isListed(of: subject, principal) else { return [] }
        return [nil, principal].map { DialectTerm(Self.term(subject, $0), at: id) }
    }

    /// Whether it is in the list of the videos of a user, or of those that a token has begun.
    func isListed(of subject: String, _ principal: String?) -> Bool {
        !isTicket && isDeleted != true && subject.isSameSubject(as: self.subject)
            && principal ?? self.principal == self.principal
    }
}
