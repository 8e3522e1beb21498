internal import CSystem

/// The Castagnoli polynomial (RFC 3720 §12.1); uses the processor's CRC instruction if there is one.
package typealias CRC32C = CyclicRedundancyCheck<Castagnoli>

/// The CRC of Ethernet, gzip and zip, CRC-32/ISO-HDLC (RFC 1952 §8).
///
/// Like the variants below, it uses carry-less multiplication if the processor has it.
package typealias CRC32 = CyclicRedundancyCheck<ISOHDLC>

/// `crc64ecma` of OSS and COS: the polynomial of ECMA-182, reflected as in the xz file format.
package typealias CRC64XZ = CyclicRedundancyCheck<ECMA182>

/// `CRC64NVME` of S3: the polynomial of the NVM Express command set, also called Rocksoft.
package typealias CRC64NVME = CyclicRedundancyCheck<NVMExpress>

package enum Castagnoli: CRCVariant {
    package static let polynomial: UInt32 = 0x82F6_3B78

    package static func advance(_ register: UInt32, over bytes: UnsafeRawBufferPointer) -> UInt32 {
        csys_crc32c(register, bytes.baseAddress, bytes.count)
    }
}

package enum ISOHDLC: CRCVariant {
    package static let polynomial: UInt32 = 0xEDB8_8320

    package static func advance(_ register: UInt32, over bytes: UnsafeRawBufferPointer) -> UInt32 {
        UInt32(truncatingIfNeeded: csys_crc(CSYS_CRC32, UInt64(register), bytes.baseAddress, bytes.count))
    }
}

package enum ECMA182: CRCVariant {
    package static let polynomial: UInt64 = 0xC96C_5795_D787_0F42

    package static func advance(_ register: UInt64, over bytes: UnsafeRawBufferPointer) -> UInt64 {
        csys_crc(CSYS_CRC64_XZ, register, bytes.baseAddress, bytes.count)
    }
}

package enum NVMExpress: CRCVariant {
    package static let polynomial: UInt64 = 0x9A6C_9329_AC4B_C9B5

    package static func advance(_ register: UInt64, over bytes: UnsafeRawBufferPointer) -> UInt64 {
        csys_crc(CSYS_CRC64_NVME, register, bytes.baseAddress, bytes.count)
    }
}
