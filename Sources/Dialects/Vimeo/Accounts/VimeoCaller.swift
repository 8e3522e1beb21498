internal import Digests
internal import Foundation
internal import UploadModel

/// Whoever sent a call: the holder of a token.
struct VimeoCaller: Sendable {
    /// The sealed grant; for an app user with a token of an identity provider, what that token allows.
    let grant: Grant
    let scopes: Set<VimeoScope>
    /// Whether the API key that minted the token may upload itself.
    var keyUploads = false
    /// Seconds for which links to content are valid at most that an app user gets with a token of an identity provider; `nil` for
    /// tokens of this gateway.
    private(set) var userLinkLifetime: TimeInterval?

    /// Whether it is an app user with a token of an identity provider.
    var isAppUser: Bool { userLinkLifetime != nil }

    /// - Throws: `VimeoError` 401 if the token has no user.
    func user() throws(VimeoError) -> VimeoUser {
        guard let subject = grant.subject else { throw VimeoError.refused(.noUser) }
        return VimeoUser(subject)
    }

    func require(_ scope: VimeoScope) throws(VimeoError) {
        guard scopes.contains(scope) else { throw VimeoError.refused(.missingScope(scope)) }
    }

    /// Whether it may read the videos of its user; without this scope, it sees those that it has begun, but not their
    /// content.
    var mayRead: Bool { scopes.contains(.private) }

    /// In whose name links to content are made for it; `nil` if it may not read.
    func reader(at now: Date) -> VimeoDocuments.Reader? {
        guard mayRead, let issuer = grant.issuer else { return nil }
        guard let life = userLinkLifetime else {
            return VimeoDocuments.Reader(issuer: issuer, expiresAt: grant.expiresAt)
        }
        // Links stay the same for half of it, and are valid for the other half at least.
        let half = linkPeriod
        let end = (now.unixSeconds + Int64(life)) / half * half
        return VimeoDocuments.Reader(issuer: issuer, expiresAt: Date(timeIntervalSince1970: Double(end)))
    }

    /// Seconds after which a client must read a document again because of the links in it.
    var linkPeriod: Int64 {
        max(1, Int64(min(VimeoDocuments.linkLifetime, userLinkLifetime ?? .infinity) / 2))
    }

    /// Whether it may see a video that a token has begun.
    ///
    /// All tokens of an identity provider have one id, and some of them begin nothing.
    func maySee(begunBy principal: String?) -> Bool {
        mayRead || principal == grant.id && scopes.contains(.upload)
    }

    /// Whether it may add to a video that a token has begun, and so learn the links by which bytes come to it.
    func mayAdd(toVideoBegunBy principal: String?) -> Bool {
        scopes.contains(.upload) && (principal == grant.id || scopes.contains(.edit))
    }

    /// Checks that it may remove a picture or a text track of a video.
    ///
    /// Complete ones are media, which no API key without the scope `delete` removes.
    ///
    /// - Throws: `VimeoError` 403.
    func requireRemoving(isComplete: Bool) throws(VimeoError) {
        try require(.edit)
        if isComplete { try require(.delete) }
    }

    /// Checks that it may add to a video that a token has begun: another file, a picture, a text track.
    ///
    /// - Throws: `VimeoError` 403.
    func requireAdding(toVideoBegunBy principal: String?) throws(VimeoError) {
        try require(.upload)
        if principal != grant.id { try require(.edit) }
    }
}

extension VimeoCaller {
    /// An app user with a token of an identity provider, with the rights that a token of this gateway with the same scopes has; `nil` for
    /// an API key.
    ///
    /// - Parameter key: Stands for the token.
    /// - Throws: `.forbidden` if its limits exclude each other.
    init?(_ key: APIKey) throws(UploadError) {
        guard let user = key.user else { return nil }
        var grant = Grant(
            // Stays the same with the user's next token, which thus sees what this one has begun.
            id: key.id,
            issuer: key.id,
            subject: key.limits.onlySubject,
            dialect: "vimeo",
            expiresAt: key.expiresAt ?? .distantFuture,
            issuedAt: user.issuedAt
        )
        try key.limit(&grant)
        self.init(grant: grant, scopes: VimeoScope.scopes(of: key), userLinkLifetime: user.mintedLifetime)
    }
}

/// An app user; Vimeo's API identifies users by a number.
struct VimeoUser: Sendable, Equatable {
    let subject: String
    /// Made from the subject, so that no record is needed; below 2^53, which JavaScript can represent.
    ///
    /// Two users could have the same number. So whatever belongs to a user also names the subject.
    let number: Int64

    init(_ subject: String) {
        self.subject = subject
        let digest = Digest.hash(Array("vimeo user \(subject)".utf8), .sha256)
        number = digest.prefix(8).reduce(0) { $0 << 8 | Int64($1) } & (1 << 53 - 1) | 1
    }

    /// Fixed width, so that records of a user have one prefix.
    var prefix: String {
        let digits = String(number)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }

    var uri: String { "/users/\(number)" }
}
