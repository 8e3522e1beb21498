internal import Bytes
package import Digests

/// A public key of an issuer (RFC 7517 §4).
package struct JSONWebKey: Sendable {
    /// `kid`.
    package let id: String?
    package let algorithms: Set<JSONWebAlgorithm>
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
        let found: PublicKey?
        switch (text("kty"), text("crv")) {
        case ("RSA", _):
            guard let modulus = bytes("n"), let exponent = bytes("e") else { return nil }
            found = PublicKey(rsaModulus: modulus, exponent: exponent)
        case ("EC", "P-256"):
            guard let x = bytes("x"), let y = bytes("y") else { return nil }
            found = PublicKey(p256X: x, y: y)
        // RFC 8037 §2
        case ("OKP", "Ed25519"): found = bytes("x").flatMap { PublicKey(ed25519: $0) }
        default: return nil
        }
        guard let found else { return nil }
        var algorithms = Self.algorithms(of: found)
        if let only = members["alg"] { algorithms = algorithms.filter { .string($0.rawValue) == only } }
        guard !algorithms.isEmpty else { return nil }
        id = text("kid")
        self.algorithms = algorithms
        key = found
    }

    /// A key from elsewhere, which has no id.
    init(_ key: PublicKey) {
        id = nil
        algorithms = Self.algorithms(of: key)
        self.key = key
    }

    private static func algorithms(of key: PublicKey) -> Set<JSONWebAlgorithm> {
        switch key.kind {
        case .rsa: [.rs256, .ps256]
        case .p256: [.es256]
        case .ed25519: [.edDSA]
        }
    }
}

/// The keys of an issuer (RFC 7517 §5).
package struct JSONWebKeySet: Sendable {
    /// Further keys are ignored.
    private static let maximumCount = 100

    private let keys: [JSONWebKey]
    /// Whether the keys are meant for any `kid`, because they have none.
    private let isForAnyID: Bool

    /// Keys without ids, as in a PEM file: each may have signed any token of its algorithm.
    package init(_ keys: [PublicKey]) {
        self.keys = keys.map { JSONWebKey($0) }
        isForAnyID = true
    }

    /// `nil` if this is not a key set; unusable keys in it are ignored, as that section requires.
    package init?(json: [UInt8]) {
        guard let members = JSONValue(json: json)?.members,
            case .array(let all)? = members["keys"]
        else { return nil }
        keys = all.prefix(Self.maximumCount).compactMap { JSONWebKey($0) }
        isForAnyID = false
    }

    package var isEmpty: Bool { keys.isEmpty }

    /// The keys that may have signed `token`: the key with its `kid`, or without `kid` all keys for its algorithm.
    package func keys(for token: JSONWebToken) -> [JSONWebKey] {
        keys.filter { key in
            guard key.algorithms.contains(token.algorithm) else { return false }
            guard !isForAnyID, let id = token.keyID else { return true }
            return key.id?.isExactly(id) ?? false
        }
    }
}
