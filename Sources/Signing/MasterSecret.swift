internal import Bytes
internal import Digests

/// The secret of an installation, from which the keys for every purpose are derived.
///
/// While it is rotated there are several: the first makes everything new, and what was made with any of them is known. So what
/// was handed out goes on until it ends, and nodes know what is made with a secret before one of them makes something with it.
///
/// They never appear in a description, a reflection or a log.
package struct MasterSecret: Sendable, Equatable {
    /// Bytes that a secret must have at least.
    package static let minimumByteCount = 32
    /// Secrets that there may be: each is tried with what none of them made.
    package static let maximumCount = 8

    /// Never empty, none twice.
    private let secrets: [[UInt8]]

    /// The secret `bytes`, beside which `others` are accepted: those of before, or the one that is to come.
    ///
    /// `nil` if one has fewer than 32 bytes, one is there twice, or there are more than `maximumCount`.
    package init?(bytes: [UInt8], accepting others: [[UInt8]] = []) {
        let secrets = [bytes] + others
        guard secrets.count <= Self.maximumCount, Set(secrets).count == secrets.count,
            secrets.allSatisfy({ $0.count >= Self.minimumByteCount })
        else { return nil }
        self.secrets = secrets
    }

    /// The secrets of a text: each as base64, separated by commas or white space, the one that makes everything new first.
    ///
    /// `nil` as of `init(bytes:accepting:)`, and if one is not base64.
    package init?(text: String) {
        var secrets: [[UInt8]] = []
        for part in text.split(whereSeparator: { $0 == "," || $0.isWhitespace }) {
            guard let bytes = Base64.decode(part) else { return nil }
            secrets.append(bytes)
        }
        guard let first = secrets.first else { return nil }
        self.init(bytes: first, accepting: Array(secrets.dropFirst()))
    }

    /// All of them as `init(text:)` takes them, separated by commas.
    package var text: String { secrets.map { Base64.encode($0) }.joined(separator: ",") }

    /// Each for itself, the one that makes everything new first.
    package var each: [MasterSecret] { secrets.compactMap { MasterSecret(bytes: $0) } }

    /// Whether everything that is known with `other` is known with this one.
    package func accepts(_ other: MasterSecret) -> Bool { other.secrets.allSatisfy(secrets.contains) }

    /// The key for `purpose` with which new things are made: HKDF-SHA256 (RFC 5869) with the purpose as info.
    ///
    /// Keys for different purposes tell nothing about each other. The same secret and purpose always give the same key.
    ///
    /// - Parameters:
    ///   - purpose: A text that no other use has; changing it makes everything invalid that was signed before.
    ///   - count: Bytes, 1 to 8160.
    /// - Returns: `count` bytes.
    package func key(for purpose: String, count: Int = 32) -> [UInt8] {
        KeyDerivation.hkdf(secret: secrets[0], info: "sluice/\(purpose)", count: count)
    }

    /// A name for the first, which tells nothing of it: 8 hexadecimal digits.
    package var id: String { Hexadecimal.encode(key(for: "secret id v1", count: 4)) }
}

extension MasterSecret: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package var description: String { "<redacted>" }
    package var debugDescription: String { description }
    package var customMirror: Mirror { Mirror(self, children: []) }
}
