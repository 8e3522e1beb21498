internal import Bytes
package import Foundation
package import Signing
package import UploadModel

/// Permanent credentials for clients of an object store, derived from an API key.
///
/// The access key id contains the id of the API key, so that the key can be looked up, and the pair expires or is
/// revoked with it. The secret key is derived from that id and the key's digest. Neither the API key nor the secret key
/// reveals the other.
package struct StaticKeyPair: Sendable {
    private static let prefix = "SLAK"

    package let accessKeyID: String
    package let secretAccessKey: SecretAccessKey

    /// The pairs for `key` that are valid while the master secret or the key is rotated: the new one first.
    package static func all(_ key: APIKey, master: MasterSecret, at now: Date) -> [StaticKeyPair] {
        key.digests(at: now).flatMap { digest in
            var version = key
            version.digest = digest
            return master.each.map { StaticKeyPair(version, master: $0) }
        }
    }

    /// The pair for `key`.
    ///
    /// - Parameters:
    ///   - key: Another key with the same id gives a different secret key.
    ///   - master: The master secret of the installation.
    package init(_ key: APIKey, master: MasterSecret) {
        accessKeyID = Self.prefix + Base32.encode(key.id.utf8)
        // The digest always has 32 bytes, so no other id and digest give the same message.
        secretAccessKey = SecretAccessKeyDerivation(master: master, purpose: "object static secret v1")
            .secret(for: key.digest + Array(key.id.utf8))
    }

    /// The id of the API key behind a pair; `nil` for an access key id of another kind.
    package static func keyID(of accessKeyID: String) -> String? {
        guard accessKeyID.hasPrefix(prefix), let bytes = Base32.decode(accessKeyID.dropFirst(prefix.count)),
            !bytes.isEmpty
        else { return nil }
        return String(clientText: bytes)
    }

    /// In the form for verifying signatures.
    package var credentials: SigningCredentials {
        SigningCredentials(accessKeyID: accessKeyID, secretAccessKey: secretAccessKey.text)
    }
}
