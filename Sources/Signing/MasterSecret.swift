internal import Bytes
internal import Digests

/// The secret of an installation; keys for all purposes are derived from it.
///
/// During a rotation there are several secrets: the first one is used for everything new, all of them are accepted.
/// Thus issued credentials stay valid until they expire, and all nodes accept a new secret before the first one uses
/// it.
///
/// Secrets never appear in a description, a reflection or a log.
package struct MasterSecret: Sendable, Equatable {
    /// Minimum length of a secret in bytes.
    package static let minimumByteCount = 32
    /// Maximum number of secrets: verification tries each of them.
    package static let maximumCount = 8

    /// Not empty, without duplicates.
    private let secrets: [[UInt8]]

    /// The secret `bytes`; the `others`, earlier or future ones, are only accepted.
    ///
    /// `nil` if a secret has fewer than 32 bytes, is repeated, or there are more than `maximumCount`.
    package init?(bytes: [UInt8], accepting others: [[UInt8]] = []) {
        let secrets = [bytes] + others
        guard secrets.count <= Self.maximumCount, Set(secrets).count == secrets.count,
            secrets.allSatisfy({ $0.count >= Self.minimumByteCount })
        else { return nil }
        self.secrets = secrets
    }

    /// Parses secrets in base64, separated by commas or white space; the first is used for everything new.
    ///
    /// `nil` in the cases of `init(bytes:accepting:)`, and if a secret is not base64.
    package init?(text: String) {
        var secrets: [[UInt8]] = []
        for part in text.split(whereSeparator: { $0 == "," || $0.isWhitespace }) {
            guard let bytes = Base64.decode(part) else { return nil }
            secrets.append(bytes)
        }
        guard let first = secrets.first else { return nil }
        self.init(bytes: first, accepting: Array(secrets.dropFirst()))
    }

    /// All secrets in the form of `init(text:)`, separated by commas.
    package var text: String { secrets.map { Base64.encode($0) }.joined(separator: ",") }

    /// The secrets one by one, the one for everything new first.
    package var each: [MasterSecret] { secrets.compactMap { MasterSecret(bytes: $0) } }

    /// Whether everything made with a secret of `other` is accepted with this one.
    package func accepts(_ other: MasterSecret) -> Bool { other.secrets.allSatisfy(secrets.contains) }

    /// The current key for `purpose`: HKDF-SHA256 (RFC 5869) with the purpose as info.
    ///
    /// Keys for different purposes are independent. The same secret and purpose always give the same key.
    ///
    /// - Parameters:
    ///   - purpose: A unique text; changing it invalidates everything signed before.
    ///   - count: Bytes, 1 to 8160.
    /// - Returns: `count` bytes.
    package func key(for purpose: String, count: Int = 32) -> [UInt8] {
        KeyDerivation.hkdf(secret: secrets[0], info: "sluice/\(purpose)", count: count)
    }

    /// An id of the first secret that reveals nothing about it: 8 hexadecimal digits.
    package var id: String { Hexadecimal.encode(key(for: "secret id v1", count: 4)) }
}

extension MasterSecret: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package var description: String { "<redacted>" }
    package var debugDescription: String { description }
    package var customMirror: Mirror { Mirror(self, children: []) }
}
