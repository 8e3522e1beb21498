internal import Foundation
internal import Signing
internal import UploadCore
internal import UploadModel

/// Access tokens, and codes that are exchanged for one: sealed, so that no record is needed until one is revoked.
struct VimeoTokens: Sendable {
    /// What is sealed.
    struct Content: Sendable, Equatable, Codable {
        var grant: Grant
        /// Names of scopes.
        var scopes: [String]
        /// Whether it is a code.
        var isCode = false
        /// Whether the API key that minted it may upload itself; `nil`, as in tokens of earlier versions, means no.
        var keyUploads: Bool?
    }

    static let prefix = "slv_"
    static let codePrefix = "slc_"
    /// Seconds for which a code can be exchanged (RFC 6749 §4.1.2: at most ten minutes).
    static let codeLifetime: TimeInterval = 600
    private static let revokedKind = "vimeo token"
    private static let usedKind = "vimeo code"

    private let keys: SealingKeyRing
    private let records: any DialectRecords
    private let revoked: RevocationList
    private let clock: any WallClock

    init(master: MasterSecret, records: any DialectRecords, revoked: RevocationList, clock: any WallClock) {
        keys = SealingKeyRing(master: master, purpose: "vimeo access token v1")
        self.records = records
        self.revoked = revoked
        self.clock = clock
    }

    /// A grant for the API, for `lifetime` seconds.
    func grant(
        issuer: String?,
        subject: String?,
        total: Int64?,
        lifetime: TimeInterval
    ) -> Grant {
        let now = clock.now
        return Grant(
            id: Grant.newID(at: now),
            issuer: issuer,
            subject: subject,
            dialect: "vimeo",
            expiresAt: now.addingTimeInterval(lifetime),
            issuedAt: now,
            storedBytes: total
        )
    }

    func seal(_ content: Content) -> String {
        let json = (try? JSONEncoder().encode(content)) ?? Data()
        return (content.isCode ? Self.codePrefix : Self.prefix) + keys.seal(Array(json)).text
    }

    /// The holder of a token.
    ///
    /// - Returns: `nil` if it is not a token of this server, has expired or was revoked.
    func caller(_ token: String) async throws(UploadError) -> VimeoCaller? {
        guard let content = content(token, Self.prefix), !content.isCode else { return nil }
        let record = try await records.record(Self.revokedKind, content.grant.id)
        guard record == nil, try await !isRevoked(content.grant) else { return nil }
        RequestMeter.note(key: content.grant.issuer, subject: content.grant.subject)
        return VimeoCaller(
            grant: content.grant,
            scopes: Set(content.scopes.compactMap(VimeoScope.init)),
            keyUploads: content.keyUploads ?? false
        )
    }

    /// Uses up a code.
    ///
    /// - Returns: `nil` if it is not a code of this server, was used, has expired or was revoked.
    func exchange(_ code: String) async throws(UploadError) -> Content? {
        guard let content = content(code, Self.codePrefix), content.isCode, try await !isRevoked(content.grant) else {
            return nil
        }
        let now = clock.now
        let use = DialectRecord(
            kind: Self.usedKind,
            key: content.grant.id,
            text: "{}",
            createdAt: now,
            expiresAt: now.addingTimeInterval(Self.codeLifetime + 60)
        )
        return try await records.insert(use, at: now) ? content : nil
    }

    /// Ends one token.
    func revoke(_ caller: VimeoCaller) async throws(UploadError) {
        let now = clock.now
        let record = DialectRecord(
            kind: Self.revokedKind,
            key: caller.grant.id,
            text: "{}",
            createdAt: now,
            expiresAt: caller.grant.expiresAt
        )
        _ = try await records.insert(record, at: now)
    }

    private func isRevoked(_ grant: Grant) async throws(UploadError) -> Bool {
        try await revoked.refuses(issuer: grant.issuer, subject: grant.subject, issuedAt: grant.issueTime)
    }

    private func content(_ token: String, _ prefix: String) -> Content? {
        guard token.hasPrefix(prefix), let sealed = SealedToken(token.dropFirst(prefix.count)),
            let json = keys.open(sealed), let content = try? JSONDecoder().decode(Content.self, from: Data(json)),
            clock.now < content.grant.expiresAt
        else { return nil }
        return content
    }
}
