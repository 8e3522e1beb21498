internal import COpenSSL

/// Cryptographically secure random bytes.
package enum SecureRandom {
    package static func bytes(_ count: Int) -> [UInt8] {
        guard count > 0 else { return [] }
        return [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
            precondition(RAND_bytes(buffer.baseAddress, Int32(count)) == 1, "the system has no random bytes")
            initialized = count
        }
    }
}
