import Bytes
import Digests
import Testing

@testable import Signing

@Suite("Master secret, sealed tokens and signed links")
struct SecretsTests {
    let master: MasterSecret

    init() throws {
        master = try #require(MasterSecret(bytes: [UInt8](0..<32)))
    }

    @Test("a master secret has 32 bytes or more")
    func size() {
        #expect(MasterSecret(bytes: []) == nil)
        #expect(MasterSecret(bytes: [UInt8](repeating: 1, count: 31)) == nil)
        #expect(MasterSecret(bytes: [UInt8](repeating: 1, count: 64)) != nil)
    }

    @Test("keys for different purposes differ, and a key stays what it is")
    func purposes() {
        // HKDF-SHA256 of 00…1f with info "sluice/test", computed with Python's hmac.
        let expected = "56e4f51f4227748a99dc809d23fcd38fdcf5b5fea6015103b2f65c5c9189bb2f"
        #expect(Hexadecimal.encode(master.key(for: "test")) == expected)
        #expect(master.key(for: "test") != master.key(for: "test2"))
        #expect(master.key(for: "test", count: 36).count == 36)
    }

    @Test("a master secret does not show itself")
    func redaction() {
        var dumped = ""
        dump(master, to: &dumped)
        for text in ["\(master)", String(reflecting: master), dumped] {
            #expect(text.contains("<redacted>"))
            #expect(!text.contains("31"))
        }
    }

    @Test("a sealed token opens, and is different each time")
    func sealing() throws {
        let ring = SealingKeyRing(SealingKey(master: master, purpose: "a"))
        for plain in [[], [1], [UInt8](repeating: 7, count: 1000)] as [[UInt8]] {
            let token = ring.seal(plain)
            #expect(token != ring.seal(plain))
            let again = try #require(SealedToken(token.text))
            #expect(ring.open(again) == plain)
            #expect(token.text.utf8.allSatisfy { "+/=".utf8.firstIndex(of: $0) == nil })
        }
    }

    @Test("a changed, cut or extended token does not open")
    func tampering() {
        let ring = SealingKeyRing(SealingKey(master: master, purpose: "a"))
        let bytes = ring.seal(Array("text".utf8)).bytes
        for index in bytes.indices {
            var changed = bytes
            changed[index] ^= 1
            #expect(ring.open(SealedToken(bytes: changed)) == nil)
        }
        for count in 0..<bytes.count {
            #expect(SealedToken(Base64.encodeURLSafe(bytes.prefix(count))).flatMap(ring.open) == nil)
        }
        #expect(ring.open(SealedToken(bytes: bytes + [0])) == nil)
        for text in ["", "====", "a b", "Ü", "a+b/", String(repeating: "A", count: 200) + "="] {
            #expect(SealedToken(text) == nil)
        }
        #expect(SealedToken(String(repeating: "A", count: 200)).flatMap(ring.open) == nil)
    }

    @Test("a token of another purpose or another master does not open")
    func separation() throws {
        let token = SealingKeyRing(SealingKey(master: master, purpose: "a")).seal([1])
        #expect(SealingKeyRing(SealingKey(master: master, purpose: "b")).open(token) == nil)
        let other = try #require(MasterSecret(bytes: [UInt8](1...32)))
        #expect(SealingKeyRing(SealingKey(master: other, purpose: "a")).open(token) == nil)
    }

    @Test("after a rotation new keys seal and old ones still open")
    func rotation() throws {
        let old = SealingKey(master: master, purpose: "a")
        let new = SealingKey(master: try #require(MasterSecret(bytes: [UInt8](1...32))), purpose: "a")
        let before = SealingKeyRing(old).seal([1])
        let ring = SealingKeyRing(new, olderKeys: [old])
        #expect(ring.open(before) == [1])
        #expect(ring.seal([2]).keyID.elementsEqual(new.id))
        #expect(ring.open(ring.seal([2])) == [2])
        #expect(SealingKeyRing(old).open(ring.seal([2])) == nil)
    }

    @Test("a signed link has 22 characters and verifies only for its text")
    func links() {
        let signer = LinkSigner(key: master.key(for: "links"))
        let code = signer.sign("abc")
        #expect(code.utf8.count == 22)
        #expect(
            Base64.decodeURLSafe(code)
                == Array(HMAC.code(.sha256, key: master.key(for: "links"), message: Array("abc".utf8)).prefix(16))
        )
        #expect(signer.verify("abc", signature: code))
        #expect(!signer.verify("abd", signature: code))
        #expect(!signer.verify("abc", signature: code + "A"))
        #expect(!signer.verify("abc", signature: code.dropLast()))
        #expect(!signer.verify("abc", signature: ""))
        #expect(!LinkSigner(key: master.key(for: "other")).verify("abc", signature: code))
        for index in 0..<22 {
            var changed = Array(code.utf8)
            changed[index] = changed[index] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
            #expect(!signer.verify("abc", signature: String(decoding: changed, as: UTF8.self)))
        }
    }

    @Test("a link with an expiry verifies until then and with that expiry only")
    func expiringLinks() {
        let signer = LinkSigner(key: master.key(for: "links"))
        let code = signer.sign("abc", expiresAt: 1000)
        #expect(code == signer.sign("abc\n1000"))
        #expect(signer.verify("abc", expiresAt: 1000, signature: code, at: 999))
        #expect(!signer.verify("abc", expiresAt: 1000, signature: code, at: 1000))
        #expect(!signer.verify("abc", expiresAt: 1001, signature: code, at: 999))
        #expect(!signer.verify("abd", expiresAt: 1000, signature: code, at: 999))
        #expect(!signer.verify("abc", signature: code))
    }
}
