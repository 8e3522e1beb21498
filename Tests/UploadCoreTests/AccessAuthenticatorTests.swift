import Foundation
import Signing
import SluiceTesting
import Testing

@testable import UploadCore
@testable import UploadModel

@Suite("Authenticator", .timeLimit(.minutes(10)))
struct AccessAuthenticatorTests {
    let state = FaultyState(InMemoryState())
    let clock = AccessClock()
    let sealer: GrantSealer
    let authenticator: Authenticator

    init() throws {
        sealer = GrantSealer(master: try #require(MasterSecret(bytes: [UInt8](0..<32))))
        authenticator = Authenticator(
            state: state,
            sealer: sealer,
            revoked: RevocationList(state: state, clock: clock),
            clock: clock
        )
    }

    func makeKey(_ scopes: Set<Scope>, lifetime: TimeInterval? = nil) async throws -> (secret: String, key: APIKey) {
        let made = APIKeySecret.generate(
            name: "test",
            scopes: scopes,
            expiresAt: lifetime.map { clock.now.addingTimeInterval($0) },
            at: clock.now
        )
        try await state.insert(made.key)
        return made
    }

    func makeGrant(dialect: String? = nil) -> Grant {
        Grant(
            id: "grant-1",
            subject: "user-1",
            dialect: dialect,
            maximumBytes: 10,
            contentTypes: ["video/*"],
            expiresAt: clock.now.addingTimeInterval(60),
            isOneTime: true,
            metadata: ["a": "b"]
        )
    }

    /// The error of `work`, which must not repeat `secret`.
    func failure<T>(hiding secret: String? = nil, _ work: () async throws -> T) async throws -> UploadError {
        do {
            _ = try await work()
        } catch let error as UploadError {
            if let secret { #expect(!error.message.contains(secret)) }
            return error
        }
        throw UploadError(.unavailable, "nothing was thrown")
    }

    @Test("a key is recognised, with the scheme in any case and any number of spaces")
    func bearer() async throws {
        let (secret, key) = try await makeKey([.mint])
        for text in ["Bearer \(secret)", "bearer \(secret)", "BEARER   \(secret)"] {
            #expect(try await authenticator.principal(authorization: text) == .key(key))
        }
        #expect(try await authenticator.principal(authorization: "Bearer \(secret)").name == key.id)
    }

    @Test("the refusal of a missing header says what to send")
    func missingHeader() async throws {
        let error = try await failure { try await authenticator.principal(authorization: nil) }
        #expect(error.code == .unauthenticated)
        #expect(error.message.contains("Authorization: Bearer"))
        #expect(state.plan.calls(of: .key) == 0)
    }

    @Test("headers without a bearer credential are refused and not repeated")
    func otherSchemes() async throws {
        let (secret, _) = try await makeKey([.admin])
        let bad = [
            "", " ", "Bearer", "Bearer ", "Bearer   ", secret, "Basic \(secret)", "Token \(secret)",
            "Bearer: \(secret)",
            "Bearer \(secret) \(secret)", "Bearer \(secret) ", "Bearer\t\(secret)", "Bearer \(secret)\u{0}",
            "Bearer \(secret)ü",
        ]
        for text in bad {
            let error = try await failure(hiding: secret) { try await authenticator.principal(authorization: text) }
            #expect(error.code == .unauthenticated, "\(text)")
            #expect(error.message.contains("Authorization"), "\(text)")
        }
        #expect(state.plan.calls(of: .key) == 0)
    }

    @Test("an unknown key is refused and not repeated")
    func unknownKey() async throws {
        let error = try await failure(hiding: "slk_nobody") {
            try await authenticator.principal(authorization: "Bearer slk_nobody")
        }
        #expect(error.code == .unauthenticated)
        #expect(error.message.contains("unknown"))
    }

    @Test("a key created after it was refused works at once")
    func negativeResultsAreNotKept() async throws {
        let (secret, key) = APIKeySecret.generate(name: "late", scopes: [.read], expiresAt: nil, at: clock.now)
        _ = try await failure { try await authenticator.principal(authorization: "Bearer \(secret)") }
        try await state.insert(key)
        #expect(try await authenticator.principal(authorization: "Bearer \(secret)") == .key(key))
    }

    @Test("an expired key is refused from its expiry on, cached or not")
    func expiredKey() async throws {
        let (secret, key) = try await makeKey([.read], lifetime: 0.5)
        #expect(try await authenticator.require(.read, authorization: "Bearer \(secret)") == key)
        clock.advance(by: 0.5)
        let error = try await failure(hiding: secret) {
            try await authenticator.principal(authorization: "Bearer \(secret)")
        }
        #expect(error.code == .unauthenticated)
        #expect(error.message.contains("expired"))
        #expect(error.message.contains(key.id))
    }

    @Test("a revocation takes effect within one second")
    func revocation() async throws {
        let (secret, key) = try await makeKey([.read])
        #expect(try await authenticator.require(.read, authorization: "Bearer \(secret)") == key)
        #expect(try await state.revokeKey(key.id, at: clock.now))
        clock.advance(by: 1)
        let error = try await failure(hiding: secret) {
            try await authenticator.principal(authorization: "Bearer \(secret)")
        }
        #expect(error.code == .unauthenticated)
        #expect(error.message.contains("revoked"))
    }

    @Test("a key is read once per second")
    func cache() async throws {
        let (secret, _) = try await makeKey([.read])
        for _ in 0..<10 { _ = try await authenticator.principal(authorization: "Bearer \(secret)") }
        #expect(state.plan.calls(of: .key) == 1)
        clock.advance(by: 0.9)
        _ = try await authenticator.principal(authorization: "Bearer \(secret)")
        #expect(state.plan.calls(of: .key) == 1)
        clock.advance(by: 0.1)
        _ = try await authenticator.principal(authorization: "Bearer \(secret)")
        #expect(state.plan.calls(of: .key) == 2)
    }

    @Test("a clock that is set back does not keep a revoked key alive")
    func clockSetBack() async throws {
        let (secret, key) = try await makeKey([.read])
        _ = try await authenticator.principal(authorization: "Bearer \(secret)")
        #expect(try await state.revokeKey(key.id, at: clock.now))
        clock.advance(by: -3600)
        let error = try await failure { try await authenticator.principal(authorization: "Bearer \(secret)") }
        #expect(error.code == .unauthenticated)
    }

    @Test("a missing scope is named, and admin has every scope", arguments: Scope.allCases)
    func scopes(_ scope: Scope) async throws {
        let (admin, adminKey) = try await makeKey([.admin])
        #expect(try await authenticator.require(scope, authorization: "Bearer \(admin)") == adminKey)
        let (exact, exactKey) = try await makeKey([scope])
        #expect(try await authenticator.require(scope, authorization: "Bearer \(exact)") == exactKey)
        let (other, _) = try await makeKey(Set(Scope.allCases).subtracting([scope, .admin]))
        let error = try await failure(hiding: other) {
            try await authenticator.require(scope, authorization: "Bearer \(other)")
        }
        #expect(error.code == .forbidden(scope: scope.rawValue))
        #expect(error.message.contains(scope.rawValue))
    }

    @Test("an upload token allows uploads and nothing else")
    func grants() async throws {
        let grant = makeGrant()
        let authorization = "Bearer \(sealer.seal(grant))"
        #expect(try await authenticator.principal(authorization: authorization) == .grant(grant))
        #expect(try await authenticator.principal(authorization: authorization).name == "grant-1")
        #expect(try await authenticator.grantToUpload(dialect: "tus", authorization: authorization) == grant)
        for scope in Scope.allCases {
            let error = try await failure { try await authenticator.require(scope, authorization: authorization) }
            #expect(error.code == .forbidden(scope: scope.rawValue))
        }
        // The list of revocations was read once for all of them.
        #expect(state.plan.calls(of: .key) == 1)
        clock.advance(by: 60)
        let error = try await failure { try await authenticator.principal(authorization: authorization) }
        #expect(error.code == .unauthenticated)
    }

    @Test("an upload token is valid for its own protocol only")
    func dialects() async throws {
        let grant = makeGrant(dialect: "tus")
        let authorization = "Bearer \(sealer.seal(grant))"
        #expect(try await authenticator.grantToUpload(dialect: "tus", authorization: authorization) == grant)
        let error = try await failure {
            try await authenticator.grantToUpload(dialect: "vimeo", authorization: authorization)
        }
        #expect(error.code == .forbidden(scope: nil))
        #expect(error.message.contains("tus"))
    }

    @Test("a key with the scope upload is a grant without limits, other keys are not")
    func keysThatUpload() async throws {
        let (secret, key) = try await makeKey([.upload], lifetime: 100)
        let grant = try await authenticator.grantToUpload(dialect: "tus", authorization: "Bearer \(secret)")
        let expected = Grant(
            id: key.id,
            issuer: key.id,
            subject: nil,
            expiresAt: clock.now.addingTimeInterval(100),
            issuedAt: clock.now
        )
        #expect(grant == expected)
        let (reader, _) = try await makeKey([.read, .mint])
        let error = try await failure {
            try await authenticator.grantToUpload(dialect: "tus", authorization: "Bearer \(reader)")
        }
        #expect(error.code == .forbidden(scope: "upload"))
    }

    @Test("a failing state store is not mistaken for an unknown key")
    func failingStore() async throws {
        let (secret, _) = try await makeKey([.read])
        state.plan.fail(.key, with: UploadError(.storageFailure, "broken"))
        let error = try await failure { try await authenticator.principal(authorization: "Bearer \(secret)") }
        #expect(error.code == .storageFailure)
        state.plan.recover()
        _ = try await authenticator.principal(authorization: "Bearer \(secret)")
    }

    @Test("the cache never holds more than its capacity")
    func boundedCache() {
        let cache = KeyCache(capacity: 4)
        var keys: [APIKey] = []
        for index in 0..<100 {
            let now = clock.now.addingTimeInterval(Double(index) * 0.01)
            let (_, key) = APIKeySecret.generate(name: "\(index)", scopes: [], expiresAt: nil, at: now)
            keys.append(key)
            cache.insert(key, digest: key.digest, readAt: now)
            #expect(cache.count <= 4)
            #expect(cache.key(digest: key.digest, at: now) == key)
        }
        #expect(keys.filter { cache.key(digest: $0.digest, at: clock.now.addingTimeInterval(1)) != nil }.count <= 4)
    }

    @Test("a full cache evicts stale entries before fresh ones")
    func staleEntriesGoFirst() {
        let cache = KeyCache(capacity: 2)
        func make() -> APIKey {
            APIKeySecret.generate(name: "", scopes: [], expiresAt: nil, at: clock.now).key
        }
        let (stale, fresh, new) = (make(), make(), make())
        let later = clock.now.addingTimeInterval(1.5)
        cache.insert(stale, digest: stale.digest, readAt: clock.now)
        cache.insert(fresh, digest: fresh.digest, readAt: later.addingTimeInterval(-0.5))
        cache.insert(new, digest: new.digest, readAt: later)
        #expect(cache.key(digest: fresh.digest, at: later) == fresh)
        #expect(cache.key(digest: new.digest, at: later) == new)
        #expect(cache.key(digest: stale.digest, at: later) == nil)
    }
}
