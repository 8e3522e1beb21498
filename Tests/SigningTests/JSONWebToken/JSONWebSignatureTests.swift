import Bytes
import Testing

@testable import Digests
@testable import Signing

@Suite("Signed JSON", .timeLimit(.minutes(10)))
struct JSONWebSignatureTests {
    /// RFC 7638 §3.1.
    @Test("The thumbprint of the RFC's key")
    func thumbprint() {
        let modulus =
            "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3o"
            + "knjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZH"
            + "zu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEg"
            + "U8awapJzKnqDKgw"
        let members = ["kty": "RSA", "n": modulus, "e": "AQAB"]
        #expect(JSONWebSignature.thumbprint(members) == "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs")
    }

    @Test("A request before there is an account names the key, later ones the account")
    func requests() throws {
        let key = P256Key()
        let first = try Self.read(
            JSONWebSignature.request(Array("{\"a\":1}".utf8), to: "https://ca.example/new", nonce: "n-1", by: .key, key)
        )
        #expect(first.header["alg"] == .string("ES256"))
        #expect(first.header["nonce"] == .string("n-1"))
        #expect(first.header["url"] == .string("https://ca.example/new"))
        #expect(first.header["kid"] == nil)
        let jwk = try #require(first.header["jwk"]?.members)
        #expect(Set(jwk.keys) == ["crv", "kty", "x", "y"])
        #expect(first.payload == Array("{\"a\":1}".utf8))
        let later = try Self.read(
            JSONWebSignature.request(
                [],
                to: "https://ca.example/o",
                nonce: "n-2",
                by: .account("https://ca.example/1"),
                key
            )
        )
        #expect(later.header["kid"] == .string("https://ca.example/1"))
        #expect(later.header["jwk"] == nil)
        #expect(later.payload.isEmpty)
        let publicKey = try #require(PublicKey(p256X: key.point.x, y: key.point.y))
        for read in [first, later] { #expect(publicKey.verifies(read.signature, of: read.message, by: .p256)) }
    }

    @Test("A binding has the key as its content, signed with the secret")
    func binding() throws {
        let (key, secret) = (P256Key(), Array("0123456789abcdef".utf8))
        let read = try Self.read(
            JSONWebSignature.binding(of: key, keyID: "k", secret: secret, to: "https://ca.example/new")
        )
        let header = JSONMembers([
            "alg": .string("HS256"), "kid": .string("k"), "url": .string("https://ca.example/new"),
        ])
        #expect(read.header == header)
        #expect(JSONValue(json: read.payload)?.members?["x"] == .string(Base64.encodeURLSafe(key.point.x)))
        #expect(read.signature == HMAC.code(.sha256, key: secret, message: read.message))
    }

    private struct Read {
        let header: JSONMembers
        let payload, signature, message: [UInt8]
    }

    private static func read(_ json: [UInt8]) throws -> Read {
        let members = try #require(JSONValue(json: json)?.members)
        func text(_ name: String) -> String { if case .string(let text)? = members[name] { text } else { "" } }
        #expect(Set(members.keys) == ["protected", "payload", "signature"])
        return Read(
            header: try #require(Base64.decodeURLSafe(text("protected")).flatMap { JSONValue(json: $0)?.members }),
            payload: try #require(Base64.decodeURLSafe(text("payload"))),
            signature: try #require(Base64.decodeURLSafe(text("signature"))),
            message: Array("\(text("protected")).\(text("payload"))".utf8)
        )
    }
}
