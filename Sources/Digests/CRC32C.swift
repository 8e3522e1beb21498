/// CRC-32C: the Castagnoli polynomial, reflected (RFC 3720 §12.1), eight bytes a step.
struct CRC32C {
    private var register: UInt32 = 0xFFFF_FFFF

    /// The checksum so far, most significant byte first.
    var bytes: [UInt8] {
        let value = ~register
        return [UInt8(value >> 24), UInt8(value >> 16 & 255), UInt8(value >> 8 & 255), UInt8(value & 255)]
    }

    mutating func update(_ bytes: UnsafeRawBufferPointer) {
        register = Self.tables.withUnsafeBufferPointer { Self.advance(register, over: bytes, with: $0) }
    }

    private static func advance(
        _ start: UInt32,
        over bytes: UnsafeRawBufferPointer,
        with tables: UnsafeBufferPointer<UInt32>
    ) -> UInt32 {
        var crc = start
        var index = 0
        while index + 8 <= bytes.count {
            let word = UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self)) ^ UInt64(crc)
            // The first byte has seven more to pass, the last one none.
            crc = tables[7 << 8 | Int(word & 255)]
            crc ^= tables[6 << 8 | Int(word >> 8 & 255)]
            crc ^= tables[5 << 8 | Int(word >> 16 & 255)]
            crc ^= tables[4 << 8 | Int(word >> 24 & 255)]
            crc ^= tables[3 << 8 | Int(word >> 32 & 255)]
            crc ^= tables[2 << 8 | Int(word >> 40 & 255)]
            crc ^= tables[1 << 8 | Int(word >> 48 & 255)]
            crc ^= tables[Int(word >> 56)]
            index += 8
        }
        while index < bytes.count {
            crc = crc >> 8 ^ tables[Int(crc & 255 ^ UInt32(bytes[index]))]
            index += 1
        }
        return crc
    }

    /// Eight tables of 256: entry `n` of table `k` is what byte `n` does to the register with `k` zero bytes after it.
    private static let tables: [UInt32] = {
        var tables = [UInt32](repeating: 0, count: 8 * 256)
        for index in 0..<256 {
            var crc = UInt32(index)
            for _ in 0..<8 { crc = crc & 1 == 1 ? crc >> 1 ^ 0x82F6_3B78 : crc >> 1 }
            tables[index] = crc
        }
        for index in 256..<tables.count {
            let shorter = tables[index - 256]
            tables[index] = shorter >> 8 ^ tables[Int(shorter & 255)]
        }
        return tables
    }()
}
