import Foundation
import Signing
import SluiceTesting
import Testing

@testable import UploadCore
@testable import UploadModel

@Suite("Revocations", .timeLimit(.minutes(10)))
struct RevocationListTests {
    let state = FaultyState(InMemoryState())
    let clock = AccessClock()

    private func key(_ id: String) async throws {
        try await state.insert(
            APIKey(id: id, name: id, scopes: [.mint], createdAt: clock.now, digest: Array(id.utf8))
        )
    }

    private func list(_ trusts: @escaping @Sendable (String) -> Bool? = { _ in nil }) -> RevocationList {
        RevocationList(state: state, clock: clock, trusts: trusts)
    }

    private func pass() { clock.advance(by: RevocationList.lifetime) }

    @Test("revoking a key revokes what it minted, and nothing of another key")
    func keys() async throws {
        for id in ["key_a", "key_b"] { try await key(id) }
        let list = list()
        func ended(_ id: String) async throws -> Bool {
            try await list.isRevoked(issuer: id, subject: "u", issuedAt: clock.now)
        }
        for id in ["key_a", "key_b"] { #expect(try await !ended(id)) }
        _ = try await state.revokeKey("key_a", at: clock.now)
        #expect(try await !ended("key_a"), "it is believed for as long as it may be")
        pass()
        #expect(try await ended("key_a"))
        #expect(try await !ended("key_b"))
        #expect(try await ended("key_lost"), "of a key that there is not")
    }

    @Test("a revocation applies to what was issued before it, for one user or for all")
    func bulk() async throws {
        try await key("key_a")
        let list = list()
        func ended(_ subject: String?, _ seconds: TimeInterval) async throws -> Bool {
            try await list.isRevoked(
                issuer: "key_a",
                subject: subject,
                issuedAt: clock.now.addingTimeInterval(seconds)
            )
        }
        let noon = clock.now
        try await state.insert(Revocation(subject: "anna", issuedBefore: noon, createdAt: noon))
        #expect(try await ended("anna", -1))
        #expect(try await !ended("anna", 0))
        for subject in ["anna ", "ann", nil] { #expect(try await !ended(subject, -1)) }
        // An earlier time does not undo a revocation.
        let before = noon.addingTimeInterval(-10)
        try await state.insert(Revocation(subject: "anna", issuedBefore: before, createdAt: noon))
        list.expire()
        #expect(try await ended("anna", -1))
        try await state.insert(Revocation(subject: nil, issuedBefore: before, createdAt: noon))
        list.expire()
        for subject in ["bert", nil] { #expect(try await ended(subject, -11)) }
        #expect(try await !ended("bert", -9))
    }

    @Test("a time that is not yet may be wrong by as much as clocks may differ")
    func future() async throws {
        try await key("key_a")
        let list = list()
        let now = clock.now
        func ended(_ seconds: TimeInterval) async throws -> Bool {
            try await list.isRevoked(issuer: "key_a", subject: "anna", issuedAt: now.addingTimeInterval(seconds))
        }
        func refused(_ seconds: TimeInterval) async throws -> Bool {
            try await list.refuses(issuer: "key_a", subject: "anna", issuedAt: now.addingTimeInterval(seconds))
        }
        for seconds in [-1.0, 0, 1, 300, 900] { #expect(try await !refused(seconds), "\(seconds)") }
        for seconds in [901.0, 86_400, 1e12] { #expect(try await refused(seconds), "\(seconds)") }
        // Without a revocation, nothing is revoked.
        for seconds in [901.0, 86_400] { #expect(try await !ended(seconds), "\(seconds)") }

        let end = now.addingTimeInterval(-200)
        try await state.insert(Revocation(subject: "anna", issuedBefore: end, createdAt: now))
        list.expire()
        for seconds in [-201.0, 2, 300, 699, 901, 86_400] { #expect(try await ended(seconds), "\(seconds)") }
        // Made after it as far as is known, and what states so far ahead that it was made after it.
        for seconds in [-200.0, -1, 0, 1, 701, 900] { #expect(try await !ended(seconds), "\(seconds)") }
        // Revocations by time do not apply.
        #expect(try await !list.isRevoked(issuer: "key_a", subject: "anna", issuedAt: nil))
        // The time has come: as far as is known, it was made then.
        clock.advance(by: 300)
        list.expire()
        #expect(try await !ended(300))
    }

    @Test("how far clocks may differ is a setting")
    func skew() async throws {
        try await key("key_a")
        let list = RevocationList(state: state, clock: clock, skew: 10)
        for (seconds, isRefused) in [(9.0, false), (11, true)] {
            let time = clock.now.addingTimeInterval(seconds)
            #expect(try await list.refuses(issuer: "key_a", subject: nil, issuedAt: time) == isRefused)
        }
    }

    @Test("the state is read at most twice a second, however many callers there are")
    func reads() async throws {
        try await key("key_a")
        let list = list()
        _ = try await list.isRevoked(issuer: "key_a", subject: nil, issuedAt: clock.now)
        let before = state.plan.calls(of: .key)
        await withTaskGroup { group in
            for _ in 0..<1000 {
                group.addTask { _ = try? await list.isRevoked(issuer: "key_a", subject: "u", issuedAt: clock.now) }
            }
        }
        #expect(state.plan.calls(of: .key) == before)
        pass()
        await withTaskGroup { group in
            for _ in 0..<1000 {
                group.addTask { _ = try? await list.isRevoked(issuer: "key_a", subject: "u", issuedAt: clock.now) }
            }
        }
        #expect(state.plan.calls(of: .key) == before + 1)
        // A clock that was set back must not delay a revocation either.
        _ = try await state.revokeKey("key_a", at: clock.now)
        clock.advance(by: -3600)
        #expect(try await list.isRevoked(issuer: "key_a", subject: nil, issuedAt: clock.now))
    }

    @Test("an issuer that is not a key is valid while it is trusted")
    func others() async throws {
        let list = list { $0.hasPrefix("identity_") ? $0 == "identity_a" : nil }
        #expect(try await !list.isRevoked(issuer: "identity_a", subject: nil, issuedAt: clock.now))
        #expect(try await list.isRevoked(issuer: "identity_b", subject: nil, issuedAt: clock.now))
        #expect(try await !list.isRevoked(issuer: nil, subject: nil, issuedAt: clock.now))
    }

    @Test("an upload token becomes invalid with its key, its user and its expiry")
    func tokens() async throws {
        try await key("key_a")
        let list = list()
        let sealer = GrantSealer(master: try #require(MasterSecret(bytes: [UInt8](0..<32))))
        let authenticator = Authenticator(state: state, sealer: sealer, revoked: list, clock: clock)
        func token(_ subject: String) -> String {
            sealer.seal(
                Grant(
                    id: Grant.newID(at: clock.now),
                    issuer: "key_a",
                    subject: subject,
                    expiresAt: clock.now.addingTimeInterval(7 * 86_400),
                    issuedAt: clock.now
                )
            )
        }
        func works(_ token: String) async -> Bool {
            (try? await authenticator.principal(authorization: "Bearer \(token)")) != nil
        }
        let (anna, bert) = (token("anna"), token("bert"))
        for token in [anna, bert] { #expect(await works(token)) }
        let now = clock.now
        let revocation = Revocation(subject: "anna", issuedBefore: now.addingTimeInterval(0.001), createdAt: now)
        try await state.insert(revocation)
        pass()
        #expect(await !works(anna))
        #expect(await works(bert))
        #expect(await works(token("anna")), "what was minted later")
        _ = try await state.revokeKey("key_a", at: clock.now)
        pass()
        for token in [bert, token("bert")] { #expect(await !works(token)) }
    }
}
