internal import Bytes
internal import Digests

/// Bytes that only the holder of a key can read or make, with the name of that key, in a form for headers and URLs.
///
/// AES-256-GCM (NIST SP 800-38D). Layout before base64url: 4 bytes key id, 24 random bytes, cipher text, 16 bytes tag.
/// The first 12 random bytes make, by HMAC-SHA256, the key of this one token, the others are its nonce: with 192 random
/// bits, a key may seal as many tokens as it likes, where 96 would end at 2^32 (SP 800-38D §8.3).
package struct SealedToken: Sendable, Equatable {
    static let seedByteCount = 12
    static let headByteCount = SealingKey.idByteCount + seedByteCount + AuthenticatedEncryption.nonceByteCount

    let bytes: [UInt8]

    /// The token that `text` stands for, genuine or not; `nil` if it can not be one.
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

/// A key for tokens of one purpose.
struct SealingKey: Sendable {
    static let idByteCount = 4

    let id: [UInt8]
    private let key: HMACKey

    /// The key for `purpose` under `master`; its id follows from both.
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

/// The keys of one purpose, one for each master secret: the first seals, and each of them opens what it sealed.
package struct SealingKeyRing: Sendable {
    private let first: SealingKey
    private let others: [SealingKey]

    package init(master: MasterSecret, purpose: String) {
        first = SealingKey(master: master, purpose: purpose)
        others = master.each.dropFirst().map { SealingKey(master: $0, purpose: purpose) }
    }

    package func seal(_ plain: [UInt8]) -> SealedToken { first.seal(plain) }

    /// What was sealed; `nil` if no key of the ring sealed it, or it was changed since.
    package func open(_ token: SealedToken) -> [UInt8]? {
        if first.id.elementsEqual(token.keyID), let plain = first.open(token) { return plain }
        for key in others where key.id.elementsEqual(token.keyID) {
            if let plain = key.open(token) { return plain }
        }
        return nil
    }
}
