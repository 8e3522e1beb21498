import Bytes
import Digests
import Testing

@testable import Signing

@Suite("SigV4 chunks", .timeLimit(.minutes(10)))
struct SigV4ChunkTests {
    /// The content of the documentation's examples: 65 KiB of "a", in chunks of 64 KiB.
    static let pieces = [[UInt8](repeating: 0x61, count: 65536), [UInt8](repeating: 0x61, count: 1024)]
    static let trailers = [SigningField("x-amz-checksum-crc32c", "sOO8/Q==")]

    static func seed(_ name: String) throws -> (payload: SigV4Payload, signature: SigV4Signature) {
        let vector = try SigV4Vector.named(name)
        let request = try vector.request()
        return (request.payload, vector.signer.sign(request, at: vector.time).signature)
    }

    static func encode(_ signer: SigV4ChunkSigner?, _ pieces: [[UInt8]], _ trailers: [SigningField]?) -> [UInt8] {
        var encoder = AWSChunkedEncoder(signer: signer)
        return pieces.flatMap { encoder.chunk($0) } + encoder.end(trailers: trailers)
    }

    struct Decoded: Equatable {
        var data: [UInt8] = []
        var trailers: [SigningField] = []
        var consumed = 0
        var verifiedCount: Int64 = 0
        var hasEnded = false
    }

    /// Decodes content in pieces of `size` bytes.
    static func decode(
        _ content: [UInt8],
        _ payload: SigV4Payload,
        _ signature: SigV4Signature,
        length: Int64? = nil,
        size: Int = .max
    ) throws(AWSChunkedFailure) -> Decoded {
        guard var decoder = AWSChunkedDecoder(payload: payload, signature: signature, length: length) else {
            return Decoded()
        }
        var result = Decoded()
        var end = 0
        while true {
            switch try decoder.next(content[result.consumed..<end].span) {
            case .needMore(let consumed):
                result.consumed += consumed
                result.verifiedCount = decoder.verifiedCount
                guard end < content.count else { return result }
                end += min(size, content.count - end)
            case .data(let skip, let count):
                result.consumed += skip
                let data = Array(content[result.consumed..<result.consumed + count])
                decoder.took(data)
                result.data += data
                result.consumed += count
            case .end(let consumed, let trailers):
                result.consumed += consumed
                result.trailers = trailers
                result.verifiedCount = decoder.verifiedCount
                result.hasEnded = true
                return result
            }
        }
    }

    @Test("chunks are signed as in the documentation")
    func documentedChunks() throws {
        var signer = try Self.seed("PUT Object in chunks").signature.chunkSigner
        let hashes = (Self.pieces + [[]]).map { Digest.hash($0, .sha256) }
        #expect(
            hashes.map { signer.sign(sha256: $0) } == [
                "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
                "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
                "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9",
            ]
        )
    }

    /// The documentation's trailer signature, 63bddb24…, does not match its own string to sign; this one does, and
    /// several implementations use it.
    @Test("chunks before trailers, and trailers, are signed as in the documentation")
    func documentedTrailers() throws {
        var signer = try Self.seed("PUT Object in chunks with trailers").signature.chunkSigner
        let hashes = (Self.pieces + [[]]).map { Digest.hash($0, .sha256) }
        #expect(
            hashes.map { signer.sign(sha256: $0) } == [
                "b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2",
                "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7",
                "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992",
            ]
        )
        #expect(
            signer.sign(trailers: Self.trailers)
                == "d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435"
        )
    }

    @Test("trailers are signed as by aws-c-auth, in any order and case")
    func severalTrailers() throws {
        let fields = [("Third", "3rd"), ("first", " 1st"), ("second", "2nd")].map { SigningField($0.0, $0.1) }
        var signer = try Self.seed("PUT Object in chunks").signature.chunkSigner
        for piece in Self.pieces + [[]] { _ = signer.sign(sha256: Digest.hash(piece, .sha256)) }
        #expect(
            signer.sign(trailers: fields) == "df5735bd9f3295cd9386572292562fefc93ba94e80a0a1ddcbd652c4e0a75e6c"
        )
    }

    @Test("the bytes on the wire match the documentation")
    func wire() throws {
        let data = Self.pieces.map { String(decoding: $0, as: UTF8.self) }
        let plain = Self.encode(try Self.seed("PUT Object in chunks").signature.chunkSigner, Self.pieces, nil)
        #expect(
            String(decoding: plain, as: UTF8.self)
                == "10000;chunk-signature=ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648\r\n\(data[0])\r\n"
                + "400;chunk-signature=0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497\r\n\(data[1])\r\n"
                + "0;chunk-signature=b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9\r\n\r\n"
        )
        #expect(plain.count == 66824)
        let seed = try Self.seed("PUT Object in chunks with trailers").signature
        let text = String(decoding: Self.encode(seed.chunkSigner, Self.pieces, Self.trailers), as: UTF8.self)
        #expect(
            text.hasSuffix(
                "0;chunk-signature=2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992\r\n"
                    + "x-amz-checksum-crc32c:sOO8/Q==\r\n"
                    + "x-amz-trailer-signature:d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n\r\n"
            )
        )
        let unsigned = Self.encode(nil, [Array("hello".utf8)], Self.trailers)
        #expect(
            String(decoding: unsigned, as: UTF8.self)
                == "5\r\nhello\r\n0\r\nx-amz-checksum-crc32c:sOO8/Q==\r\n\r\n"
        )
    }

    @Test("the length on the wire is known in advance", arguments: [0, 1, 15, 16, 17, 4095, 4096, 4097, 70000])
    func lengths(_ count: Int) throws {
        let signer = try Self.seed("PUT Object in chunks with trailers").signature.chunkSigner
        for chunk in [1000, 4096] {
            let data = [UInt8](repeating: 1, count: count)
            let pieces = stride(from: 0, to: count, by: chunk).map { Array(data[$0..<min($0 + chunk, count)]) }
            for (signer, trailers) in [(signer, nil), (signer, Self.trailers), (signer, []), (nil, Self.trailers)]
                as [(SigV4ChunkSigner?, [SigningField]?)]
            {
                let length = AWSChunkedEncoder.encodedLength(
                    of: Int64(count),
                    chunk: Int64(chunk),
                    isSigned: signer != nil,
                    trailers: trailers
                )
                #expect(length == Int64(Self.encode(signer, pieces, trailers).count))
            }
        }
    }

    struct Kind: Sendable, CustomTestStringConvertible {
        let payload: SigV4Payload
        let signature: SigV4Signature
        let trailers: [SigningField]?

        var testDescription: String { payload.text }

        var signer: SigV4ChunkSigner? { payload == .unsignedChunksAndTrailers ? nil : signature.chunkSigner }

        func encode(_ pieces: [[UInt8]]) -> [UInt8] { SigV4ChunkTests.encode(signer, pieces, trailers) }

        func decode(
            _ content: [UInt8],
            length: Int64? = nil,
            size: Int = .max
        ) throws(AWSChunkedFailure) -> Decoded {
            try SigV4ChunkTests.decode(content, payload, signature, length: length, size: size)
        }
    }

    static func kinds() throws -> [Kind] {
        let signature = try seed("PUT Object in chunks with trailers").signature
        let trailers = [SigningField("x-amz-checksum-crc32c", "sOO8/Q=="), SigningField("x-amz-meta-z", "a b")]
        return [
            Kind(payload: .signedChunks, signature: try seed("PUT Object in chunks").signature, trailers: nil),
            Kind(payload: .signedChunksAndTrailers, signature: signature, trailers: trailers),
            Kind(payload: .unsignedChunksAndTrailers, signature: signature, trailers: trailers),
        ]
    }

    @Test("content is decoded however it is split", arguments: try kinds())
    func cutting(_ kind: Kind) throws {
        let pieces = [Array("hello, ".utf8), Array("world".utf8), [UInt8](repeating: 13, count: 300)]
        let content = kind.encode(pieces)
        for size in [1, 2, 3, 7, 64, 100, .max] {
            let result = try kind.decode(content + Array("next".utf8), length: 312, size: size)
            #expect(result.data == pieces.flatMap { $0 })
            #expect(result.trailers == kind.trailers ?? [])
            #expect(result.consumed == content.count)
            #expect(result.verifiedCount == 312)
            #expect(result.hasEnded)
        }
        for end in 0..<content.count {
            let result = try kind.decode(Array(content[..<end]), length: 312)
            #expect(!result.hasEnded)
            #expect([0, 7, 12, 312].contains(result.verifiedCount))
        }
        let empty = try kind.decode(kind.encode([]), length: 0)
        #expect(empty.hasEnded && empty.data.isEmpty)
    }

    @Test("trailers whose lines end with LF, and CRLF, are accepted", arguments: try kinds().dropFirst())
    func lineFeeds(_ kind: Kind) throws {
        let text = String(decoding: kind.encode([Array("hello".utf8)]), as: UTF8.self)
        let trailers = kind.trailers ?? []
        let end = trailers.map { "\($0.name):\($0.value)\r\n" }.joined()
        try #require(text.contains(end))
        for lines in [
            trailers.map { "\($0.name):\($0.value)\n" }.joined() + "\r\n",
            trailers.map { "\($0.name):\($0.value)\n\r\n" }.joined(),
            trailers.map { "\($0.name): \($0.value) \r\n" }.joined(),
        ] {
            let content = Array(text.replacing(end, with: lines).utf8)
            for size in [1, .max] {
                let result = try kind.decode(content, size: size)
                #expect(result.hasEnded && result.consumed == content.count)
                #expect(result.trailers == trailers)
            }
        }
        let twice = Array(text.replacing(end, with: end + end).utf8)
        #expect(throws: AWSChunkedFailure.malformed("repeated trailer")) { try kind.decode(twice) }
        let bare = Array(text.replacing(end, with: "\n").utf8)
        #expect(throws: AWSChunkedFailure.malformed("CRLF missing")) { try kind.decode(bare) }
    }

    @Test("a change of any byte is detected", arguments: try kinds().filter { $0.signer != nil })
    func mutations(_ kind: Kind) throws {
        let pieces = [Array("hello, ".utf8), [UInt8](repeating: 7, count: 100)]
        let content = kind.encode(pieces)
        let hexadecimal = Set("abcdef".utf8)
        for index in content.indices {
            for bit: UInt8 in [1, 0x20, 0x40] {
                var changed = content
                changed[index] ^= bit
                // Digits of a size and names of trailers can be in either case.
                let isCase = bit == 0x20 && (hexadecimal.contains(content[index]) || kind.trailers != nil)
                do {
                    let result = try kind.decode(changed)
                    #expect(!result.hasEnded || isCase, "byte \(index), bit \(bit)")
                    if result.hasEnded {
                        #expect(result.data == pieces.flatMap { $0 })
                        #expect(result.trailers == kind.trailers ?? [])
                    }
                } catch {
                    // One of several failures, as expected.
                }
            }
        }
    }

    @Test("the failure has a reason and the number of verified bytes")
    func reasons() throws {
        let kinds = try Self.kinds()
        let content = kinds[1].encode([Array("hello".utf8), Array("world".utf8)])
        func changed(_ old: String, _ new: String) -> [UInt8] {
            Array(String(decoding: content, as: UTF8.self).replacing(old, with: new).utf8)
        }
        func failure(_ content: [UInt8], _ kind: Int = 1, length: Int64? = nil) -> AWSChunkedFailure? {
            do {
                _ = try kinds[kind].decode(content, length: length)
                return nil
            } catch {
                return error
            }
        }
        #expect(failure(content, length: 10) == nil)
        #expect(failure(content, length: 9) == .wrongLength)
        #expect(failure(content, length: 11) == .wrongLength)
        #expect(failure(changed("world", "wOrld")) == .wrongChunkSignature)
        #expect(failure(changed("sOO8", "sOO9")) == .wrongTrailerSignature)
        #expect(failure(changed("x-amz-meta-z:a b\r\n", "")) == .wrongTrailerSignature)
        #expect(failure(Self.encode(kinds[1].signer, [[1]], nil)) == .malformed("trailer signature missing"))
        #expect(failure(kinds[2].encode([[1]])) == .malformed("chunk signature"))
        #expect(failure(content, 2) == .malformed("chunk signature in unsigned content"))
        #expect(
            failure(Array("0\r\nx-amz-trailer-signature:0\r\n\r\n".utf8), 2)
                == .malformed("trailer signature in unsigned content")
        )
        #expect(
            failure(Self.encode(kinds[0].signer, [[1]], Self.trailers), 0)
                == .malformed("trailers in content that announced none")
        )
        for line in ["\r\n", "g\r\n", "-1\r\n", "1 \r\n", "0x1\r\n", "1111111111111111\r\n"] {
            #expect(failure(Array(line.utf8), 2) == .malformed("chunk size"))
        }
        #expect(failure(Array("1\n".utf8) + [1, 13, 10], 2) == .malformed("chunk size"))
        #expect(failure(Array("1\r\nab\r\n".utf8), 2) == .malformed("CRLF missing"))
        #expect(failure([UInt8](repeating: 0x30, count: 200), 2) == .malformed("chunk line too long"))
        #expect(
            failure(Array("0\r\n".utf8) + [UInt8](repeating: 0x61, count: 9000), 2) == .malformed("trailers too large")
        )
        #expect(
            failure(Array(("0\r\n" + (0..<17).map { "a\($0):b\r\n" }.joined()).utf8), 2)
                == .malformed("too many trailers")
        )
        #expect(failure(Array("0\r\na:b\u{0C}\n\r\n".utf8), 2) == .malformed("control character in a trailer"))
        for line in [":a\r\n", "a\r\n"] { #expect(failure(Array("0\r\n\(line)".utf8), 2) == .malformed("trailer")) }
        #expect(failure(Array("fffffffffffffff\r\n".utf8), 2) == nil)
    }

    @Test("content that is not in chunks has no decoder")
    func plain() throws {
        let signature = try Self.seed("PUT Object in chunks").signature
        for payload in [SigV4Payload.unsigned, .empty] {
            if AWSChunkedDecoder(payload: payload, signature: signature, length: nil) != nil {
                Issue.record("\(payload.text) has a decoder")
            }
        }
    }

    @Test("the verifier's signature is the seed")
    func seeds() throws {
        let vector = try SigV4Vector.named("PUT Object in chunks")
        let signature = try vector.verify(try vector.signedRequest())
        let content = Self.encode(try Self.seed(vector.name).signature.chunkSigner, Self.pieces, nil)
        #expect(try Self.decode(content, .signedChunks, signature, length: 66560, size: 1000).hasEnded)
    }
}
