internal import Bytes
internal import Digests

/// Bytes that only the holder of a key can read or create, with the id of that key, encoded for headers and URLs.
///
/// AES-256-GCM (NIST SP 800-38D). Layout before base64url: 4 bytes key id, 24 random bytes, cipher text, 16 bytes tag.
/// HMAC-SHA256 of the first 12 random bytes gives the key of this token, the others are its nonce. With 192 random bits
/// a key can seal any number of tokens; with 96 the limit would be 2^32 (SP 800-38D §8.3).
package struct SealedToken: Sendable, Equatable {
    static let seedByteCount = 12
    static let headByteCount = SealingKey.idByteCount + seedByteCount + AuthenticatedEncryption.nonceByteCount

    let bytes: [UInt8]

    /// Parses `text`, authentic or not; `nil` if it cannot be a token.
    package init?(_ text: some StringProtocol) {
        guard let bytes = Base64.decodeURLSafe(text) else { return nil }
        guard bytes.count >= Self.headByteCount + AuthenticatedEncryption.tagByteCount else { return nil }
        self.bytes = bytes
    }

    init(bytes: [UInt8]) { self.bytes = bytes }

    /// Base64url without padding.
    package var text: String { Base64.encodeURLSafe(bytes) }

    var keyID: ArraySlice<UInt8> { bytes.prefix(SealingKey.idByteCount) }
}

/// A key for tokens with one purpose.
struct SealingKey: Sendable {
    static let idByteCount = 4

    let id: [UInt8]
    private let key: HMACKey

    /// The key for `purpose` under `master`; its id is derived from both.
    init(master: MasterSecret, purpose: String) {
        let derived = master.key(for: purpose, count: 32 + Self.idByteCount)
        id = Array(derived.suffix(Self.idByteCount))
        key = HMACKey(.sha256, Array(derived.prefix(32)))
    }

    func seal(_ plain: [UInt8]) -> SealedToken {
        let random = SecureRandom.bytes(SealedToken.headByteCount - Self.idByteCount)
        let sealed = AuthenticatedEncryption.seal(
            plain,
            key: key.code(for: random.prefix(SealedToken.seedByteCount)),
            nonce: Array(random.dropFirst(SealedToken.seedByteCount)),
            associated: id
        )
        return SealedToken(bytes: id + random + sealed)
    }

    func open(_ token: SealedToken) -> [UInt8]? {
        let head = token.bytes.prefix(SealedToken.headByteCount).dropFirst(Self.idByteCount)
        return AuthenticatedEncryption.open(
            Array(token.bytes.dropFirst(SealedToken.headByteCount)),
            key: key.code(for: head.prefix(SealedToken.seedByteCount)),
            nonce: Array(head.dropFirst(SealedToken.seedByteCount)),
            associated: id
        )
    }
}

/// The keys of one purpose, one per master secret: the first seals, all can open.
package struct SealingKeyRing: Sendable {
    private let first: SealingKey
    private let others: [SealingKey]

    package init(master: MasterSecret, purpose: String) {
        first = SealingKey(master: master, purpose: purpose)
        others = master.each.dropFirst().map { SealingKey(master: $0, purpose: purpose) }
    }

    package func seal(_ plain: [UInt8]) -> SealedToken { first.seal(plain) }

    /// The sealed bytes; `nil` if no key of the ring sealed them or the token was changed.
    package func open(_ token: SealedToken) -> [UInt8]? {
        if first.id.elementsEqual(token.keyID), let plain = first.open(token) { return plain }
        for key in others where key.id.elementsEqual(token.keyID) {
            if let plain = key.open(token) { return plain }
        }
        return nil
    }
}
