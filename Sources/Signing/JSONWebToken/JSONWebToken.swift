package import Bytes
internal import Digests
internal import Foundation

/// How a JSON Web Token is signed (RFC 7518 §3.1).
///
/// Those of identity providers, with a private key. Whoever took an HMAC or `none` for a signature would believe anybody who has
/// the public key, or nobody's word (RFC 8725 §2.1).
package enum JSONWebAlgorithm: String, Sendable {
    case rs256 = "RS256"
    case es256 = "ES256"
}

/// A token in compact form (RFC 7519, RFC 7515 §7.1), of which nothing is known to be true.
package struct JSONWebToken: Sendable {
    package let algorithm: JSONWebAlgorithm
    /// Names the key that signed it.
    package let keyID: String?
    /// What it says, by name.
    package let claims: [String: JSONValue]
    private let message: [UInt8]
    private let signature: [UInt8]

    /// Takes a token apart.
    ///
    /// - Throws: In which way `text` is none, without a word of it.
    package init(_ text: String) throws(Malformed) {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3 else { throw Malformed("is not three parts with a dot between them") }
        guard let signature = Base64.decodeURLSafe(parts[2]), let header = Self.object(parts[0]),
            let claims = Self.object(parts[1])
        else { throw Malformed("is not JSON in base64url") }
        guard case .string(let name)? = header["alg"] else { throw Malformed("names no algorithm") }
        guard let algorithm = JSONWebAlgorithm(rawValue: name) else {
            throw Malformed("is not signed by RS256 or ES256")
        }
        // What whoever does not know it must refuse (RFC 7515 §4.1.11).
        guard header["crit"] == nil else { throw Malformed("has critical parameters, which are not known here") }
        self.algorithm = algorithm
        if case .string(let id)? = header["kid"] { keyID = id } else { keyID = nil }
        self.claims = claims
        self.signature = signature
        message = Array("\(parts[0]).\(parts[1])".utf8)
    }

    /// Whether the token was signed with the private half of `key`, by the algorithm that the key is for.
    package func isSigned(by key: JSONWebKey) -> Bool {
        key.algorithm == algorithm && key.key.verifies(signature, of: message)
    }

    /// An object in which no name is there twice, so that nobody reads another value (RFC 7519 §4).
    private static func object(_ part: Substring) -> [String: JSONValue]? {
        guard let json = Base64.decodeURLSafe(part),
            let value = try? JSONDecoder().decode(JSONValue.self, from: Data(json)), case .object(let members) = value,
            JSONNames.repeated(in: json) == []
        else { return nil }
        return members
    }

    package struct Malformed: Error, Sendable, Equatable {
        /// What to say behind "the token".
        package let reason: String

        init(_ reason: String) { self.reason = reason }
    }
}
