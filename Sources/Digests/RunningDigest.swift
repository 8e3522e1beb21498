/// A digest of bytes that arrive in pieces.
///
/// Unchecked because it has one user at a time: a user may pass it on but must not share it.
package final class RunningDigest: @unchecked Sendable {
    package let algorithm: DigestAlgorithm
    /// `nil` for CRC-32C.
    private var context: DigestContext?
    private var checksum = CRC32C()
    private var result: [UInt8]?

    package init(_ algorithm: DigestAlgorithm) {
        self.algorithm = algorithm
        if let method = algorithm.method {
            context = DigestContext(method)
        } else {
            context = nil
        }
    }

    /// - Precondition: `finish` was not called before.
    package func update(_ bytes: [UInt8]) {
        bytes.withUnsafeBytes { update($0) }
    }

    /// - Precondition: `finish` was not called before.
    package func update(_ bytes: UnsafeRawBufferPointer) {
        precondition(result == nil, "a finished digest cannot be updated")
        guard !bytes.isEmpty else { return }
        if algorithm == .crc32c {
            checksum.update(bytes)
        } else {
            context?.update(bytes)
        }
    }

    /// The digest of all bytes, `algorithm.byteCount` long; later calls return the same value.
    package func finish() -> [UInt8] {
        if let result { return result }
        let digest = context?.finish(count: algorithm.byteCount) ?? checksum.bytes
        result = digest
        return digest
    }
}
