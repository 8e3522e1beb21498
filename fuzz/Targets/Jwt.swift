// Tokens of identity providers and their keys, as JSON and in PEM: no token is accepted without the private key.

internal import Bytes
internal import Digests
internal import Signing

private let rules = IdentityTokenRules(issuer: "https://id.example", audiences: ["sluice"])
// The example of RFC 7517 A.1 and the key of RFC 8037 A.2, without their private halves, and an RSA key.
private let keys = JSONWebKeySet(
    json: Array(
        """
        {"keys": [{"kty": "EC", "crv": "P-256", "kid": "1", "use": "sig",
        "x": "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4", "y": "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"},
        {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"},
        {"kty": "RSA", "e": "AQAB", "n": "\(modulus)"}]}
        """.utf8
    )
)

private let modulus =
    "yxbmKpMbIyCVRCTFzTk814a1GfXWKf-a08kUrSCuN0Q6DTzob9SQbfa0pcmjrmWkvJdp0-u1_zhxKoWAEzYAv-7uxktdC9rbuNqgu2o_8_Txv51Tmh"
    + "74pTW5R5itj28D6utwm2-nsAGple0sjQkcZrJybTiG5RDPisv_5oZXCA2f26e47lXHCS6wuUYFhZTNbLebCviSCkq7_KngmX116kMPSvjkKupwZiyP"
    + "v5v0jaXPNXUeP-BE2j802j22_anSHEO-oM3FhuTx2YdhBOtq8tjWAZu7RNfCmCoiNHkQIik4k_fO-MudXtELgw6fLwCI9JyC1KJqGnUfz6jeMw5bCQ"

func fuzzJwt(_ bytes: [UInt8]) {
    check(text(bytes))
    // The parts in lines, as they are before they are encoded.
    let lines = bytes.split(separator: UInt8(ascii: "\n"), maxSplits: 2, omittingEmptySubsequences: false)
    check(lines.map { Base64.encodeURLSafe(Array($0)) }.joined(separator: "."))
    if let keys = try? PublicKeyFile.keys(in: text(bytes)) {
        expect(!keys.isEmpty, "a file without keys")
        let schemes: [SignatureScheme] = [.rsaPKCS1, .rsaPSS, .p256, .ed25519]
        for key in keys {
            expect(schemes.allSatisfy { !key.verifies([1], of: [], by: $0) }, "a signature of one byte")
        }
    }
    if let set = JSONWebKeySet(json: bytes), let token = try? JSONWebToken("eyJhbGciOiJFUzI1NiJ9.e30.AA") {
        for key in set.keys(for: token) { expect(!token.isSigned(by: key), "a signature of one byte") }
    }
}

private func check(_ given: String) {
    guard let token = try? JSONWebToken(given) else { return }
    expectEqual(given.utf8.count { $0 == UInt8(ascii: ".") }, 2, "dots")
    _ = rules.areMeant(by: token)
    guard let keys else { return expect(false, "the keys are not read") }
    do throws(IdentityTokenRules.Failure) {
        _ = try rules.identity(in: token, keys: keys.keys(for: token), at: tokenTime)
    } catch {
        return expectEqual(error, .invalid("is not signed with a key of its issuer"), "refused")
    }
    expect(false, "believed")
}

/// 2026-01-02T03:04:05Z.
private let tokenTime: Int64 = 1_767_323_045
