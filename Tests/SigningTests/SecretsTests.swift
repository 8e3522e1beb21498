import Bytes
import Digests
import Testing

@testable import Signing

@Suite("Master secret, sealed tokens and signed links", .timeLimit(.minutes(10)))
struct SecretsTests {
    let master: MasterSecret

    init() throws {
        master = try #require(MasterSecret(bytes: [UInt8](0..<32)))
    }

    @Test("a master secret must have at least 32 bytes")
    func size() {
        #expect(MasterSecret(bytes: []) == nil)
        #expect(MasterSecret(bytes: [UInt8](repeating: 1, count: 31)) == nil)
        #expect(MasterSecret(bytes: [UInt8](repeating: 1, count: 64)) != nil)
    }

    @Test("keys for different purposes differ, and a key never changes")
    func purposes() {
        // HKDF-SHA256 of 00…1f with info "sluice/test", computed with Python's hmac.
        let expected = "56e4f51f4227748a99dc809d23fcd38fdcf5b5fea6015103b2f65c5c9189bb2f"
        #expect(Hexadecimal.encode(master.key(for: "test")) == expected)
        #expect(master.key(for: "test") != master.key(for: "test2"))
        #expect(master.key(for: "test", count: 36).count == 36)
    }

    @Test("descriptions do not contain the master secret")
    func redaction() {
        var dumped = ""
        dump(master, to: &dumped)
        for text in ["\(master)", String(reflecting: master), dumped] {
            #expect(text.contains("<redacted>"))
            #expect(!text.contains("31"))
        }
    }

    @Test("a sealed token opens, and differs each time")
    func sealing() throws {
        let ring = SealingKeyRing(master: master, purpose: "a")
        for plain in [[], [1], [UInt8](repeating: 7, count: 1000)] as [[UInt8]] {
            let token = ring.seal(plain)
            #expect(token != ring.seal(plain))
            let again = try #require(SealedToken(token.text))
            #expect(ring.open(again) == plain)
            #expect(token.text.utf8.allSatisfy { "+/=".utf8.firstIndex(of: $0) == nil })
        }
    }

    @Test("a changed, truncated or extended token does not open")
    func tampering() {
        let ring = SealingKeyRing(master: master, purpose: "a")
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
        let token = SealingKeyRing(master: master, purpose: "a").seal([1])
        #expect(SealingKeyRing(master: master, purpose: "b").open(token) == nil)
        let other = try #require(MasterSecret(bytes: [UInt8](1...32)))
        #expect(SealingKeyRing(master: other, purpose: "a").open(token) == nil)
    }

    @Test("after a rotation new keys seal and old ones still open")
    func rotation() throws {
        let new = try #require(MasterSecret(bytes: [UInt8](1...32)))
        let rotated = try #require(MasterSecret(bytes: [UInt8](1...32), accepting: [[UInt8](0..<32)]))
        let before = SealingKeyRing(master: master, purpose: "a").seal([1])
        let ring = SealingKeyRing(master: rotated, purpose: "a")
        #expect(ring.open(before) == [1])
        let after = ring.seal([2])
        #expect(ring.open(after) == [2])
        #expect(SealingKeyRing(master: new, purpose: "a").open(after) == [2])
        #expect(SealingKeyRing(master: new, purpose: "a").open(before) == nil)
        #expect(SealingKeyRing(master: master, purpose: "a").open(after) == nil)
    }

    @Test("after a rotation the new key signs links, and old links are still valid")
    func rotatedLinks() throws {
        let rotated = try #require(MasterSecret(bytes: [UInt8](1...32), accepting: [[UInt8](0..<32)]))
        let new = LinkSigner(master: try #require(MasterSecret(bytes: [UInt8](1...32))), purpose: "links")
        let (before, during) = (
            LinkSigner(master: master, purpose: "links"), LinkSigner(master: rotated, purpose: "links")
        )
        #expect(during.sign("abc") == new.sign("abc"))
        #expect(during.verify("abc", signature: before.sign("abc")))
        #expect(during.verify("abc", signature: during.sign("abc")))
        #expect(!during.verify("abd", signature: before.sign("abc")))
        #expect(!new.verify("abc", signature: before.sign("abc")))
        #expect(!before.verify("abc", signature: during.sign("abc")))
    }

    @Test("several secrets are parsed from one text in order, and written again")
    func severalSecrets() throws {
        let (first, second) = ([UInt8](0..<32), [UInt8](1...40))
        let texts = [Base64.encode(first), Base64.encode(second)]
        let both = try #require(MasterSecret(bytes: first, accepting: [second]))
        for separator in [",", ", ", "\n", "\r\n", " ,\n "] {
            #expect(MasterSecret(text: texts.joined(separator: separator)) == both, "\(separator.debugDescription)")
        }
        #expect(MasterSecret(text: texts[0] + "\n") == master)
        #expect(MasterSecret(text: both.text) == both)
        #expect(both.key(for: "x") == master.key(for: "x"))
        #expect(both.id == master.id)
        #expect(both.id.utf8.count == 8)
        #expect(both.each.map(\.text) == texts)
        #expect(both.each[1].id != both.id)
        #expect(both.accepts(master) && both.accepts(both) && !master.accepts(both))
        #expect("\(both)" == "<redacted>" && String(reflecting: both) == "<redacted>")
    }

    @Test("of several key pairs the one that signed is found; otherwise the first one gives the error")
    func severalPairs() throws {
        let pairs = ["new", "old"].map { SigningCredentials(accessKeyID: "id", secretAccessKey: $0) }
        func sign(_ secret: String) throws(RequestSignatureFailure) -> String {
            try pairs.verified { credentials throws(RequestSignatureFailure) in
                guard credentials.secretAccessKey == secret else {
                    throw credentials.secretAccessKey == "new" ? .wrongSignature : .wrongToken
                }
                return secret
            }
        }
        #expect(try sign("new") == "new")
        #expect(try sign("old") == "old")
        #expect(throws: RequestSignatureFailure.wrongSignature) { try sign("other") }
        #expect(throws: RequestSignatureFailure.wrongSignature) {
            try [SigningCredentials]().verified { _ throws(RequestSignatureFailure) in true }
        }
    }

    @Test("no secret, an invalid one, a repeated one and too many are refused")
    func badSecrets() {
        func text(_ byte: UInt8) -> String { Base64.encode([UInt8](repeating: byte, count: 32)) }
        let short = Base64.encode([UInt8](repeating: 1, count: 31))
        for bad in [
            "", ",", "\n", text(1) + ",x", text(1) + ";" + text(2), text(1) + "," + short, text(1) + "," + text(1),
        ] {
            #expect(MasterSecret(text: bad) == nil, "\(bad.debugDescription)")
        }
        let eight = (1...8).map(text)
        #expect(MasterSecret(text: eight.joined(separator: ",")) != nil)
        #expect(MasterSecret(text: (eight + [text(9)]).joined(separator: ",")) == nil)
    }

    @Test("a signed link has 22 characters and verifies only for its text")
    func links() {
        let signer = LinkSigner(master: master, purpose: "links")
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
        #expect(!LinkSigner(master: master, purpose: "other").verify("abc", signature: code))
        for index in 0..<22 {
            var changed = Array(code.utf8)
            changed[index] = changed[index] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
            #expect(!signer.verify("abc", signature: String(decoding: changed, as: UTF8.self)))
        }
    }

    @Test("a link with an expiry verifies only until then and only with that expiry")
    func expiringLinks() {
        let signer = LinkSigner(master: master, purpose: "links")
        let code = signer.sign("abc", expiresAt: 1000)
        #expect(code == signer.sign("abc\n1000"))
        #expect(signer.verify("abc", expiresAt: 1000, signature: code, at: 999))
        #expect(!signer.verify("abc", expiresAt: 1000, signature: code, at: 1000))
        #expect(!signer.verify("abc", expiresAt: 1001, signature: code, at: 999))
        #expect(!signer.verify("abd", expiresAt: 1000, signature: code, at: 999))
        #expect(!signer.verify("abc", signature: code))
    }
}
