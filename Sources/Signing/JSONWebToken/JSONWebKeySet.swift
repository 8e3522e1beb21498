internal import Bytes
internal import Digests
internal import Foundation

/// A public key of an issuer (RFC 7517 §4).
package struct JSONWebKey: Sendable {
    /// `kid`.
    package let id: String?
    package let algorithm: JSONWebAlgorithm
    let key: PublicKey

    /// `nil` for a key that is not for signatures, or for another algorithm.
    init?(_ json: JSONValue) {
        guard case .object(let members) = json else { return nil }
        func text(_ name: String) -> String? {
            if case .string(let text)? = members[name] { text } else { nil }
        }
        func bytes(_ name: String) -> [UInt8]? { text(name).flatMap { Base64.decodeURLSafe($0) } }
        guard text("use") ?? "sig" == "sig" else { return nil }
        if case .array(let uses)? = members["key_ops"], !uses.contains(.string("verify")) { return nil }
        let found: (JSONWebAlgorithm, PublicKey?)
        switch text("kty") {
        case "RSA":
            guard let modulus = bytes("n"), let exponent = bytes("e") else { return nil }
            found = (.rs256, PublicKey(rsaModulus: modulus, exponent: exponent))
        case "EC" where text("crv") == "P-256":
            guard let x = bytes("x"), let y = bytes("y") else { return nil }
            found = (.es256, PublicKey(p256X: x, y: y))
        default: return nil
        }
        guard let key = found.1, text("alg") ?? found.0.rawValue == found.0.rawValue else { return nil }
        id = text("kid")
        algorithm = found.0
        self.key = key
    }
}

/// The keys of an issuer (RFC 7517 §5).
package struct JSONWebKeySet: Sendable {
    /// Further keys are ignored.
    private static let maximumCount = 100

    private let keys: [JSONWebKey]

    /// `nil` if this is not a key set; unusable keys in it are ignored, as that section requires.
    package init?(json: [UInt8]) {
        guard let value = try? JSONDecoder().decode(JSONValue.self, from: Data(json)),
            case .object(let members) = value,
            case .array(let all)? = members["keys"]
        else { return nil }
        keys = all.prefix(Self.maximumCount).compactMap { JSONWebKey($0) }
    }

    package var isEmpty: Bool { keys.isEmpty }

    /// The keys that may have signed `token`: the key with its `kid`, or without `kid` all keys of its algorithm.
    package func keys(for token: JSONWebToken) -> [JSONWebKey] {
        keys.filter { $0.algorithm == token.algorithm && (token.keyID == nil || $0.id == token.keyID) }
    }
}
