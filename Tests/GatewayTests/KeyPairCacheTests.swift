import Foundation
import GatewayKit
import ObjectGateway
import Signing
import SluiceTesting
import Testing
import UploadCore
import UploadModel

@Suite("Key pairs of the object endpoint are looked up once a second", .timeLimit(.minutes(10)))
struct KeyPairCacheTests {
    private let clock = ManualClock()
    private let state: FaultyState
    private let cache: KeyPairCache
    private let master: MasterSecret
    private let uses = KeyUses()

    init() throws {
        state = FaultyState(InMemoryState(clock: clock))
        master = try #require(MasterSecret(bytes: [UInt8](repeating: 7, count: 32)))
        cache = KeyPairCache(state: state, master: master, clock: clock, uses: uses)
    }

    private func insert(_ id: String, _ scopes: Set<Scope>, expiresAt: Date? = nil) async throws -> String {
        let digest = [UInt8](repeating: UInt8(id.utf8.count), count: 32)
        let key = APIKey(
            id: id,
            name: id,
            scopes: scopes,
            createdAt: clock.now,
            expiresAt: expiresAt,
            digest: digest
        )
        try await state.insert(key)
        return ObjectKeyPair(key, master: master).accessKeyID
    }

    private var lookups: Int { state.plan.calls(of: .key) }

    @Test("a key is kept for a second, and a revocation is seen within it")
    func revoked() async throws {
        let id = try await insert("key_1", [.admin])
        for _ in 1...3 { #expect(try await cache.pairs(id, .admin)?.key.id == "key_1") }
        #expect(lookups == 1)
        #expect(try await state.revokeKey("key_1", at: clock.now))
        clock.advance(by: 1)
        #expect(try await cache.pairs(id, .admin) == nil)
        #expect(lookups == 2)
    }

    @Test("expiry and scope are checked each time")
    func checked() async throws {
        let id = try await insert("key_1", [.admin], expiresAt: clock.now.addingTimeInterval(0.5))
        #expect(try await cache.pairs(id, .admin) != nil)
        clock.advance(by: 0.6)
        #expect(try await cache.pairs(id, .admin) == nil)
        let minting = try await insert("key_minting", [.mint])
        #expect(try await cache.pairs(minting, .mint) != nil)
        #expect(try await cache.pairs(minting, .admin) == nil)
    }

    @Test("an unknown key is looked up each time")
    func unknown() async throws {
        let other = try await insert("key_1", [.admin])
        let unknown = other.dropLast(2) + "AA"
        for _ in 1...2 { #expect(try await cache.pairs(String(unknown), .admin) == nil) }
        #expect(try await cache.pairs("AKIAOTHER", .admin) == nil)
        #expect(try await cache.pairs(other, .admin) != nil)
    }

    @Test("after the clock was set back, a key is looked up again")
    func clock() async throws {
        let id = try await insert("key_1", [.admin])
        #expect(try await cache.pairs(id, .admin) != nil)
        clock.advance(by: -5)
        #expect(try await cache.pairs(id, .admin) != nil)
        #expect(lookups == 2)
    }

    @Test("a use is noted for the key of the pair")
    func uses() async throws {
        let id = try await insert("key_1", [.admin])
        let pairs = try #require(try await cache.pairs(id, .admin))
        #expect(uses.lastUse(of: "key_1") == nil)
        clock.advance(by: 0.5)
        pairs.noteUse()
        #expect(uses.lastUse(of: "key_1") == clock.now)
    }
}
