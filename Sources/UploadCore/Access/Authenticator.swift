internal import Bytes
internal import Foundation
package import UploadModel

/// Determines from the Authorization field who sends a request, and whether the request is allowed.
///
/// Messages never repeat what the client sent: it may be a key in the wrong place.
package final class Authenticator: Sendable {
    private let state: any KeyRecords
    private let sealer: GrantSealer
    private let clock: any WallClock
    private let revoked: RevocationList
    private let users: (any AppUserTokens)?
    private let keys = KeyCache()
    /// Verified tokens of app users; whether they were revoked is checked each time.
    private let userKeys = KeyCache(lifetime: 60)
    /// Uses of API keys.
    package let uses = KeyUses()

    /// - Parameters:
    ///   - state: Contains the keys.
    ///   - sealer: Opens upload tokens.
    ///   - revoked: Contains the revocations.
    ///   - users: Verifies tokens of app users; `nil` if none are accepted.
    ///   - clock: Provides the time.
    package init(
        state: any KeyRecords,
        sealer: GrantSealer,
        revoked: RevocationList,
        users: (any AppUserTokens)? = nil,
        clock: any WallClock
    ) {
        self.state = state
        self.sealer = sealer
        self.revoked = revoked
        self.users = users
        self.clock = clock
    }

    /// Authenticates the sender of a request.
    ///
    /// - Parameter authorization: The value of the Authorization field (RFC 6750 §2.1): `Bearer`, and an API key, an
    ///   upload token or a token of an app user.
    /// - Returns: A key that is neither expired nor revoked (a revocation may take one second to be seen), or a grant
    ///   for which the same holds, as it does for the key that minted it. The token of an app user is returned as a key
    ///   with a `user`.
    /// - Throws: `.unauthenticated`; `.tooManyRequests`; the errors of the state store and of the keys of issuers.
    package func principal(authorization: String?) async throws(UploadError) -> Principal {
        let now = clock.now
        let credential = try Self.bearer(authorization)
        if credential.hasPrefix(GrantSealer.prefix) {
            let grant = try sealer.open(credential, at: now)
            try await revoked.check(grant)
            try RequestMeter.identify(key: grant.issuer, subject: grant.subject)
            return .grant(grant)
        }
        if let users, Self.isJSONWebToken(credential) { return .key(try await key(in: credential, users, at: now)) }
        let key = try await key(of: credential, at: now)
        try RequestMeter.identify(key: key.id, subject: nil)
        return .key(key)
    }

    /// Whether a request can bring the token of an app user, if issuers of such tokens are trusted.
    ///
    /// - Parameter authorization: The value of the Authorization field.
    /// - Returns: Whether it can.
    package static func isForUser(authorization: String) -> Bool {
        (try? bearer(authorization)).map(isJSONWebToken) ?? false
    }

    /// Whether a credential begins with a JSON object in base64url, and has parts (RFC 7515 §7.1).
    private static func isJSONWebToken(_ credential: String) -> Bool {
        credential.hasPrefix("ey") && credential.utf8.count { $0 == UInt8(ascii: ".") } >= 2
    }

    private func key(
        in token: String,
        _ users: any AppUserTokens,
        at now: Date
    ) async throws(UploadError) -> APIKey {
        let digest = APIKeySecret.digest(of: token)
        let key: APIKey
        if let cached = userKeys.key(digest: digest, at: now), cached.isUsable(at: now) {
            key = cached
        } else {
            let version = users.version
            key = try await users.key(in: token, at: now)
            userKeys.insert(key, digest: digest, readAt: now)
            // It was verified by rules that have changed since.
            if users.version != version { userKeys.removeAll() }
        }
        let subject = key.limits.onlySubject
        let issuedAt = key.user?.issuedAt ?? .distantPast
        guard try await !revoked.refuses(issuer: key.id, subject: subject, issuedAt: issuedAt) else {
            throw .invalidCredential("This token was revoked; sign in again for a new one.")
        }
        try RequestMeter.identify(key: key.id, subject: subject)
        SignInNote.note(.user, issuer: key.id, subject: subject)
        return key
    }

    /// The app user whose token a request brings.
    ///
    /// - Returns: `nil` if it brings another credential, or no issuer of such tokens is trusted.
    /// - Throws: As `principal(authorization:)`.
    package func user(authorization: String?) async throws(UploadError) -> APIKey? {
        guard let users else { return nil }
        let credential = try Self.bearer(authorization)
        return Self.isJSONWebToken(credential) ? try await key(in: credential, users, at: clock.now) : nil
    }

    /// The key that sends a request, which must have `scope`.
    ///
    /// - Throws: `.unauthenticated`, `.forbidden(scope:)`; the errors of the state store.
    package func require(_ scope: Scope, authorization: String?) async throws(UploadError) -> APIKey {
        switch try await principal(authorization: authorization) {
        case .key(let key):
            try Self.check(key, for: scope)
            return key
        case .grant:
            throw UploadError(
                .forbidden(scope: scope.rawValue),
                "An upload token only creates uploads; send an API key with the scope `\(scope.rawValue)`."
            )
        }
    }

    /// The key that sends a request, if it is cached, valid and has `scope`.
    ///
    /// A shortcut for busy routes that never waits. `nil` only means that the caller must use `require`.
    package func recentKey(with scope: Scope, authorization: String?) -> APIKey? {
        guard let authorization, let credential = try? Self.bearer(authorization) else { return nil }
        let now = clock.now
        let digest = APIKeySecret.digest(of: credential)
        guard let key = keys.key(digest: digest, at: now), key.isUsable(at: now), key.accepts(digest, at: now),
            key.allows(scope), (try? RequestMeter.identify(key: key.id, subject: nil)) != nil
        else { return nil }
        return key
    }

    /// Reads keys again: one was rotated or revoked on this node.
    package func expireKeys() { keys.removeAll() }

    /// Verifies tokens of app users again: their issuers have changed.
    package func expireUsers() { userKeys.removeAll() }

    /// The grant under which the sender of a request uploads through `dialect`.
    ///
    /// A key with the scope `upload` may upload anything within its limits; the grant has the key's id and expiry. A
    /// key for a single user creates uploads of that user, and so does the token of an app user.
    ///
    /// - Throws: `.unauthenticated`, `.forbidden(scope:)`; the errors of the state store.
    package func grantToUpload(dialect: String, authorization: String?) async throws(UploadError) -> Grant {
        switch try await principal(authorization: authorization) {
        case .key(let key):
            try Self.check(key, for: .upload)
            return try Self.grant(of: key, at: clock.now)
        case .grant(let grant):
            if let only = grant.dialect, only != dialect {
                throw UploadError(
                    .forbidden(scope: nil),
                    "This upload token is for uploads by `\(only)`, not by `\(dialect)`; ask for one that is."
                )
            }
            return grant
        }
    }

    private static func grant(of key: APIKey, at now: Date) throws(UploadError) -> Grant {
        let subject = key.limits.onlySubject
        guard key.refusal(minting: MintedRights(subject: subject, reach: .uploads)) == nil else {
            throw UploadError(
                .forbidden(scope: nil),
                "The API key \(key.id) is limited (`sluice keys list`), and cannot upload by itself; mint a token for a "
                    + "subject, or credentials for a bucket, that it is for."
            )
        }
        var grant = Grant(
            id: key.id,
            issuer: key.id,
            subject: subject,
            expiresAt: key.expiresAt ?? .distantFuture,
            issuedAt: key.user?.issuedAt ?? now
        )
        try key.limit(&grant)
        return grant
    }

    private static func check(_ key: APIKey, for scope: Scope) throws(UploadError) {
        guard key.allows(scope) else {
            throw UploadError(
                .forbidden(scope: scope.rawValue),
                key.user == nil
                    ? "The API key \(key.id) lacks the scope `\(scope.rawValue)`; use a key that has it."
                    : "Your token lacks the scope `\(scope.rawValue)`; the settings of its issuer say what it may have."
            )
        }
    }

    /// The credential after the scheme `Bearer`, which is case-insensitive (RFC 9110 §11.1).
    private static func bearer(_ authorization: String?) throws(UploadError) -> String {
        guard let authorization else {
            throw UploadError(.unauthenticated, "Send the header `Authorization: Bearer <API key or upload token>`.")
        }
        // Bytes in memory: comparing characters would cost more than everything else here.
        var text = authorization
        let (hasScheme, credential) = text.withUTF8 { bytes in
            (
                Self.hasScheme(bytes),
                Self.credential(UnsafeBufferPointer(rebasing: bytes.dropFirst(7)))
            )
        }
        guard hasScheme else {
            throw .invalidCredential(
                "The Authorization header must be `Bearer`, a space, and an API key or upload token."
            )
        }
        guard let credential else {
            throw .invalidCredential(
                "The Authorization header must hold one API key or upload token, without spaces in it."
            )
        }
        return credential
    }

    private static func hasScheme(_ bytes: UnsafeBufferPointer<UInt8>) -> Bool {
        guard bytes.count >= 7, bytes[6] == UInt8(ascii: " ") else { return false }
        let scheme: StaticString = "bearer"
        return scheme.withUTF8Buffer { wanted in wanted.indices.allSatisfy { bytes[$0] | 0x20 == wanted[$0] } }
    }

    /// - Returns: `nil` if there is not exactly one word.
    private static func credential(_ bytes: UnsafeBufferPointer<UInt8>) -> String? {
        var start = 0
        while start < bytes.count, bytes[start] == UInt8(ascii: " ") { start += 1 }
        let word = UnsafeBufferPointer(rebasing: bytes[start...])
        let isOne = WordScan.allSatisfy(
            word,
            words: { WordScan.isASCII($0) && !WordScan.has(below: 0x21, $0) && !WordScan.has(0x7F, $0) },
            bytes: { 0x21 <= $0 && $0 <= 0x7E }
        )
        return word.isEmpty || !isOne ? nil : String(decoding: word, as: UTF8.self)
    }

    /// SHA-256 of the API key in an Authorization field, for `accepts`.
    ///
    /// - Returns: `nil` if the field has no credential.
    package static func digest(authorization: String?) -> [UInt8]? {
        (try? bearer(authorization)).map { APIKeySecret.digest(of: $0) }
    }

    /// Whether a secret still stands for a key that is usable, for what goes on after its request.
    ///
    /// A rotation, a revocation or another change may take half a second to be seen.
    ///
    /// - Parameter digest: As of `digest(authorization:)`.
    /// - Returns: Whether it does.
    /// - Throws: The errors of the state store.
    package func accepts(_ digest: [UInt8]) async throws(UploadError) -> Bool {
        let now = clock.now
        // Those that are kept for another half second are not older than that.
        guard let (key, _) = try await key(digest: digest, at: now, keptFor: KeyCache.lifetime / 2) else {
            return false
        }
        return key.accepts(digest, at: now) && key.isUsable(at: now)
    }

    /// The key whose secret has this digest, or had it before a rotation; perhaps expired or revoked.
    ///
    /// - Parameters:
    ///   - digest: SHA-256 of the secret.
    ///   - now: The time.
    ///   - rest: Seconds for which a cached key must be kept still.
    /// - Returns: The key, and whether it was read from the state; `nil` if there is none.
    /// - Throws: The errors of the state store.
    private func key(
        digest: [UInt8],
        at now: Date,
        keptFor rest: TimeInterval = 0
    ) async throws(UploadError) -> (key: APIKey, isRead: Bool)? {
        if let cached = keys.key(digest: digest, at: now.addingTimeInterval(rest)) { return (cached, false) }
        guard let found = try await state.key(digest: digest) else { return nil }
        keys.insert(found, digest: digest, readAt: now)
        return (found, true)
    }

    private func key(of secret: String, at now: Date) async throws(UploadError) -> APIKey {
        let digest = APIKeySecret.digest(of: secret)
        guard let (key, isRead) = try await key(digest: digest, at: now) else {
            throw .invalidCredential("This API key is unknown; send one exactly as it was created.")
        }
        // Once a second at most, which is exact enough for a last use.
        if isRead, key.isUsable(at: now), key.accepts(digest, at: now) { uses.note(key.id, at: now) }
        guard key.accepts(digest, at: now) else {
            throw .invalidCredential("The API key \(key.id) was rotated; send its new secret.")
        }
        if key.revokedAt != nil {
            throw .invalidCredential("The API key \(key.id) was revoked; create another.")
        }
        guard key.isUsable(at: now) else {
            throw .invalidCredential("The API key \(key.id) has expired; create another.")
        }
        return key
    }
}
