internal import CSystem

/// CRC-32C: the Castagnoli polynomial, reflected (RFC 3720 §12.1); by the processor's own instruction where it has one.
package struct CRC32C: Sendable {
    private var register: UInt32

    package init() { register = 0xFFFF_FFFF }

    /// Goes on from the checksum of bytes that came before.
    package init(resuming value: UInt32) { register = ~value }

    /// The checksum so far.
    package var value: UInt32 { ~register }

    /// The checksum so far, most significant byte first.
    package var bytes: [UInt8] { Self.bytes(of: value) }

    /// A checksum, most significant byte first.
    package static func bytes(of value: UInt32) -> [UInt8] {
        [UInt8(value >> 24), UInt8(value >> 16 & 255), UInt8(value >> 8 & 255), UInt8(value & 255)]
    }

    package mutating func update(_ bytes: [UInt8]) {
        bytes.withUnsafeBytes { update($0) }
    }

    package mutating func update(_ bytes: UnsafeRawBufferPointer) {
        register = csys_crc32c(register, bytes.baseAddress, bytes.count)
    }
}
