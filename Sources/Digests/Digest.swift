/// The digest of bytes that are all in memory.
package enum Digest {
    /// - Returns: `algorithm.byteCount` bytes.
    @inlinable
    package static func hash(_ bytes: some Collection<UInt8>, _ algorithm: DigestAlgorithm) -> [UInt8] {
        withContiguousBytes(bytes) { hash($0, algorithm) }
    }

    @usableFromInline
    static func hash(_ buffer: UnsafeRawBufferPointer, _ algorithm: DigestAlgorithm) -> [UInt8] {
        guard let method = algorithm.method else {
            var checksum = CRC32C()
            checksum.update(buffer)
            return checksum.bytes
        }
        var context = DigestContext(method)
        context.update(buffer)
        return context.finish(count: algorithm.byteCount)
    }
}

/// Calls `body` with the bytes in contiguous memory; copies them only if necessary.
///
/// Inlinable, because a generic function that is not specialised costs as much as hashing a short text.
@inlinable
func withContiguousBytes<Result>(
    _ bytes: some Collection<UInt8>,
    _ body: (UnsafeRawBufferPointer) -> Result
) -> Result {
    if let result = bytes.withContiguousStorageIfAvailable({ body(UnsafeRawBufferPointer($0)) }) { return result }
    return [UInt8](bytes).withUnsafeBytes(body)
}
