/// A cyclic redundancy check of bytes that come piece by piece; against accidents only.
///
/// Those that are here begin with a register of ones, whose complement is the checksum.
package struct CyclicRedundancyCheck<Variant: CRCVariant>: Sendable {
    package typealias Value = Variant.Value

    private var register: Value

    package init() { register = ~0 }

    /// Goes on from the checksum of bytes that came before.
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

    /// The checksum of some bytes and others behind them, without either; by the logarithm of `count` many steps.
    ///
    /// - Parameters:
    ///   - first: The checksum of the bytes in front.
    ///   - second: The checksum of those behind them.
    ///   - count: How many are behind; not negative.
    /// - Returns: What `update` would give with the one after the other.
    package static func combine(_ first: Value, _ second: Value, count: Int64) -> Value {
        precondition(count >= 0, "a number of bytes is not negative")
        // Of a checksum the zeros that follow make its product with x^8 for each; what the registers begin and end with
        // cancels itself out.
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

    /// The polynomial 1: the lowest bit belongs to the highest power of x.
    private static var one: Value { 1 << (Value.bitWidth - 1) }

    /// The product of two polynomials, modulo that of the checksum.
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

/// What makes one CRC differ from another.
package protocol CRCVariant: Sendable {
    associatedtype Value: FixedWidthInteger & UnsignedInteger & Sendable

    /// Without its highest power; the lowest bit belongs to the highest of the others.
    static var polynomial: Value { get }

    /// The register after some more bytes.
    static func advance(_ register: Value, over bytes: UnsafeRawBufferPointer) -> Value
}
