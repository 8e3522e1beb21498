// Tokens of identity providers and their keys: no token is accepted without the private key.

internal import Bytes
internal import Signing

private let rules = IdentityTokenRules(issuer: "https://id.example", audiences: ["sluice"])
// The example of RFC 7517 A.1, without its private half.
private let keys = JSONWebKeySet(
    json: Array(
        """
        {"keys": [{"kty": "EC", "crv": "P-256", "kid": "1", "use": "sig",
        "x": "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4", "y": "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}]}
        """.utf8
    )
)

func fuzzOne(_ bytes: [UInt8]) {
    check(text(bytes))
    // The parts in lines, as they are before they are encoded.
    let lines = bytes.split(separator: UInt8(ascii: "\n"), maxSplits: 2, omittingEmptySubsequences: false)
    check(lines.map { Base64.encodeURLSafe(Array($0)) }.joined(separator: "."))
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
        _ = try rules.identity(in: token, keys: keys.keys(for: token), at: now)
    } catch {
        return expectEqual(error, .invalid("is not signed with a key of its issuer"), "refused")
    }
    expect(false, "believed")
}

/// 2026-01-02T03:04:05Z.
private let now: Int64 = 1_767_323_045
