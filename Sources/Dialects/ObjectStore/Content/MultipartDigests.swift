internal import Bytes
internal import Digests
package import Foundation
internal import UploadCore
package import UploadModel

/// Digests of an object made of parts, computed from what is known of the parts, without reading their bytes.
package enum MultipartDigests {
    /// The entity tag: the MD5 of the MD5s of the parts, `-` and their number.
    ///
    /// - Parameter md5s: In part order, 16 bytes each.
    /// - Returns: Without quotes.
    package static func entityTag(_ md5s: [[UInt8]]) -> String {
        "\(Hexadecimal.encode(Digest.hash(md5s.flatMap { $0 }, .md5)))-\(md5s.count)"
    }

    /// CRC-64/XZ of all bytes.
    package static func crc64(_ parts: [(crc64: UInt64, size: Int64)]) -> UInt64 {
        parts.reduce(0) { CRC64XZ.combine($0, $1.crc64, count: $1.size) }
    }

    /// The checksum of the parts' checksums ("Composite checksums", Amazon S3 User Guide); without the suffix `-N`.
    ///
    /// - Parameters:
    ///   - algorithm: Algorithm of the checksums.
    ///   - checksums: In part order.
    /// - Returns: As many bytes as the algorithm produces.
    package static func composite(_ algorithm: ObjectChecksum.Algorithm, _ checksums: [[UInt8]]) -> [UInt8] {
        let digests = ObjectDigests(algorithm)
        digests.update(checksums.flatMap { $0 })
        return digests.finish().checksum ?? []
    }

    /// The checksum of all bytes ("Full object checksums", Amazon S3 User Guide).
    ///
    /// - Parameters:
    ///   - algorithm: Algorithm of the checksums.
    ///   - parts: In part order, each checksum with its number of bytes.
    /// - Returns: `nil` if the algorithm does not support it, or a checksum has the wrong length.
    package static func fullObject(
        _ algorithm: ObjectChecksum.Algorithm,
        _ parts: [(checksum: [UInt8], size: Int64)]
    ) -> [UInt8]? {
        guard parts.allSatisfy({ $0.checksum.count == algorithm.byteCount }) else { return nil }
        switch algorithm {
        case .crc32: return combined(CRC32.self, parts)
        case .crc32c: return combined(CRC32C.self, parts)
        case .crc64nvme: return combined(CRC64NVME.self, parts)
        case .sha1, .sha256: return nil
        }
    }

    /// The checksum of a completed upload, if every part has one.
    ///
    /// - Parameters:
    ///   - kind: The checksum type chosen at creation.
    ///   - parts: In part order.
    /// - Returns: `nil` if a part has none.
    package static func checksum(_ kind: ObjectChecksum, of parts: [PartRecord]) -> ObjectChecksum? {
        var checksums: [[UInt8]] = []
        for part in parts {
            guard let checksum = part.checksum else { return nil }
            checksums.append(checksum)
        }
        var result = kind
        if kind.isComposite {
            result.value = composite(kind.algorithm, checksums)
        } else {
            result.value = fullObject(kind.algorithm, zip(checksums, parts).map { ($0, $1.size) })
        }
        return result.value == nil ? nil : result
    }

    /// The checksums of the parts, for requests for one part: only those of a composite checksum are returned.
    ///
    /// - Returns: All in order; `nil` if they would make the record of the object too large.
    package static func kept(_ checksum: ObjectChecksum, of parts: [PartRecord]) -> Data? {
        guard checksum.isComposite, parts.count * checksum.algorithm.byteCount <= mostKept else { return nil }
        return Data(parts.compactMap(\.checksum).joined())
    }

    /// Bytes: 10,000 parts by CRC-32, 2,048 by SHA-256.
    private static let mostKept = 64 << 10

    private static func combined<Variant>(
        _: CyclicRedundancyCheck<Variant>.Type,
        _ parts: [(checksum: [UInt8], size: Int64)]
    ) -> [UInt8] {
        typealias Check = CyclicRedundancyCheck<Variant>
        let value = parts.reduce(0 as Variant.Value) { sum, part in
            let next = part.checksum.reduce(0 as Variant.Value) { $0 << 8 | Variant.Value(truncatingIfNeeded: $1) }
            return Check.combine(sum, next, count: part.size)
        }
        return Check.bytes(of: value)
    }
}
