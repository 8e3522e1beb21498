import Bytes
import Digests
import Foundation
import HTTPWire
import Signing
import SluiceTesting
import Testing
import UploadCore
import UploadModel

@testable import ObjectStore

@Suite("Digests of multipart objects", .timeLimit(.minutes(10)))
struct MultipartDigestTests {
    private static func part(_ bytes: [UInt8], _ number: Int, _ algorithm: ObjectChecksum.Algorithm?) -> PartRecord {
        let digests = ObjectDigests(algorithm)
        digests.update(bytes)
        let values = digests.finish()
        return PartRecord(
            number: number,
            size: values.count,
            md5: values.md5,
            crc64: values.crc64,
            checksum: values.checksum,
            location: "x",
            storedAt: noon
        )
    }

    /// "1234" and "56789", computed by Python's hashlib and zlib; the checksums of the whole are the check values of their
    /// algorithms.
    @Test(
        "known values",
        arguments: [
            (.sha256, true, "bnRBBTileCDVQlLT/6fZJGrqcf3O3X6G8kD8V7zZqxQ=-2"),
            (.sha1, true, "ZPMlzVAPwgmwAy0Yd3tZeXQx43E=-2"), (.crc32, true, "rBMwBw==-2"),
            (.crc32, false, "y/Q5Jg=="), (.crc32c, false, "4waSgw=="), (.crc64nvme, false, "rosUhgp5mIg="),
        ] as [(ObjectChecksum.Algorithm, Bool, String)]
    )
    func vectors(_ algorithm: ObjectChecksum.Algorithm, _ isComposite: Bool, _ text: String) {
        let parts = ["1234", "56789"].enumerated().map { Self.part(Array($1.utf8), $0 + 1, algorithm) }
        let checksum = MultipartDigests.checksum(ObjectChecksum(algorithm, isComposite: isComposite), of: parts)
        #expect(checksum?.text(parts: 2) == text)
        #expect(MultipartDigests.entityTag(parts.map(\.md5)) == "d8399932ce6023ac3365f50fbbcde132-2")
        #expect(MultipartDigests.crc64(parts.map { ($0.crc64, $0.size) }) == 0x995D_C9BB_DF19_39FA)
    }

    @Test("the split into parts does not matter", arguments: ObjectChecksum.Algorithm.allCases)
    func random(_ algorithm: ObjectChecksum.Algorithm) {
        var random = SeededGenerator(seed: 7)
        for _ in 0..<50 {
            var pieces: [[UInt8]] = []
            for _ in 0..<Int.random(in: 1...6, using: &random) {
                let count = Int.random(in: 0...300, using: &random)
                pieces.append((0..<count).map { _ in UInt8.random(in: 0...255, using: &random) })
            }
            let whole = Self.part(pieces.flatMap { $0 }, 1, algorithm)
            let parts = pieces.enumerated().map { Self.part($1, $0 + 1, algorithm) }
            #expect(MultipartDigests.crc64(parts.map { ($0.crc64, $0.size) }) == whole.crc64)
            let full = MultipartDigests.checksum(ObjectChecksum(algorithm), of: parts)
            #expect(full?.value == (algorithm.isCyclic ? whole.checksum : nil))
        }
    }

    @Test("without the checksum of every part there is none")
    func missing() {
        let parts = [Self.part([1], 1, .crc32), Self.part([2], 2, nil)]
        #expect(MultipartDigests.checksum(ObjectChecksum(.crc32), of: parts) == nil)
        #expect(MultipartDigests.fullObject(.crc32, [(checksum: [1, 2], size: 1)]) == nil)
    }

    @Test("the checksum type of a new upload")
    func newUploads() throws {
        func made(_ algorithm: String?, _ type: String?) throws(ObjectError) -> ObjectChecksum? {
            var fields = HTTPFields()
            fields["x-amz-checksum-algorithm"] = algorithm
            fields["x-amz-checksum-type"] = type
            guard let head = try? s3Head("POST", "/bucket-1/a?uploads", fields) else { throw ObjectError(.invalidURI) }
            return try ObjectChecksum.ofNewMultipartUpload(RequestReader(head, .aws))
        }
        #expect(try made(nil, nil) == nil)
        #expect(try made("CRC32", nil) == ObjectChecksum(.crc32, isComposite: true))
        #expect(try made("crc32c", "FULL_OBJECT") == ObjectChecksum(.crc32c))
        #expect(try made("CRC64NVME", nil) == ObjectChecksum(.crc64nvme))
        #expect(try made("SHA256", "COMPOSITE") == ObjectChecksum(.sha256, isComposite: true))
        for (algorithm, type) in [
            ("SHA256", "FULL_OBJECT"), ("SHA1", "FULL_OBJECT"), ("CRC64NVME", "COMPOSITE"), ("MD5", nil),
            (nil, "COMPOSITE"),
        ] {
            #expect(s3Code { () throws(ObjectError) in try made(algorithm, type) } == .invalidRequest)
        }
        #expect(s3Code { () throws(ObjectError) in try made("SHA1", "x") } == .invalidArgument)
    }
}
