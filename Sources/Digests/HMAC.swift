internal import COpenSSL

/// Message authentication by hash, RFC 2104.
package enum HMAC {
    /// The code of `message`, as many bytes as the hash has; not for `crc32c`, which is no cryptographic hash.
    package static func code(_ algorithm: DigestAlgorithm, key: [UInt8], message: [UInt8]) -> [UInt8] {
        HMACKey(algorithm, key).code(for: message)
    }
}

/// A key that is used for many messages: the work that depends on the key alone is done once.
///
/// Unchecked, because after `init` the context is only read, by `EVP_MAC_CTX_dup`.
package final class HMACKey: @unchecked Sendable {
    private let context: OpaquePointer
    private let byteCount: Int

    /// Takes any hash but `crc32c`, which is no cryptographic one.
    package init(_ algorithm: DigestAlgorithm, _ key: [UInt8]) {
        guard let prototype = MACPrototype.of(algorithm) else {
            preconditionFailure("\(algorithm) is no hash for HMAC")
        }
        guard let context = EVP_MAC_CTX_dup(prototype.pointer) else { preconditionFailure("no memory for HMAC") }
        // Not the pointer of an empty array: OpenSSL takes a null key for "the key as before".
        let result = (key.isEmpty ? [0] : key).withUnsafeBufferPointer { buffer in
            EVP_MAC_init(context, buffer.baseAddress, key.count, nil)
        }
        precondition(result == 1, "HMAC could not be started")
        self.context = context
        byteCount = algorithm.byteCount
    }

    deinit { EVP_MAC_CTX_free(context) }

    /// - Returns: As many bytes as the hash has.
    package func code(for message: some Collection<UInt8>) -> [UInt8] {
        guard let copy = EVP_MAC_CTX_dup(context) else { preconditionFailure("no memory for HMAC") }
        defer { EVP_MAC_CTX_free(copy) }
        let updated = withContiguousBytes(message) { buffer in
            EVP_MAC_update(copy, buffer.assumingMemoryBound(to: UInt8.self).baseAddress, buffer.count)
        }
        precondition(updated == 1, "HMAC could not be updated")
        return [UInt8](unsafeUninitializedCapacity: byteCount) { buffer, initialized in
            var written = 0
            let result = EVP_MAC_final(copy, buffer.baseAddress, &written, byteCount)
            precondition(result == 1 && written == byteCount, "HMAC could not be finished")
            initialized = byteCount
        }
    }
}

/// An HMAC context of OpenSSL with its hash set and no key, made once for each hash.
///
/// Unchecked, because it is only read, by `EVP_MAC_CTX_dup`, and never freed.
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
