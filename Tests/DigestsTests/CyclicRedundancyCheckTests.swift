import CSystem
import Testing

@testable import Digests

@Suite("Cyclic redundancy checks", .timeLimit(.minutes(10)))
struct CyclicRedundancyCheckTests {
    struct Vector: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let bytes: [UInt8]
        let xz: UInt64
        let nvme: UInt64
        let crc32: UInt32
        let castagnoli: UInt32

        init(_ name: String, _ bytes: [UInt8], _ xz: UInt64, _ nvme: UInt64, _ crc32: UInt32, _ castagnoli: UInt32) {
            testDescription = name
            self.bytes = bytes
            self.xz = xz
            self.nvme = nvme
            self.crc32 = crc32
            self.castagnoli = castagnoli
        }

        init(_ text: String, _ xz: UInt64, _ nvme: UInt64, _ crc32: UInt32, _ castagnoli: UInt32) {
            self.init("\"\(text)\"", Array(text.utf8), xz, nvme, crc32, castagnoli)
        }
    }

    static let pattern = (0..<20_000).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 3) }
    static let mebibyte = 1 << 20

    /// From crcmod, awscrt (NVME and Castagnoli) and zlib; for "123456789" they are the check values of the catalogue
    /// of parametrised CRC algorithms.
    ///
    /// They include values that the SDKs of OSS and COS computed.
    static let vectors = [
        Vector("", 0, 0, 0, 0),
        Vector("1", 3_039_664_240_384_658_157, 0x2395_A1C3_461B_BED2, 0x83DC_EFB7, 0x90F5_99E3),
        Vector("123456789", 0x995D_C9BB_DF19_39FA, 0xAE8B_1486_0A79_9888, 0xCBF4_3926, 0xE306_9283),
        Vector("hello", 11_177_612_005_948_864_433, 0x3377_8570_0652_4257, 0x3610_A686, 0x9A71_BB4C),
        Vector("hello ", 1_796_661_072_844_795_914, 0xC343_0818_B459_6582, 0xED81_F9F6, 0x7E62_7E58),
        Vector("world", 4_472_352_582_074_980_600, 0x34A6_F418_FB37_58BF, 0x3A77_1143, 0x31AA_814E),
        Vector("hello world", 5_981_764_153_023_615_706, 0x8D29_D5C3_F6EA_8EBE, 0x0D4A_1185, 0xC994_65AA),
        Vector("b", 8_406_248_661_285_262_385, 0x0D9C_951D_E495_67B7, 0x71BE_EFF9, 0xD280_B0C4),
        Vector(
            "1 MiB of 0",
            [UInt8](repeating: 0, count: mebibyte),
            6_947_770_692_288_575_170,
            0xBD76_9638_5DA3_1B46,
            0xA738_EA1C,
            0x1429_8C12
        ),
        Vector(
            "1 MiB of 7",
            [UInt8](repeating: 7, count: mebibyte),
            10_031_277_650_392_317_337,
            0x1D61_D98C_5805_38D5,
            0xA4F6_7EF7,
            0x7D17_286A
        ),
        Vector(
            "1 MiB of a",
            [UInt8](repeating: 0x61, count: mebibyte),
            6_701_094_182_323_390_671,
            0x9706_63C5_B13C_0AA3,
            0xD7CD_5672,
            0xD6B7_1D0D
        ),
        Vector(
            "1 MiB of a, and b",
            [UInt8](repeating: 0x61, count: mebibyte) + [0x62],
            1_366_072_505_388_208_955,
            0xE715_EF78_CC4D_D681,
            0xCF62_32BF,
            0x6D7E_4B0A
        ),
        Vector(
            "63 bytes",
            Array(pattern.prefix(63)),
            0x1B6A_4EE0_6FCE_75A8,
            0xB1E6_4BEC_44EA_2B4C,
            0x2B20_6C5B,
            0x958A_4846
        ),
        Vector(
            "64 bytes",
            Array(pattern.prefix(64)),
            0x1FB6_CB3D_8408_F12C,
            0xA0FE_E49C_5CB0_E054,
            0xF69D_6C47,
            0x1DA0_CE24
        ),
        Vector(
            "65 bytes",
            Array(pattern.prefix(65)),
            0x328F_EA13_384E_2DEA,
            0x5888_CB76_A710_D906,
            0xAFF3_EC50,
            0xFC13_9455
        ),
        Vector(
            "20,000 bytes",
            pattern,
            0xDE54_B183_7638_D058,
            0x7664_AA7C_4DB5_1AD3,
            0x5D76_A2F6,
            0x076E_72D8
        ),
    ]

    @Test("checksums match crcmod, awscrt and zlib", arguments: vectors)
    func known(_ vector: Vector) {
        #expect(checksum(vector.bytes, ECMA182.self) == vector.xz)
        #expect(checksum(vector.bytes, NVMExpress.self) == vector.nvme)
        #expect(checksum(vector.bytes, ISOHDLC.self) == vector.crc32)
        #expect(checksum(vector.bytes, Castagnoli.self) == vector.castagnoli)
    }

    @Test("the bytes of a checksum are most significant first")
    func order() {
        #expect(CRC64XZ.bytes(of: 0x0102_0304_0506_0708) == [1, 2, 3, 4, 5, 6, 7, 8])
        #expect(CRC32.bytes(of: 0x0102_0304) == [1, 2, 3, 4])
        var crc = CRC32C()
        crc.update(Array("123456789".utf8))
        #expect(crc.bytes == [0xE3, 0x06, 0x92, 0x83])
    }

    @Test("carry-less multiplication matches tables at every length and alignment")
    func byTables() {
        let kinds = [CSYS_CRC64_XZ, CSYS_CRC64_NVME, CSYS_CRC32]
        for kind in kinds {
            let start: UInt64 = kind == CSYS_CRC32 ? 0x1234_5678 : 0x1234_5678_9ABC_DEF1
            Self.pattern.withUnsafeBytes { all in
                for count in Array(0...330) + [1023, 4096, 19_000] {
                    let piece = UnsafeRawBufferPointer(rebasing: all[(count % 17)...].prefix(count))
                    let found = csys_crc(kind, start, piece.baseAddress, count)
                    #expect(found == csys_crc_by_tables(kind, start, piece.baseAddress, count), "\(count) bytes")
                }
            }
        }
    }

    @Test("two pieces give the checksum of the whole, by resuming and by combining")
    func pieces() {
        check(ECMA182.self)
        check(NVMExpress.self)
        check(ISOHDLC.self)
        check(Castagnoli.self)

        func check<Variant: CRCVariant>(_: Variant.Type) {
            for count in [0, 1, 2, 63, 64, 65, 300, 5000] {
                for cut in Set([0, 1, 7, 64, 65, count / 2, count]) where cut <= count {
                    let first = Array(Self.pattern[..<cut])
                    let second = Array(Self.pattern[cut..<count])
                    let whole = checksum(first + second, Variant.self)
                    var resumed = CyclicRedundancyCheck<Variant>(resuming: checksum(first, Variant.self))
                    resumed.update(second)
                    #expect(resumed.value == whole)
                    let combined = CyclicRedundancyCheck<Variant>.combine(
                        checksum(first, Variant.self),
                        checksum(second, Variant.self),
                        count: Int64(second.count)
                    )
                    #expect(combined == whole, "\(Variant.self), \(cut) of \(count)")
                }
            }
        }
    }

    @Test("checksums of long parts combine like those of their pieces")
    func longParts() {
        // A tebibyte of zeros by doubling, and the same in two steps of different lengths.
        var zeros = checksum([0], ECMA182.self)
        for doubling in 0..<40 { zeros = CRC64XZ.combine(zeros, zeros, count: 1 << doubling) }
        let front = checksum(Array("front".utf8), ECMA182.self)
        let atOnce = CRC64XZ.combine(front, zeros, count: 1 << 40)
        var remaining = checksum([0], ECMA182.self)
        var length: Int64 = 1
        // 2^40 - 1 zeros, one more bit at a time.
        for _ in 1..<40 {
            let doubled = CRC64XZ.combine(remaining, remaining, count: length)
            length = length * 2 + 1
            remaining = CRC64XZ.combine(doubled, checksum([0], ECMA182.self), count: 1)
        }
        #expect(length == (1 << 40) - 1)
        let oneLess = CRC64XZ.combine(front, remaining, count: length)
        #expect(CRC64XZ.combine(oneLess, checksum([0], ECMA182.self), count: 1) == atOnce)
        #expect(oneLess != atOnce)
    }

    private func checksum<Variant: CRCVariant>(_ bytes: [UInt8], _: Variant.Type) -> Variant.Value {
        var crc = CyclicRedundancyCheck<Variant>()
        crc.update(bytes)
        return crc.value
    }
}
