internal import Bytes
internal import Digests
package import UploadModel

/// Digests of an object or a part, computed while it is stored.
///
/// Unchecked, because it has one user at a time, as `RunningDigest`. The storing code calls `update` with all bytes in
/// order, each call after the previous one has returned, on any thread. The creator calls `finish` after the last one.
package final class ObjectDigests: @unchecked Sendable {
    /// Digests of all bytes.
    package struct Values: Sendable, Equatable {
        package let count: Int64
        /// 16 bytes.
        package let md5: [UInt8]
        /// CRC-64/XZ.
        package let crc64: UInt64
        /// With the requested algorithm.
        package let checksum: [UInt8]?
        /// Only if requested.
        package let sha256: [UInt8]?
        /// The same.
        package let sha1: [UInt8]?

        /// The entity tag of a part, or of an object not uploaded in parts.
        package var entityTag: String { Hexadecimal.encode(md5) }
    }

    private enum Checksum {
        case crc32(CRC32)
        case crc64nvme(CRC64NVME)
        case digest(RunningDigest)
    }

    package let algorithm: ObjectChecksum.Algorithm?
    private let md5 = RunningDigest(.md5)
    /// The MD5, if it is computed elsewhere.
    private var givenMD5: [UInt8]?
    private var crc64 = CRC64XZ()
    private var checksum: Checksum?
    private let sha256: RunningDigest?
    private let sha1: RunningDigest?
    private var count: Int64 = 0

    /// - Parameters:
    ///   - algorithm: Algorithm of the checksum, if one is wanted.
    ///   - needsSHA256: Whether the SHA-256 is needed as well.
    ///   - needsSHA1: Whether the SHA-1 is needed as well.
    package init(_ algorithm: ObjectChecksum.Algorithm?, needsSHA256: Bool = false, needsSHA1: Bool = false) {
        self.algorithm = algorithm
        sha1 = needsSHA1 ? RunningDigest(.sha1) : nil
        let sha256 = needsSHA256 || algorithm == .sha256 ? RunningDigest(.sha256) : nil
        self.sha256 = sha256
        checksum =
            switch algorithm {
            case .crc32: .crc32(CRC32())
            case .crc32c: .digest(RunningDigest(.crc32c))
            case .crc64nvme: .crc64nvme(CRC64NVME())
            case .sha1: .digest(RunningDigest(.sha1))
            // One digest serves both purposes.
            case .sha256, nil: nil
            }
    }

    /// Adds the next bytes.
    ///
    /// - Parameters:
    ///   - bytes: The bytes.
    ///   - needsMD5: Whether to compute the MD5 of all bytes; otherwise the creator calls `setMD5`.
    package func update(_ bytes: [UInt8], needsMD5: Bool = true) {
        count += Int64(bytes.count)
        bytes.withUnsafeBytes { bytes in
            if needsMD5 { md5.update(bytes) }
            crc64.update(bytes)
            sha256?.update(bytes)
            sha1?.update(bytes)
            switch checksum {
            case .crc32(var check):
                check.update(bytes)
                checksum = .crc32(check)
            case .crc64nvme(var check):
                check.update(bytes)
                checksum = .crc64nvme(check)
            case .digest(let digest): digest.update(bytes)
            case nil: break
            }
        }
    }

    /// Sets the MD5 of all bytes, which was computed elsewhere.
    func setMD5(_ value: [UInt8]) { givenMD5 = value }

    /// The digests of all bytes; do not call `update` afterwards.
    package func finish() -> Values {
        let sha256 = sha256?.finish()
        let value: [UInt8]? =
            switch checksum {
            case .crc32(let check): check.bytes
            case .crc64nvme(let check): check.bytes
            case .digest(let digest): digest.finish()
            case nil: algorithm == .sha256 ? sha256 : nil
            }
        return Values(
            count: count,
            md5: givenMD5 ?? md5.finish(),
            crc64: crc64.value,
            checksum: value,
            sha256: sha256,
            sha1: sha1?.finish()
        )
    }
}
