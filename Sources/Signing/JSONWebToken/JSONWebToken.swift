package import Bytes
internal import Digests

/// The supported signature algorithms of JSON Web Tokens (RFC 7518 §3.1).
///
/// Identity providers sign with a private key. A verifier that accepted HMAC would trust anyone with the public key,
/// and one that accepted `none` would trust everyone (RFC 8725 §2.1).
package enum JSONWebAlgorithm: String, Sendable, CaseIterable {
    case rs256 = "RS256"
    case ps256 = "PS256"
    case es256 = "ES256"
    /// With Ed25519 only (RFC 8037 §3.1).
    case edDSA = "EdDSA"

    /// The names, for messages.
    package static let names = "RS256, PS256, ES256 or EdDSA"

    var scheme: SignatureScheme {
        switch self {
        case .rs256: .rsaPKCS1
        case .ps256: .rsaPSS
        case .es256: .p256
        case .edDSA: .ed25519
        }
    }
}

/// A token in compact form (RFC 7519, RFC 7515 §7.1), not verified yet.
package struct JSONWebToken: Sendable {
    package let algorithm: JSONWebAlgorithm
    /// The key id (`kid`).
    package let keyID: String?
    /// The claims by name.
    package let claims: JSONMembers
    private let message: [UInt8]
    private let signature: [UInt8]

    /// Larger tokens are refused before they are parsed.
    package static let maximumByteCount = 16 << 10

    /// Parses a token.
    ///
    /// - Throws: Why `text` is invalid, without quoting it.
    package init(_ text: String) throws(Malformed) {
        guard text.utf8.count <= Self.maximumByteCount else {
            throw Malformed("is larger than \(Self.maximumByteCount) bytes")
        }
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3 else { throw Malformed("does not have three parts separated by dots") }
        guard let signature = Base64.decodeURLSafe(parts[2]), let header = Self.object(parts[0]),
            let claims = Self.object(parts[1])
        else { throw Malformed("is not JSON in base64url, or has a name twice") }
        guard case .string(let name)? = header["alg"] else { throw Malformed("has no algorithm (alg)") }
        guard let algorithm = JSONWebAlgorithm(rawValue: name) else {
            throw Malformed("is not signed by \(JSONWebAlgorithm.names)")
        }
        // A recipient must refuse critical parameters that it does not know (RFC 7515 §4.1.11).
        guard header["crit"] == nil else { throw Malformed("has critical parameters (crit), which are not supported") }
        guard Self.isAccessOrIdentity(header["typ"]) else { throw Malformed("is of another type (typ)") }
        self.algorithm = algorithm
        if case .string(let id)? = header["kid"] { keyID = id } else { keyID = nil }
        self.claims = claims
        self.signature = signature
        message = Array("\(parts[0]).\(parts[1])".utf8)
    }

    /// Whether the private half of `key` signed the token, with the algorithm of the key.
    package func isSigned(by key: JSONWebKey) -> Bool {
        key.algorithms.contains(algorithm) && key.key.verifies(signature, of: message, by: algorithm.scheme)
    }

    /// Whether the type allows use as an ID token or an access token (RFC 9068 §4).
    ///
    /// Issuers sign other things with the same key, such as logout tokens and proofs, which must not be taken for one
    /// (RFC 8725 §3.11).
    private static func isAccessOrIdentity(_ type: JSONValue?) -> Bool {
        guard let type else { return true }
        guard case .string(let name) = type else { return false }
        let lower = name.lowercasedASCII()
        let prefix = "application/"
        return ["jwt", "at+jwt"].contains(lower.hasPrefix(prefix) ? String(lower.dropFirst(prefix.count)) : lower)
    }

    /// An object without repeated names, so that every parser reads the same values (RFC 7519 §4).
    private static func object(_ part: Substring) -> JSONMembers? {
        guard let json = Base64.decodeURLSafe(part),
            let members = JSONValue(json: json)?.members,
            JSONNames.areUnique(in: json)
        else { return nil }
        return members
    }

    package struct Malformed: Error, Sendable, Equatable {
        /// Completes the sentence "the token …".
        package let reason: String

        init(_ reason: String) { self.reason = reason }
    }
}
