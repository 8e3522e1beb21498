internal import Bytes
package import Signing
package import UploadCore

/// An API key as a pair of keys that clients of an object store can be given for good.
///
/// The access key id holds the id of the key, so that the key is found again, and is expired or revoked with it. The secret
/// key follows from the id and the key's digest: it tells nothing of the API key, which does not tell it either.
package struct StaticKeyPair: Sendable {
    private static let prefix = "SLAK"

    package let accessKeyID: String
    package let secretAccessKey: SecretAccessKey

    /// The pairs for `key` that are known while the master secret is rotated: the new one, then the others.
    package static func all(_ key: APIKey, master: MasterSecret) -> [StaticKeyPair] {
        master.each.map { StaticKeyPair(key, master: $0) }
    }

    /// The pair for `key`.
    ///
    /// - Parameters:
    ///   - key: Another key with the same id has another secret key.
    ///   - master: Of the installation.
    package init(_ key: APIKey, master: MasterSecret) {
        accessKeyID = Self.prefix + Base32.encode(key.id.utf8)
        // The digest has 32 bytes always, so no other id and digest make the same message.
        secretAccessKey = SecretAccessKeyDerivation(master: master, purpose: "object static secret v1")
            .secret(for: key.digest + Array(key.id.utf8))
    }

    /// The id of the API key that a pair is for; `nil` for an access key id of another kind.
    package static func keyID(of accessKeyID: String) -> String? {
        guard accessKeyID.hasPrefix(prefix), let bytes = Base32.decode(accessKeyID.dropFirst(prefix.count)),
            !bytes.isEmpty
        else { return nil }
        return String(validating: bytes, as: UTF8.self)
    }

    /// As requests are signed with it.
    package var credentials: SigningCredentials {
        SigningCredentials(accessKeyID: accessKeyID, secretAccessKey: secretAccessKey.text)
    }
}
