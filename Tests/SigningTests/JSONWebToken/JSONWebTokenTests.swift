import Bytes
import Digests
import Testing

@testable import Signing

@Suite("JSON Web Tokens and keys", .timeLimit(.minutes(10)))
struct JSONWebTokenTests {
    /// RFC 7515, appendix A.2 and A.3: tokens with the same claims, and their keys.
    private static let claims =
        "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
    private static let rs256 =
        "eyJhbGciOiJSUzI1NiJ9.\(claims)."
        + "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CU"
        + "Ar7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--"
        + "xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_Ioy"
        + "pGlUPQGe77Rw"
    private static let es256 =
        "eyJhbGciOiJFUzI1NiJ9.\(claims)."
        + "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"
    private static let modulus =
        "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pC"
        + "gNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg"
        + "665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4F"
        + "RWyuXpoQ"
    private static let rsaKey = #"{"kty":"RSA","n":"\#(modulus)","e":"AQAB"}"#
    private static let x = "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU"
    private static let y = "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"
    private static let ecKey = #"{"kty":"EC","crv":"P-256","x":"\#(x)","y":"\#(y)"}"#

    private func set(_ keys: String...) throws -> JSONWebKeySet {
        try #require(JSONWebKeySet(json: Array(#"{"keys":[\#(keys.joined(separator: ","))]}"#.utf8)))
    }

    @Test("the RFC's tokens verify, each only with its own key")
    func vectors() throws {
        let keys = try set(Self.rsaKey, Self.ecKey)
        for (text, algorithm) in [(Self.rs256, JSONWebAlgorithm.rs256), (Self.es256, .es256)] {
            let token = try JSONWebToken(text)
            #expect(token.algorithm == algorithm && token.keyID == nil)
            #expect(token.claims["iss"] == .string("joe"))
            #expect(token.claims["exp"] == .integer(1_300_819_380))
            let found = keys.keys(for: token)
            #expect(found.count == 1 && found.allSatisfy { $0.algorithms.contains(algorithm) })
            #expect(found.allSatisfy { token.isSigned(by: $0) })
        }
        let (rsa, ec) = (try JSONWebToken(Self.rs256), try JSONWebToken(Self.es256))
        #expect(try !set(Self.ecKey).keys(for: ec).contains { rsa.isSigned(by: $0) })
        #expect(try !set(Self.rsaKey).keys(for: rsa).contains { ec.isSigned(by: $0) })
    }

    @Test("a changed bit of message or signature is detected", arguments: [rs256, es256])
    func changed(text: String) throws {
        let keys = try set(Self.rsaKey, Self.ecKey)
        let parts = text.split(separator: ".").map(String.init)
        for part in 1...2 {
            let bytes = try #require(Base64.decodeURLSafe(parts[part]))
            for index in stride(from: 0, to: bytes.count, by: 7) {
                var (changed, other) = (parts, bytes)
                other[index] ^= 1
                changed[part] = Base64.encodeURLSafe(other)
                // Claims that are no longer JSON are refused earlier.
                guard let token = try? JSONWebToken(changed.joined(separator: ".")) else { continue }
                #expect(!keys.keys(for: token).contains { token.isSigned(by: $0) }, "\(part) \(index)")
            }
        }
        let right = try #require(Base64.decodeURLSafe(parts[2]))
        for signature in [[], right.dropLast(), right + [0], [0] + right] {
            let token = try JSONWebToken("\(parts[0]).\(parts[1]).\(Base64.encodeURLSafe(signature))")
            #expect(!keys.keys(for: token).contains { token.isSigned(by: $0) })
        }
    }

    @Test("text that is not a token is refused without quoting it")
    func malformed() {
        func header(_ json: String) -> String { Base64.encodeURLSafe(Array(json.utf8)) }
        let body = header(#"{"iss":"a"}"#)
        let texts = [
            "", ".", "..", "a.b", "a.b.c", "a.b.c.d", "\(header("{}")).\(body).AAAA", "\(header("[]")).\(body).AAAA",
            "\(header(#"{"alg":"none"}"#)).\(body).", "\(header(#"{"alg":"NONE"}"#)).\(body).AAAA",
            "\(header(#"{"alg":"HS256"}"#)).\(body).AAAA", "\(header(#"{"alg":"RS512"}"#)).\(body).AAAA",
            "\(header(#"{"alg":"rs256"}"#)).\(body).AAAA", "\(header(#"{"alg":["RS256"]}"#)).\(body).AAAA",
            "\(header(#"{"alg":"RS256","alg":"none"}"#)).\(body).AAAA",
            "\(header(#"{"alg":"RS256","crit":["exp"],"exp":1}"#)).\(body).AAAA",
            "\(header(#"{"alg":"RS256"}"#)).\(header(#"{"sub":"a","sub":"b"}"#)).AAAA",
            "\(header(#"{"alg":"RS256"}"#)).\(body)=.AAAA", "\(header(#"{"alg":"RS256"}"#)).\(body).A+/A",
            " \(Self.rs256)", Self.rs256 + "\n",
            "\(header(#"{"alg":"RS256"}"#)).\(header(#"{"sub":"a","b":{"c":1,"c":2}}"#)).AAAA",
            "\(header(#"{"alg":"RS256"}"#)).\(body)." + String(repeating: "A", count: JSONWebToken.maximumByteCount),
        ]
        for text in texts {
            let error = #expect(throws: JSONWebToken.Malformed.self, "\(text)") { try JSONWebToken(text) }
            #expect(error?.reason.contains(body) == false)
        }
    }

    @Test("only the types of ID tokens and access tokens are accepted")
    func types() throws {
        func text(_ type: String) -> String {
            let header = Base64.encodeURLSafe(Array(#"{"alg":"RS256","typ":\#(type)}"#.utf8))
            return "\(header).\(Base64.encodeURLSafe(Array("{}".utf8))).AAAA"
        }
        for type in ["JWT", "jwt", "at+jwt", "AT+JWT", "application/at+jwt", "application/jwt"] {
            #expect(throws: Never.self, "\(type)") { try JSONWebToken(text("\"\(type)\"")) }
        }
        for type in [#""logout+jwt""#, #""dpop+jwt""#, #""JWS""#, #""""#, "1", "null"] {
            #expect(throws: JSONWebToken.Malformed("is of another type (typ)"), "\(type)") {
                try JSONWebToken(text(type))
            }
        }
    }

    @Test("an RSA key is for both paddings unless it names one, and Ed25519 is for EdDSA")
    func algorithms() throws {
        func algorithms(_ key: String) throws -> Set<JSONWebAlgorithm> {
            let keys = try set(key)
            return Set(
                try JSONWebAlgorithm.allCases.filter { algorithm in
                    let header = Base64.encodeURLSafe(Array(#"{"alg":"\#(algorithm.rawValue)"}"#.utf8))
                    return try !keys.keys(for: JSONWebToken("\(header).e30.AAAA")).isEmpty
                }
            )
        }
        #expect(try algorithms(Self.rsaKey) == [.rs256, .ps256])
        #expect(try algorithms(Self.rsaKey.dropLast() + #","alg":"PS256"}"#) == [.ps256])
        #expect(try algorithms(Self.ecKey) == [.es256])
        // RFC 8037, appendix A.2.
        let x = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
        let edwards = #"{"kty":"OKP","crv":"Ed25519","x":"\#(x)""#
        #expect(try algorithms(edwards + "}") == [.edDSA])
        #expect(try algorithms(edwards + #","alg":"EdDSA"}"#) == [.edDSA])
        #expect(try algorithms(edwards + #","alg":"ES256"}"#) == [])
        #expect(try algorithms(#"{"kty":"OKP","crv":"X25519","x":"\#(x)"}"#) == [])
    }

    @Test("keys of a file are tried for any kid")
    func keysOfFile() throws {
        let x = try #require(Base64.decodeURLSafe(Self.x)), y = try #require(Base64.decodeURLSafe(Self.y))
        let keys = JSONWebKeySet([try #require(PublicKey(p256X: x, y: y))])
        let token = try JSONWebToken(Self.es256)
        #expect(keys.keys(for: token).contains { token.isSigned(by: $0) })
        let header = Base64.encodeURLSafe(Array(#"{"alg":"ES256","kid":"a"}"#.utf8))
        #expect(keys.keys(for: try JSONWebToken("\(header).e30.AAAA")).count == 1)
        #expect(keys.keys(for: try JSONWebToken(Self.rs256)).isEmpty)
    }

    @Test("unusable keys are ignored")
    func uselessKeys() throws {
        func with(_ key: String, _ member: String) -> String { key.dropLast() + "," + member + "}" }
        let short = Base64.encodeURLSafe([UInt8](repeating: 0xFF, count: 128))
        let long = Base64.encodeURLSafe([UInt8](repeating: 0xFF, count: 1025))
        let useless = [
            with(Self.rsaKey, #""use":"enc""#), with(Self.rsaKey, #""alg":"RS512""#),
            with(Self.rsaKey, #""alg":"HS256""#),
            with(Self.rsaKey, #""key_ops":["encrypt"]"#), #"{"kty":"oct","k":"AAAA","alg":"RS256"}"#,
            #"{"kty":"RSA","n":"\#(short)","e":"AQAB"}"#, #"{"kty":"RSA","n":"\#(long)","e":"AQAB"}"#,
            #"{"kty":"RSA","n":"\#(Self.modulus)","e":"AQ"}"#, #"{"kty":"RSA","n":"\#(Self.modulus)","e":"BA"}"#,
            #"{"kty":"RSA","n":"\#(Self.modulus)"}"#, #"{"kty":"RSA","n":"?","e":"AQAB"}"#,
            #"{"kty":"EC","crv":"P-384","x":"\#(Self.x)","y":"\#(Self.y)"}"#,
            // Not a point on the curve.
            #"{"kty":"EC","crv":"P-256","x":"\#(Self.x)","y":"\#(Self.x)"}"#,
            #"{"kty":"EC","crv":"P-256","x":"AAAA","y":"\#(Self.y)"}"#, #""text""#, "1", "{}",
        ]
        for key in useless { #expect(try set(key).isEmpty, "\(key)") }
        let keys = try set(useless[0], "{}", with(Self.rsaKey, #""kid":"a","use":"sig","alg":"RS256""#), Self.ecKey)
        #expect(!keys.isEmpty)
        for text in ["", "{}", "[]", #"{"keys":{}}"#, #"{"keys":"a"}"#] {
            #expect(JSONWebKeySet(json: Array(text.utf8)) == nil, "\(text)")
        }
    }

    @Test("only keys with the token's kid are tried, and without a kid all keys of its algorithm")
    func keyIDs() throws {
        func named(_ id: String) -> String { Self.ecKey.dropLast() + #","kid":"\#(id)"}"# }
        let keys = try set(named("a"), named("b"), named("\u{E9}"), Self.rsaKey)
        func count(_ header: String) throws -> Int {
            let text = Base64.encodeURLSafe(Array(header.utf8)) + "." + Base64.encodeURLSafe(Array("{}".utf8)) + ".AAAA"
            return keys.keys(for: try JSONWebToken(text)).count
        }
        #expect(try count(#"{"alg":"ES256","kid":"a"}"#) == 1)
        #expect(try count(#"{"alg":"ES256","kid":"c"}"#) == 0)
        #expect(try count(#"{"alg":"RS256","kid":"a"}"#) == 0)
        #expect(try count("{\"alg\":\"ES256\",\"kid\":\"\u{E9}\"}") == 1)
        #expect(try count("{\"alg\":\"ES256\",\"kid\":\"e\u{301}\"}") == 0)
        #expect(try count(#"{"alg":"ES256"}"#) == 3)
        #expect(try count(#"{"alg":"RS256"}"#) == 1)
    }
}
