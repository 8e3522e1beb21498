internal import COpenSSL

/// Keyed-hash message authentication codes, RFC 2104.
package enum HMAC {
    /// The code of `message`, as long as the hash.
    ///
    /// Traps for `crc32c`, which is not a cryptographic hash.
    package static func code(_ algorithm: DigestAlgorithm, key: [UInt8], message: [UInt8]) -> [UInt8] {
        HMACKey(algorithm, key).code(for: message)
    }
}

/// A key for many messages: the work that depends only on the key is done once.
///
/// Unchecked because after `init` the context is only read, by `EVP_MAC_CTX_dup`.
package final class HMACKey: @unchecked Sendable {
    private let context: OpaquePointer
    private let byteCount: Int

    /// Traps for `crc32c`, which is not a cryptographic hash.
    package init(_ algorithm: DigestAlgorithm, _ key: [UInt8]) {
        guard let prototype = MACPrototype.of(algorithm) else {
            preconditionFailure("\(algorithm) cannot be used with HMAC")
        }
        guard let context = EVP_MAC_CTX_dup(prototype.pointer) else { preconditionFailure("no memory for HMAC") }
        // Not the pointer of an empty array: OpenSSL interprets a null key as "keep the previous key".
        let result = (key.isEmpty ? [0] : key).withUnsafeBufferPointer { buffer in
            EVP_MAC_init(context, buffer.baseAddress, key.count, nil)
        }
        precondition(result == 1, "HMAC could not be started")
        self.context = context
        byteCount = algorithm.byteCount
    }

    deinit { EVP_MAC_CTX_free(context) }

    /// - Returns: A code as long as the hash.
    @inlinable
    package func code(for message: some Collection<UInt8>) -> [UInt8] {
        withContiguousBytes(message) { code(for: $0) }
    }

    @usableFromInline
    func code(for message: UnsafeRawBufferPointer) -> [UInt8] {
        guard let copy = EVP_MAC_CTX_dup(context) else { preconditionFailure("no memory for HMAC") }
        defer { EVP_MAC_CTX_free(copy) }
        let updated = EVP_MAC_update(copy, message.assumingMemoryBound(to: UInt8.self).baseAddress, message.count)
        precondition(updated == 1, "HMAC could not be updated")
        return [UInt8](unsafeUninitializedCapacity: byteCount) { buffer, initialized in
            var written = 0
            let result = EVP_MAC_final(copy, buffer.baseAddress, &written, byteCount)
            precondition(result == 1 && written == byteCount, "HMAC could not be finished")
            initialized = byteCount
        }
    }
}

/// An HMAC context of OpenSSL with a hash and without a key, made once per hash.
///
/// Unchecked because it is only read, by `EVP_MAC_CTX_dup`, and never freed.
private struct MACPrototype: @unchecked Sendable {
    let pointer: OpaquePointer

    static func of(_ algorithm: DigestAlgorithm) -> MACPrototype? {
        switch algorithm {
        case .md5: md5
        case .sha1: sha1
        case .sha256: sha256
        case .sha512: sha512
        case .crc32c: nil
        }
    }

    private static let md5 = MACPrototype("MD5")
    private static let sha1 = MACPrototype("SHA1")
    private static let sha256 = MACPrototype("SHA256")
    private static let sha512 = MACPrototype("SHA512")

    private init(_ digest: StaticString) {
        guard let pointer = cossl_hmac_context(digest.utf8Start) else {
            preconditionFailure("this OpenSSL does not offer HMAC with \(digest)")
        }
        self.pointer = pointer
    }
}
