import Foundation
import Signing
import SluiceTesting
import Synchronization
import Testing

@testable import UploadCore
@testable import UploadModel

@Suite("App users with tokens of an issuer", .timeLimit(.minutes(10)))
struct AppUserTests {
    /// Verifies tokens that a test names, and counts how often.
    private final class Tokens: AppUserTokens {
        let keys = Mutex<[String: APIKey]>([:])
        let calls = Mutex(0)
        let versions = Mutex(0)
        /// Called while a token is verified.
        let meanwhile = Mutex<(@Sendable () -> Void)?>(nil)

        var version: Int { versions.withLock { $0 } }

        func key(in token: String, at now: Date) async throws(UploadError) -> APIKey {
            calls.withLock { $0 += 1 }
            meanwhile.withLock { $0 }?()
            guard let key = keys.withLock({ $0[token] }) else { throw .invalidCredential("This token is not valid.") }
            return key
        }
    }

    private let state = FaultyState(InMemoryState())
    private let clock = AccessClock()
    private let tokens = Tokens()
    private let authenticator: Authenticator

    init() throws {
        authenticator = Authenticator(
            state: state,
            sealer: GrantSealer(master: try #require(MasterSecret(bytes: [UInt8](0..<32)))),
            revoked: RevocationList(state: state, clock: clock) { $0.hasPrefix("identity_") ? true : nil },
            users: tokens,
            clock: clock
        )
    }

    private func made(_ scopes: Set<Scope>, lifetime: TimeInterval = 600, _ user: AppUser? = nil) -> (String, APIKey) {
        let token = "eyJ\(tokens.keys.withLock { $0.count }).e30.AA"
        let key = APIKey(
            id: "identity_1",
            name: "https://login.example",
            scopes: scopes,
            createdAt: clock.now,
            expiresAt: clock.now.addingTimeInterval(lifetime),
            digest: [],
            limits: KeyLimits(subjects: ["anna"]),
            user: user ?? AppUser(issuedAt: clock.now, mintedLifetime: 60)
        )
        tokens.keys.withLock { $0[token] = key }
        return ("Bearer \(token)", key)
    }

    private func failure<T>(_ work: () async throws -> T) async throws -> UploadError {
        do {
            _ = try await work()
        } catch let error as UploadError {
            return error
        }
        throw UploadError(.unavailable, "nothing was thrown")
    }

    @Test("a token is a key of its user, and is verified once a minute")
    func token() async throws {
        let (authorization, key) = made([.upload, .read])
        for _ in 0..<3 { #expect(try await authenticator.principal(authorization: authorization) == .key(key)) }
        #expect(tokens.calls.withLock { $0 } == 1)
        clock.advance(by: 61)
        #expect(try await authenticator.require(.read, authorization: authorization) == key)
        #expect(tokens.calls.withLock { $0 } == 2)
        let error = try await failure { try await authenticator.require(.mint, authorization: authorization) }
        #expect(error.code == .forbidden(scope: "mint") && error.message.contains("Your token"))
    }

    @Test("a token is verified again after the issuers have changed, also while it was verified")
    func changed() async throws {
        let (authorization, _) = made([.upload])
        _ = try await authenticator.principal(authorization: authorization)
        authenticator.expireUsers()
        tokens.meanwhile.withLock { [tokens, authenticator] in
            $0 = {
                tokens.versions.withLock { $0 += 1 }
                authenticator.expireUsers()
            }
        }
        for calls in [2, 3] {
            _ = try await authenticator.principal(authorization: authorization)
            #expect(tokens.calls.withLock { $0 } == calls)
        }
        tokens.meanwhile.withLock { $0 = nil }
        for _ in 0..<2 { _ = try await authenticator.principal(authorization: authorization) }
        #expect(tokens.calls.withLock { $0 } == 4)
    }

    @Test("a token that has expired is verified again")
    func expired() async throws {
        let (authorization, _) = made([.upload], lifetime: 10)
        _ = try await authenticator.principal(authorization: authorization)
        clock.advance(by: 10)
        _ = try await authenticator.principal(authorization: authorization)
        #expect(tokens.calls.withLock { $0 } == 2)
    }

    @Test("a refused token and an unknown key are invalid credentials, a missing one is not")
    func refused() async throws {
        for text in ["Bearer eyJ.e30.AA", "Bearer slk_unknown", "Bearer slg_unknown", "Basic YTpi", "Bearer"] {
            let error = try await failure { try await authenticator.principal(authorization: text) }
            #expect(error.code == .unauthenticated && error.refusesCredential, "\(text)")
        }
        let error = try await failure { try await authenticator.principal(authorization: nil) }
        #expect(error.code == .unauthenticated && !error.refusesCredential)
    }

    @Test("a revocation of its user, or of its time, ends a token that is known already")
    func revoked() async throws {
        let (authorization, _) = made([.upload])
        _ = try await authenticator.principal(authorization: authorization)
        clock.advance(by: 1)
        try await state.insert(Revocation(subject: "bert", issuedBefore: clock.now, createdAt: clock.now))
        clock.advance(by: 1)
        _ = try await authenticator.principal(authorization: authorization)
        try await state.insert(Revocation(subject: "anna", issuedBefore: clock.now, createdAt: clock.now))
        clock.advance(by: 1)
        let error = try await failure { try await authenticator.principal(authorization: authorization) }
        #expect(error.code == .unauthenticated && error.refusesCredential)
        // Issued later.
        let (later, _) = made([.upload])
        _ = try await authenticator.principal(authorization: later)
        clock.advance(by: 1)
        try await state.insert(Revocation(subject: nil, issuedBefore: clock.now, createdAt: clock.now))
        clock.advance(by: 1)
        _ = try await failure { try await authenticator.principal(authorization: later) }
    }

    @Test("uploads are of the user, within the limits, and have the metadata")
    func grant() async throws {
        let user = AppUser(
            issuedAt: clock.now.addingTimeInterval(-5),
            maximumBytes: 10,
            contentTypes: ["video/*"],
            metadata: ["plan": "gold"],
            mintedLifetime: 60
        )
        let (authorization, key) = made([.upload], user)
        let grant = try await authenticator.grantToUpload(dialect: "tus", authorization: authorization)
        #expect(grant.subject == "anna" && grant.issuer == "identity_1" && grant.issuedAt == user.issuedAt)
        #expect(grant.maximumBytes == 10 && grant.contentTypes == ["video/*"] && grant.metadata == ["plan": "gold"])
        #expect(grant.expiresAt == key.expiresAt)
    }

    @Test("what is minted has the limits of the user, whatever is wanted")
    func minted() throws {
        let user = AppUser(
            issuedAt: clock.now,
            maximumBytes: 10,
            contentTypes: ["video/*", "image/png"],
            metadata: ["plan": "gold"],
            mintedLifetime: 60
        )
        let (_, key) = made([.mint], user)
        var grant = Grant(
            id: "a",
            subject: "anna",
            maximumBytes: 100,
            contentTypes: ["image/*", "video/mp4"],
            expiresAt: .distantFuture,
            metadata: ["plan": "free", "own": "1", "Plan": "free", "pl\u{E4}n": "2"]
        )
        try key.limit(minted: &grant, at: clock.now)
        #expect(grant.maximumBytes == 10 && Set(grant.contentTypes) == ["video/mp4", "image/png"])
        #expect(grant.metadata == ["plan": "gold", "own": "1", "pl\u{E4}n": "2"])
        #expect(grant.expiresAt == clock.now.addingTimeInterval(60))
        // The same for what is handed out without a request for it, such as links.
        #expect(key.lastExpiry(.distantFuture, at: clock.now) == clock.now.addingTimeInterval(60))
        #expect(key.lastExpiry(clock.now, at: clock.now) == clock.now)
        #expect(key.lastExpiry(.distantFuture, at: clock.now + 0.5) == clock.now.addingTimeInterval(60))
        var audio = Grant(id: "a", subject: "anna", contentTypes: ["audio/*"], expiresAt: .distantFuture)
        #expect(throws: UploadError.self) { try key.limit(minted: &audio, at: clock.now) }
        #expect(throws: UploadError.self) { try key.requireExpressible([.maximumBytes, .metadata], in: "this") }
        #expect(throws: Never.self) { try key.requireExpressible(Set(AppUser.Limit.allCases), in: "this") }
        // An API key has none of this, but what it mints ends with it.
        var plain = key
        plain.user = nil
        audio = Grant(id: "a", subject: "anna", contentTypes: ["audio/*"], expiresAt: .distantFuture)
        var same = audio
        try plain.limit(minted: &same, at: clock.now)
        audio.expiresAt = try #require(key.expiresAt)
        #expect(same == audio)
    }

    @Test(
        "types that two lists allow",
        arguments: [
            ([], [], []), (["a/b"], [], ["a/b"]), ([], ["a/b"], ["a/b"]), (["a/*"], ["a/b"], ["a/b"]),
            (["a/b", "c/d"], ["a/*"], ["a/b"]), (["*/*"], ["a/*"], ["a/*"]), (["a/*"], ["a/*"], ["a/*"]),
            (["a/*"], ["b/*"], nil), (["A/B"], ["a/*"], ["A/B"]), (["a/b"], ["a/c"], nil),
        ] as [([String], [String], [String]?)]
    )
    func common(one: [String], other: [String], both: [String]?) {
        #expect(MediaTypePattern.common(one, other) == both)
        #expect(MediaTypePattern.common(other, one).map(Set.init) == both.map(Set.init))
    }
}
