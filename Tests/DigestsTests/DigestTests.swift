import Bytes
import CSystem
import Testing

@testable import Digests

@Suite("Digests", .timeLimit(.minutes(10)))
struct DigestTests {
    /// RFC 1321 §A.5, FIPS 180-4 (the examples of NIST's "Secure Hashing" pages).
    static let published: [(algorithm: DigestAlgorithm, text: String, digest: String)] = [
        (.md5, "", "d41d8cd98f00b204e9800998ecf8427e"),
        (.md5, "a", "0cc175b9c0f1b6a831c399e269772661"),
        (.md5, "abc", "900150983cd24fb0d6963f7d28e17f72"),
        (.md5, "message digest", "f96b697d7cb7938d525a2f31aaf161d0"),
        (.md5, "abcdefghijklmnopqrstuvwxyz", "c3fcd3d76192e4007dfb496cca67e13b"),
        (
            .md5, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
            "d174ab98d277d9f5a5611c2c9f419d9f"
        ),
        (.md5, String(repeating: "1234567890", count: 8), "57edf4a22be3c955ac49da2e2107b67a"),
        (.sha1, "", "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
        (.sha1, "abc", "a9993e364706816aba3e25717850c26c9cd0d89d"),
        (
            .sha1, "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
            "84983e441c3bd26ebaae4aa1f95129e5e54670f1"
        ),
        (.sha1, String(repeating: "a", count: 1_000_000), "34aa973cd4c4daa4f61eeb2bdbad27316534016f"),
        (.sha256, "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        (.sha256, "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        (
            .sha256, "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
        ),
        (
            .sha256, String(repeating: "a", count: 1_000_000),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"
        ),
        (
            .sha512, "abc",
            "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
                + "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f"
        ),
        (
            .sha512, String(repeating: "a", count: 1_000_000),
            "e718483d0ce769644e2e42c7bc15b4638e1f98b13b2044285632a803afa973eb"
                + "de0ff244877ea60a4cb0432ce577c31beb009c5c2c49aa2e4eadb217ad8cc09b"
        ),
        (.crc32c, "", "00000000"),
        (.crc32c, "123456789", "e3069283"),
    ]

    @Test("digests match published values", arguments: published)
    func matchesPublished(_ vector: (algorithm: DigestAlgorithm, text: String, digest: String)) {
        #expect(Hexadecimal.encode(Digest.hash(vector.text.utf8, vector.algorithm)) == vector.digest)
        #expect(Hexadecimal.encode(Digest.hash(Array(vector.text.utf8), vector.algorithm)) == vector.digest)
    }

    /// RFC 3720 §B.4 prints the least significant byte first; here the most significant byte is first.
    static let castagnoli: [(bytes: [UInt8], digest: String)] = [
        ([UInt8](repeating: 0, count: 32), "8a9136aa"),
        ([UInt8](repeating: 0xFF, count: 32), "62a8ab43"),
        ([UInt8](0..<32), "46dd794e"),
        ((0..<32).reversed(), "113fdb5c"),
        (
            Hexadecimal.decode(
                "01c000000000000000000000000000001400000000000400000000140000001828000000000000000200000000000000"
            ) ?? [],
            "d9963a56"
        ),
    ]

    @Test("CRC-32C matches the vectors of RFC 3720 §B.4", arguments: castagnoli)
    func matchesCastagnoli(_ vector: (bytes: [UInt8], digest: String)) {
        #expect(Hexadecimal.encode(Digest.hash(vector.bytes, .crc32c)) == vector.digest)
    }

    @Test("non-contiguous bytes have the same digest")
    func lazyBytes() {
        let bytes = (0..<1000).lazy.map { UInt8(truncatingIfNeeded: $0 &* 31) }
        for algorithm in DigestAlgorithm.allCases {
            #expect(Digest.hash(bytes, algorithm) == Digest.hash(Array(bytes), algorithm))
        }
    }

    @Test("the digest does not depend on how the bytes are split", arguments: DigestAlgorithm.allCases)
    func splits(_ algorithm: DigestAlgorithm) {
        let bytes = (0..<257).map { UInt8(truncatingIfNeeded: $0 &* 167 &+ 13) }
        let whole = Digest.hash(bytes, algorithm)
        #expect(whole.count == algorithm.byteCount)
        for step in [1, 2, 3, 5, 7, 8, 9, 64, 100, 256, 257] {
            let running = RunningDigest(algorithm)
            for start in stride(from: 0, to: bytes.count, by: step) {
                running.update(Array(bytes[start..<min(start + step, bytes.count)]))
                running.update([])
            }
            #expect(running.finish() == whole, "step \(step)")
        }
    }

    @Test("a running digest without input is the digest of no bytes", arguments: DigestAlgorithm.allCases)
    func nothing(_ algorithm: DigestAlgorithm) {
        let running = RunningDigest(algorithm)
        #expect(running.finish() == Digest.hash([], algorithm))
        #expect(running.finish() == Digest.hash([], algorithm))
    }

    @Test("the checksum is right at every alignment")
    func alignment() {
        let bytes = (0..<64).map { UInt8($0) }
        // Bit by bit, as RFC 3720 defines it.
        func reference(_ bytes: some Sequence<UInt8>) -> UInt32 {
            var crc: UInt32 = 0xFFFF_FFFF
            for byte in bytes {
                crc ^= UInt32(byte)
                for _ in 0..<8 { crc = crc & 1 == 1 ? crc >> 1 ^ 0x82F6_3B78 : crc >> 1 }
            }
            return ~crc
        }
        for start in 0..<16 {
            for end in start...64 {
                let expected = withUnsafeBytes(of: reference(bytes[start..<end]).bigEndian) { Array($0) }
                #expect(Digest.hash(bytes[start..<end], .crc32c) == expected)
            }
        }
    }

    @Test("equal bytes are equal, others are not")
    func comparison() {
        #expect(constantTimeEquals([1, 2, 3], [1, 2, 3]))
        #expect(constantTimeEquals([], []))
        #expect(!constantTimeEquals([1, 2, 3], [1, 2, 4]))
        #expect(!constantTimeEquals([0, 2, 3], [1, 2, 3]))
        #expect(!constantTimeEquals([1, 2, 3], [1, 2]))
        #expect(!constantTimeEquals([1], []))
        #expect(constantTimeEquals("abc".utf8, Array("abc".utf8)))
    }

    @Test("random bytes have the requested size and differ")
    func random() {
        #expect(SecureRandom.bytes(0).isEmpty)
        #expect(SecureRandom.bytes(33).count == 33)
        #expect(Set((0..<100).map { _ in SecureRandom.bytes(16) }).count == 100)
    }

    @Test("CRC-32C by the processor's instruction matches tables, and resumes at any byte")
    func castagnoliByTables() {
        let bytes = (0..<20_000).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 3) }
        // From three times 2048 bytes on, lanes are used.
        for count in [0, 1, 7, 8, 9, 63, 64, 65, 1000, 4099, 6143, 6144, 6152, 12_288, 20_000] {
            for start in 0..<min(9, count + 1) {
                let piece = Array(bytes[start..<count])
                let byTables = ~piece.withUnsafeBytes { csys_crc32c_by_tables(0xFFFF_FFFF, $0.baseAddress, $0.count) }
                var whole = CRC32C()
                whole.update(piece)
                #expect(whole.value == byTables)
                var first = CRC32C()
                first.update(Array(piece.prefix(piece.count / 3)))
                var rest = CRC32C(resuming: first.value)
                rest.update(Array(piece.dropFirst(piece.count / 3)))
                #expect(rest.value == byTables)
            }
        }
    }

    @Test("four messages in parallel have the same MD5s as one by one, whatever their lengths")
    func fourBesideEachOther() {
        let bytes = (0..<1024).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 3) }
        var md5 = ParallelMD5()
        // Lanes are reused by messages of other lengths.
        for lengths in [[0, 1, 55, 56], [63, 64, 65, 119], [120, 128, 1000, 1024], [5, 640, 64, 0]] {
            let messages = lengths.enumerated().map { Array(bytes.dropFirst($0.offset).prefix($0.element)) }
            for start in stride(from: 0, to: 1024, by: 64) {
                withPointers(messages) { pointers in
                    let pieces = pointers.map { $0.count >= start + 64 ? $0.baseAddress.map { $0 + start } : nil }
                    md5.update(pieces, count: 64)
                }
            }
            for (lane, message) in messages.enumerated() {
                let rest = Array(message[(message.count / 64 * 64)...])
                let found = rest.withUnsafeBytes { md5.finish(lane, rest: $0) }
                #expect(found == Digest.hash(message, .md5), "\(message.count) bytes in lane \(lane)")
            }
        }
    }

    private func withPointers(_ messages: [[UInt8]], _ body: ([UnsafeRawBufferPointer]) -> Void) {
        messages[0].withUnsafeBytes { first in
            messages[1].withUnsafeBytes { second in
                messages[2].withUnsafeBytes { third in
                    messages[3].withUnsafeBytes { fourth in body([first, second, third, fourth]) }
                }
            }
        }
    }

    @Test("MD5 with this processor's instructions matches the portable version")
    func portableMD5() {
        let bytes = (0..<4 * 640).map { UInt8(truncatingIfNeeded: $0 &* 167 &+ $0 >> 5) }
        typealias Registers = (UInt32, UInt32, UInt32, UInt32)
        let start: [UInt32] = (0..<16).map { 0x6745_2301 &* $0 &+ 77 }
        func run(
            _ advance: (UnsafeMutablePointer<Registers>?, [UnsafePointer<UInt8>?], Int) -> Void
        ) -> [UInt32] {
            var state = start
            state.withUnsafeMutableBytes { raw in
                bytes.withUnsafeBufferPointer { bytes in
                    let messages = (0..<4).map { lane in bytes.baseAddress.map { $0 + 640 * lane } }
                    advance(raw.baseAddress?.assumingMemoryBound(to: Registers.self), messages, 10)
                }
            }
            return state
        }
        let found = run { csys_md5_four($0, $1, $2) }
        #expect(found == run { csys_md5_four_portable($0, $1, $2) })
        #expect(found != start)
    }
}
