/// A cyclic redundancy check over bytes that arrive in pieces.
///
/// It detects accidental errors only.
///
/// All variants start with a register of ones; the complement of the register is the checksum.
package struct CyclicRedundancyCheck<Variant: CRCVariant>: Sendable {
    package typealias Value = Variant.Value

    private var register: Value

    package init() { register = ~0 }

    /// Continues from the checksum of the preceding bytes.
    package init(resuming value: Value) { register = ~value }

    /// The checksum so far.
    package var value: Value { ~register }

    /// The checksum so far, most significant byte first.
    package var bytes: [UInt8] { Self.bytes(of: value) }

    /// A checksum, most significant byte first.
    package static func bytes(of value: Value) -> [UInt8] {
        withUnsafeBytes(of: value.bigEndian) { [UInt8]($0) }
    }

    package mutating func update(_ bytes: [UInt8]) {
        bytes.withUnsafeBytes { update($0) }
    }

    package mutating func update(_ bytes: UnsafeRawBufferPointer) {
        register = Variant.advance(register, over: bytes)
    }

    /// The checksum of two byte sequences in a row, computed from their checksums in O(log `count`) steps.
    ///
    /// - Parameters:
    ///   - first: The checksum of the first sequence.
    ///   - second: The checksum of the second sequence.
    ///   - count: Length of the second sequence in bytes; not negative.
    /// - Returns: The same as `update` with both sequences, one after the other.
    package static func combine(_ first: Value, _ second: Value, count: Int64) -> Value {
        precondition(count >= 0, "a number of bytes is not negative")
        // Each zero byte that follows multiplies the checksum by x^8. The initial and final complements of the
        // registers cancel each other out.
        var combined = first
        var step = one >> 8
        var left = count
        while left > 0 {
            if left & 1 == 1 { combined = product(combined, step) }
            step = product(step, step)
            left >>= 1
        }
        return combined ^ second
    }

    /// The polynomial 1: the lowest bit is the coefficient of the highest power of x.
    private static var one: Value { 1 << (Value.bitWidth - 1) }

    /// The product of two polynomials, modulo the polynomial of the checksum.
    private static func product(_ first: Value, _ second: Value) -> Value {
        var sum: Value = 0
        var shifted = second
        var power = one
        while power != 0 {
            if first & power != 0 { sum ^= shifted }
            shifted = shifted & 1 == 0 ? shifted >> 1 : shifted >> 1 ^ Variant.polynomial
            power >>= 1
        }
        return sum
    }
}

/// The parameters of a CRC.
package protocol CRCVariant: Sendable {
    associatedtype Value: FixedWidthInteger & UnsignedInteger & Sendable

    /// Without the highest power; the lowest bit is the coefficient of the next highest one.
    static var polynomial: Value { get }

    /// The register after more bytes.
    static func advance(_ register: Value, over bytes: UnsafeRawBufferPointer) -> Value
}
