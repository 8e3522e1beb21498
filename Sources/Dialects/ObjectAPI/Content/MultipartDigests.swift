internal import Bytes
internal import Digests
package import UploadCore

/// What is told of an object that was made of parts, from what is known of the parts; without their bytes.
package enum MultipartDigests {
    /// The entity tag: the MD5 of the MD5s of the parts, `-` and their number.
    ///
    /// - Parameter md5s: In their order, 16 bytes each.
    /// - Returns: Without quotes.
    package static func entityTag(_ md5s: [[UInt8]]) -> String {
        "\(Hexadecimal.encode(Digest.hash(md5s.flatMap { $0 }, .md5)))-\(md5s.count)"
    }

    /// CRC-64/XZ of all bytes.
    package static func crc64(_ parts: [(crc64: UInt64, size: Int64)]) -> UInt64 {
        parts.reduce(0) { CRC64XZ.combine($0, $1.crc64, count: $1.size) }
    }

    /// The checksum of the checksums of the parts ("Composite checksums", Amazon S3 User Guide); `- N` is no part of it.
    ///
    /// - Parameters:
    ///   - algorithm: Theirs.
    ///   - checksums: In their order.
    /// - Returns: As many bytes as the algorithm gives.
    package static func composite(_ algorithm: ObjectChecksum.Algorithm, _ checksums: [[UInt8]]) -> [UInt8] {
        let digests = ObjectDigests(algorithm)
        digests.update(checksums.flatMap { $0 })
        return digests.finish().checksum ?? []
    }

    /// The checksum of all bytes ("Full object checksums", Amazon S3 User Guide).
    ///
    /// - Parameters:
    ///   - algorithm: Theirs.
    ///   - parts: In their order, each checksum with the bytes that it is of.
    /// - Returns: `nil` for an algorithm that can not tell, or a checksum of another length.
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

    /// The checksum that a completed upload has, if each part has one.
    ///
    /// - Parameters:
    ///   - kind: That the upload was created with.
    ///   - parts: In their order.
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
