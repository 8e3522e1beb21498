internal import Bytes
package import Digests

/// Signed content as flattened JSON (JWS, RFC 7515 §7.2.2), as an authority of certificates expects it (RFC 8555 §6.2).
package enum JSONWebSignature {
    /// How the receiver knows the key.
    package enum Signer: Sendable {
        /// By the key itself, before there is an account.
        case key
        /// By the URL of the account.
        case account(String)
    }

    /// A request, signed by ES256.
    ///
    /// - Parameters:
    ///   - payload: Its content; empty for one that only reads.
    ///   - url: Where it is sent.
    ///   - nonce: Of the authority.
    ///   - signer: How the key is named.
    ///   - key: Of the account.
    /// - Returns: JSON.
    package static func request(
        _ payload: [UInt8],
        to url: String,
        nonce: String,
        by signer: Signer,
        _ key: P256Key
    ) -> [UInt8] {
        var header = JSONObjectWriter(capacity: 400)
        header.member("alg", "ES256")
        switch signer {
        case .key: header.member("jwk", json: jwk(of: key))
        case .account(let url): header.member("kid", url)
        }
        header.member("nonce", nonce)
        header.member("url", url)
        return object(header.finish(), payload) { key.plainSignature(of: $0) }
    }

    /// What binds a key to an account that the authority's operator has made (RFC 8555 §7.3.4), signed by HS256.
    ///
    /// - Parameters:
    ///   - key: Of the account.
    ///   - keyID: Names the secret.
    ///   - secret: From the operator.
    ///   - url: Where the account is made.
    /// - Returns: JSON.
    package static func binding(of key: P256Key, keyID: String, secret: [UInt8], to url: String) -> [UInt8] {
        var header = JSONObjectWriter(["alg": "HS256", "kid": keyID, "url": url])
        return object(header.finish(), Array(jwk(of: key).utf8)) { HMAC.code(.sha256, key: secret, message: $0) }
    }

    /// The thumbprint of a key (RFC 7638) in base64url.
    package static func thumbprint(of key: P256Key) -> String { thumbprint(members(of: key)) }

    /// - Parameter members: The required members of a JWK; their order is that of their names (RFC 7638 §3.3).
    /// - Returns: The thumbprint in base64url.
    static func thumbprint(_ members: [String: String]) -> String {
        var writer = JSONObjectWriter(members)
        return Base64.encodeURLSafe(Digest.hash(writer.finish(), .sha256))
    }

    private static func jwk(of key: P256Key) -> String {
        var writer = JSONObjectWriter(members(of: key))
        return writer.text()
    }

    private static func members(of key: P256Key) -> [String: String] {
        let (x, y) = key.point
        return ["crv": "P-256", "kty": "EC", "x": Base64.encodeURLSafe(x), "y": Base64.encodeURLSafe(y)]
    }

    private static func object(_ header: [UInt8], _ payload: [UInt8], _ sign: ([UInt8]) -> [UInt8]) -> [UInt8] {
        let (header, payload) = (Base64.encodeURLSafe(header), Base64.encodeURLSafe(payload))
        let signature = Base64.encodeURLSafe(sign(Array("\(header).\(payload)".utf8)))
        var writer = JSONObjectWriter(["protected": header, "payload": payload, "signature": signature])
        return writer.finish()
    }
}
