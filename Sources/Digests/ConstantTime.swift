internal import COpenSSL

/// Whether the bytes are equal.
///
/// The time depends only on their number.
package func constantTimeEquals(_ first: some Collection<UInt8>, _ second: some Collection<UInt8>) -> Bool {
    withContiguousBytes(first) { first in
        withContiguousBytes(second) { second in
            guard first.count == second.count else { return false }
            guard let left = first.baseAddress, let right = second.baseAddress else { return true }
            return CRYPTO_memcmp(left, right, first.count) == 0
        }
    }
}
