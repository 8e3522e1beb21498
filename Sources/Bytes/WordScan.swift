/// Looks through text eight bytes at a time, because every request looks through its head, its JSON and its line of the log.
///
/// The tests of a word are exact: no other byte makes them true.
package enum WordScan {
    @usableFromInline static let ones: UInt64 = 0x0101_0101_0101_0101
    @usableFromInline static let highBits: UInt64 = 0x8080_8080_8080_8080

    /// Whether a byte of the word is below `bound`, which is at most 128.
    @inlinable @inline(__always)
    package static func has(below bound: UInt8, _ word: UInt64) -> Bool {
        (word &- ones &* UInt64(bound)) & ~word & highBits != 0
    }

    /// Whether a byte of the word is `byte`.
    @inlinable @inline(__always)
    package static func has(_ byte: UInt8, _ word: UInt64) -> Bool { has(below: 1, word ^ (ones &* UInt64(byte))) }

    /// Whether all bytes of the word are ASCII.
    @inlinable @inline(__always)
    package static func isASCII(_ word: UInt64) -> Bool { word & highBits == 0 }

    /// Whether a byte of the word is a control character of ASCII, a tab among them.
    @inlinable @inline(__always)
    package static func hasControl(_ word: UInt64) -> Bool { has(below: 0x20, word) || has(0x7F, word) }

    /// Whether `isPlain` holds for all bytes.
    ///
    /// - Parameters:
    ///   - bytes: The text.
    ///   - isPlain: Whether it holds for each byte of a word. If not, each of them is looked at.
    ///   - isPlainByte: Whether it holds for one byte.
    /// - Returns: Whether it holds for all.
    @inlinable
    package static func allSatisfy(
        _ bytes: UnsafeBufferPointer<UInt8>,
        words isPlain: (UInt64) -> Bool,
        bytes isPlainByte: (UInt8) -> Bool
    ) -> Bool {
        let raw = UnsafeRawBufferPointer(bytes)
        var index = 0
        while index < raw.count {
            // The word lies within the bytes.
            if raw.count - index >= 8, isPlain(raw.loadUnaligned(fromByteOffset: index, as: UInt64.self)) {
                index += 8
            } else if isPlainByte(raw[index]) {
                index += 1
            } else {
                return false
            }
        }
        return true
    }
}
