import Bytes
import Digests
import Foundation
import Signing
import Testing
import UploadCore
import UploadModel

@testable import ObjectGrants

@Suite("Session credentials", .timeLimit(.minutes(10)))
struct CredentialTests {
    private let issuer = CredentialIssuer(master: master(1))

    private func failure(
        _ issuer: CredentialIssuer,
        _ id: String,
        _ token: String?,
        at now: Date = noon,
        grace: TimeInterval = 0
    ) -> CredentialFailure? {
        do throws(CredentialFailure) {
            _ = try issuer.open(accessKeyID: id, token: token, at: now, grace: grace)
            return nil
        } catch {
            return error
        }
    }

    /// A grant with every member set.
    private func fullGrant() throws -> ObjectGrant {
        ObjectGrant(
            upload: Grant(
                id: "grant-1",
                issuer: "key_1",
                subject: "用户/1",
                dialect: "s3",
                maximumBytes: 5_000_000_000,
                contentTypes: ["video/*", "image/png"],
                bucket: "cold",
                expiresAt: noon.addingTimeInterval(3600),
                isOneTime: true,
                metadata: ["title": "日本 a+b~", "empty": ""]
            ),
            bucket: "b-125",
            keys: .only("sv/日本 a+b~/1.mp4"),
            actions: [.putObject, .uploadPart, .getBucketLocation],
            policies: [
                try SessionPolicy(
                    #"""
                    {"version":"2.0","statement":[{"effect":"deny","action":"cos:*","resource":"qcs::cos:*:uid/*:b-125/x?/*",
                    "condition":{"numeric_less_than":{"cos:content-length":[1,2]},"string_like":{"cos:prefix":"a*"}}},
                    {"effect":"allow","action":"*","resource":"*"}]}
                    """#,
                    vendor: .tencent
                ),
                try SessionPolicy(
                    #"{"Version":"1","Statement":{"Effect":"Allow","Action":"oss:PutObject","Resource":"*"}}"#,
                    vendor: .aliyun
                ),
            ]
        )
    }

    @Test("a minted token opens unchanged, for the clients of each vendor", arguments: Vendor.allCases)
    func roundTrip(_ vendor: Vendor) throws {
        for grant in [try fullGrant(), grant(.prefix(""))] {
            let credentials = try issuer.mint(grant, for: vendor)
            let session = try issuer.open(
                accessKeyID: credentials.accessKeyID,
                token: credentials.sessionToken,
                at: noon
            )
            #expect(session.grant == grant)
            #expect(session.secretAccessKey.text == credentials.secretAccessKey.text)
            #expect(!session.isInGrace)
            #expect(credentials.expiresAt == grant.upload.expiresAt)
            #expect(AccessKeyID.vendor(of: credentials.accessKeyID) == vendor)
        }
    }

    @Test("ids, secrets and tokens have the format that clients accept")
    func forms() throws {
        let forms: [(Vendor, String, Int)] = [(.aws, "ASIA", 20), (.aliyun, "STS.", 28), (.tencent, "AKID", 36)]
        for (vendor, prefix, count) in forms {
            let first = try issuer.mint(grant(), for: vendor)
            let second = try issuer.mint(grant(), for: vendor)
            #expect(first.accessKeyID.hasPrefix(prefix))
            #expect(first.accessKeyID.utf8.count == count)
            #expect(first.accessKeyID != second.accessKeyID)
            #expect(first.secretAccessKey.text != second.secretAccessKey.text)
            #expect(first.secretAccessKey.text.utf8.count == 40)
            #expect(
                first.secretAccessKey.text.utf8.allSatisfy { (0x41...0x5A).contains($0) || (0x32...0x37).contains($0) }
            )
            #expect(first.sessionToken.utf8.count <= 4096)
            #expect(Base64.decodeURLSafe(first.sessionToken) != nil)
        }
        #expect(AccessKeyID.vendor(of: "ASIA") == nil)
        #expect(AccessKeyID.vendor(of: "AKIAABCDEFGHIJKLMNOP") == nil)
        #expect(AccessKeyID.vendor(of: "STS.abc") == nil)
    }

    @Test("the secret key is derived from the id as documented")
    func derivation() throws {
        let credentials = try issuer.mint(grant(), for: .aws)
        let key = HMAC.code(
            .sha256,
            key: master(1).key(for: "object session secret v1"),
            message: Array(credentials.accessKeyID.utf8)
        )
        #expect(credentials.secretAccessKey.text == Base32.encode(key.prefix(25)))
    }

    @Test("a secret key does not appear in descriptions")
    func redaction() throws {
        let credentials = try issuer.mint(grant(), for: .aws)
        var dumped = ""
        dump(credentials, to: &dumped)
        let texts = ["\(credentials)", "\(credentials.secretAccessKey)", String(reflecting: credentials), dumped]
        for text in texts { #expect(!text.contains(credentials.secretAccessKey.text)) }
    }

    @Test("a token with one character changed, removed or added is invalid")
    func tampering() throws {
        let credentials = try issuer.mint(grant(), for: .aws)
        let id = credentials.accessKeyID
        guard let bytes = Base64.decodeURLSafe(credentials.sessionToken) else { throw CredentialFailure.invalidToken }
        for index in bytes.indices {
            for bit in [UInt8(1), 0x80] {
                var changed = bytes
                changed[index] ^= bit
                #expect(failure(issuer, id, Base64.encodeURLSafe(changed)) == .invalidToken, "byte \(index)")
            }
            #expect(failure(issuer, id, Base64.encodeURLSafe(bytes[..<index])) != nil)
        }
        for token in [credentials.sessionToken + "A", " " + credentials.sessionToken, "A", "é", "slg_x"] {
            #expect(failure(issuer, id, token) == .invalidToken)
        }
        #expect(failure(issuer, id, nil) == .noToken)
        #expect(failure(issuer, id, "") == .noToken)
        #expect(failure(issuer, id, credentials.sessionToken) == nil)
    }

    @Test("a token is invalid for another id, and so is a token of another kind")
    func otherID() throws {
        let first = try issuer.mint(grant(), for: .aws)
        let second = try issuer.mint(grant(), for: .aws)
        #expect(failure(issuer, first.accessKeyID, second.sessionToken) == .otherAccessKeyID)
        #expect(failure(issuer, "", second.sessionToken) == .otherAccessKeyID)
        #expect(failure(issuer, second.accessKeyID.lowercased(), second.sessionToken) == .otherAccessKeyID)
        let uploadToken = GrantSealer(master: master(1)).seal(grant().upload).dropFirst(GrantSealer.prefix.count)
        #expect(failure(issuer, first.accessKeyID, String(uploadToken)) == .invalidToken)
    }

    @Test("a token of another master secret is invalid until that secret is accepted too")
    func rotation() throws {
        let old = try issuer.mint(grant(), for: .aliyun)
        let foreign = CredentialIssuer(master: master(2))
        #expect(failure(foreign, old.accessKeyID, old.sessionToken) == .invalidToken)
        let rotated = CredentialIssuer(master: master(2, accepting: 3, 1))
        let session = try rotated.open(accessKeyID: old.accessKeyID, token: old.sessionToken, at: noon)
        // The client still has the old secret key.
        #expect(session.secretAccessKey.text == old.secretAccessKey.text)
        let new = try rotated.mint(grant(), for: .aliyun)
        #expect(failure(issuer, new.accessKeyID, new.sessionToken) == .invalidToken)
        #expect(failure(foreign, new.accessKeyID, new.sessionToken) == nil)
    }

    @Test("credentials expire exactly in the second of their expiry, and the grace period starts there")
    func expiry() throws {
        // Fractions are dropped, so that the client gets the exact expiry.
        let credentials = try issuer.mint(grant(expiresAt: noon.addingTimeInterval(10.75)), for: .aws)
        let end = noon.addingTimeInterval(10)
        #expect(credentials.expiresAt == end)
        let (id, token) = (credentials.accessKeyID, credentials.sessionToken)
        #expect(failure(issuer, id, token, at: end.addingTimeInterval(-1)) == nil)
        #expect(failure(issuer, id, token, at: end.addingTimeInterval(-0.001)) == nil)
        #expect(failure(issuer, id, token, at: end) == .expired(end))
        #expect(failure(issuer, id, token, at: end.addingTimeInterval(1)) == .expired(end))
        #expect(try !issuer.open(accessKeyID: id, token: token, at: end.addingTimeInterval(-1), grace: 60).isInGrace)
        #expect(try issuer.open(accessKeyID: id, token: token, at: end, grace: 60).isInGrace)
        #expect(try issuer.open(accessKeyID: id, token: token, at: end.addingTimeInterval(59), grace: 60).isInGrace)
        #expect(failure(issuer, id, token, at: end.addingTimeInterval(60), grace: 60) == .expired(end))
        // Ownership is checked before expiry.
        #expect(failure(issuer, "ASIAX", token, at: end) == .otherAccessKeyID)
    }

    @Test("a grant that does not fit into a token is refused with its size")
    func tooLong() throws {
        var fits = grant()
        fits.upload.metadata = ["a": String(repeating: "x", count: 2700)]
        #expect(throws: Never.self) { try issuer.mint(fits, for: .tencent) }
        var long = grant()
        long.upload.metadata = ["a": String(repeating: "x", count: 3000)]
        let error = #expect(throws: GrantTooLong.self) { try issuer.mint(long, for: .tencent) }
        #expect(error?.maximumByteCount == 4096)
        #expect((error?.byteCount ?? 0) > 4096)
        #expect(error?.message.contains("4096") == true)
    }

    @Test("a validly encrypted token with unknown content is rejected")
    func unknownContent() throws {
        let keys = SealingKeyRing(master: master(1), purpose: "object session token v1")
        func token(_ json: String) -> String { keys.seal(Array(json.utf8)).text }
        let known = #"{"k":"ASIAX","i":"g","e":1767326645,"b":"b","p":"k","a":5}"#
        #expect(failure(issuer, "ASIAX", token(known)) == nil)
        let unknown = [
            "", "[]", known.replacing(#""a":5"#, with: #""a":4611686018427387904"#),
            known.replacing(#""a":5"#, with: #""a":-1"#),
            known.replacing(#""a":5"#, with: #""a":5,"n":[{"d":"gcs","s":[]}]"#),
            known.replacing(#""a":5"#, with: #""a":5,"n":[{"d":"s3","s":[{"a":4611686018427387904,"r":["*"]}]}]"#),
            known.replacing(
                #""a":5"#,
                with: #""a":5,"n":[{"d":"s3","s":[{"a":1,"r":["*"],"c":[{"k":9,"o":0,"t":["a"]}]}]}]"#
            ),
            known.replacing(#""a":5"#, with: #""a":5,"n":[{"d":"s3","s":[{"a":1,"r":["*"],"c":[{"k":2,"o":0}]}]}]"#),
        ]
        for json in unknown { #expect(failure(issuer, "ASIAX", token(json)) == .invalidToken, "\(json)") }
    }

    @Test("an API key has one key pair, which reveals its id but not its secret")
    func staticPair() {
        func key(_ id: String, _ secret: String) -> APIKey {
            APIKey(
                id: id,
                name: "n",
                scopes: [.admin],
                createdAt: noon,
                digest: APIKeySecret.digest(of: secret)
            )
        }
        for id in ["key_first", "key_4q6abcdefghjkmnp", "ключ"] {
            let pair = StaticKeyPair(key(id, "slk_a"), master: master(1))
            #expect(StaticKeyPair.keyID(of: pair.accessKeyID) == id)
            #expect(pair.accessKeyID.utf8.allSatisfy { (0x41...0x5A).contains($0) || (0x32...0x37).contains($0) })
            #expect((16...128).contains(pair.accessKeyID.utf8.count))
            let again = StaticKeyPair(key(id, "slk_a"), master: master(1))
            #expect(again.secretAccessKey.text == pair.secretAccessKey.text)
            let others = [
                StaticKeyPair(key(id, "slk_b"), master: master(1)), StaticKeyPair(key(id, "slk_a"), master: master(2)),
                StaticKeyPair(key(id + "x", "slk_a"), master: master(1)),
            ]
            for other in others { #expect(other.secretAccessKey.text != pair.secretAccessKey.text) }
        }
        let rotated = StaticKeyPair.all(key("key_a", "slk_a"), master: master(2, accepting: 1), at: Date()).map(
            \.credentials
        )
        let each = [master(2), master(1)].map { StaticKeyPair(key("key_a", "slk_a"), master: $0).credentials }
        #expect(rotated.map(\.secretAccessKey) == each.map(\.secretAccessKey))
        #expect(Set(rotated.map(\.accessKeyID)).count == 1)
        for id in ["", "SLAK", "SLAKa", "ASIAABCDEFGHIJKLMNOP", "SLAK7777"] {
            #expect(StaticKeyPair.keyID(of: id) == nil, "\(id)")
        }
    }
}
