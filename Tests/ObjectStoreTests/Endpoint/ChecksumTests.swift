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

@Suite("Checksums that S3 adds, and those of parts", .timeLimit(.minutes(10)))
struct ChecksumTests {
    private static let hello = Array("hello".utf8)
    private static let field: FieldName = "x-amz-checksum-crc64nvme"
    private static let type: FieldName = "x-amz-checksum-type"
    private static let asking: HTTPFields = ["x-amz-checksum-mode": "ENABLED"]
    private static let administrator = ObjectBench.administrator

    private func sum(_ bytes: [UInt8]) -> String {
        var check = CRC64NVME()
        check.update(bytes)
        return Base64.encode(check.bytes)
    }

    private func head(_ bench: ObjectBench, _ key: String, _ query: String = "") async throws -> Response {
        try await bench.send("HEAD", "/bucket-1/\(key)\(query)", Self.administrator, Self.asking)
    }

    /// Stores parts and completes the upload.
    private func join(
        _ pieces: [[UInt8]],
        _ bench: ObjectBench,
        _ id: String,
        _ fields: (_ piece: [UInt8]) -> HTTPFields = { _ in [:] },
        completing expectation: HTTPFields = [:]
    ) async throws -> Response {
        var tags = ""
        for (index, piece) in pieces.enumerated() {
            let target = "/bucket-1/p?partNumber=\(index + 1)&uploadId=\(id)"
            let part = try await bench.send("PUT", target, Self.administrator, fields(piece), content: piece)
            #expect(part.outcome == "200", "\(part.text ?? "")")
            // Nobody asked for it.
            #expect(part.fields[Self.field] == nil)
            tags += "<Part><PartNumber>\(index + 1)</PartNumber><ETag>\(part.fields["ETag"] ?? "")</ETag></Part>"
        }
        let listed = try await bench.send("GET", "/bucket-1/p?uploadId=\(id)")
        #expect(listed.text?.contains("NVME") == false && listed.element("Size") != nil)
        let document = Array("<CompleteMultipartUpload>\(tags)</CompleteMultipartUpload>".utf8)
        let target = "/bucket-1/p?uploadId=\(id)"
        return try await bench.send("POST", target, Self.administrator, expectation, content: document)
    }

    @Test("an object without a checksum gets CRC64NVME, for those who ask for it")
    func usual() async throws {
        let bench = try await ObjectBench()
        let put = try await bench.send("PUT", "/bucket-1/k", content: Self.hello)
        #expect(put.fields[Self.field] == sum(Self.hello) && put.fields[Self.type] == "FULL_OBJECT")
        #expect(try await head(bench, "k").fields[Self.field] == sum(Self.hello))
        #expect(try await head(bench, "k").fields[Self.type] == "FULL_OBJECT")
        let get = try await bench.send("GET", "/bucket-1/k", Self.administrator, Self.asking)
        #expect(get.fields[Self.field] == sum(Self.hello))
        #expect(try await bench.send("GET", "/bucket-1/k").fields[Self.field] == nil)
        let ranged = try await bench.send(
            "GET",
            "/bucket-1/k",
            Self.administrator,
            ["x-amz-checksum-mode": "ENABLED", "Range": "bytes=0-1"]
        )
        #expect(ranged.fields[Self.field] == nil)
        let page = try await bench.send("GET", "/bucket-1?list-type=2")
        #expect(page.element("ChecksumAlgorithm") == "CRC64NVME" && page.element("ChecksumType") == "FULL_OBJECT")
        let attributes = try await bench.send(
            "GET",
            "/bucket-1/k?attributes",
            Self.administrator,
            ["x-amz-object-attributes": "Checksum"]
        )
        #expect(attributes.element("ChecksumCRC64NVME") == sum(Self.hello))
        // A copy has the algorithm of its source, or the one that is asked for.
        let source: HTTPFields = ["x-amz-copy-source": "bucket-1/k"]
        let copied = try await bench.send("PUT", "/bucket-1/copy", Self.administrator, source)
        #expect(copied.element("ChecksumCRC64NVME") == sum(Self.hello))
        var other = source
        other["x-amz-checksum-algorithm"] = "SHA256"
        let sha256 = try await bench.send("PUT", "/bucket-1/sha256", Self.administrator, other)
        let expected = Base64.encode(Digest.hash(Self.hello, .sha256))
        #expect(sha256.element("ChecksumSHA256") == expected && sha256.element("ChecksumCRC64NVME") == nil)
        let again: HTTPFields = ["x-amz-copy-source": "bucket-1/sha256"]
        let same = try await bench.send("PUT", "/bucket-1/again", Self.administrator, again)
        #expect(same.element("ChecksumSHA256") == expected)
        // What the client chose takes its place.
        let own: HTTPFields = ["x-amz-checksum-sha256": expected]
        let chosen = try await bench.send("PUT", "/bucket-1/k", Self.administrator, own, content: Self.hello)
        #expect(chosen.fields["x-amz-checksum-sha256"] == expected && chosen.fields[Self.field] == nil)
        #expect(try await head(bench, "k").fields[Self.field] == nil)
    }

    @Test("the objects of other vendors' clients get none", arguments: [Signature.ossV4, .cos])
    func others(_ signature: Signature) async throws {
        let bench = try await ObjectBench()
        let put = try await bench.send("PUT", "/bucket-1/k", by: signature, content: Self.hello)
        #expect(put.outcome == "200" && put.fields[Self.field] == nil)
        #expect(try await head(bench, "k").fields[Self.field] == nil)
    }

    @Test("an object of parts without checksums gets the CRC64NVME of all bytes")
    func parts() async throws {
        let bench = try await ObjectBench()
        let pieces = [[UInt8](repeating: 3, count: 5 << 20), Self.hello]
        let whole = sum(pieces[0] + pieces[1])
        let begun = try await bench.send("POST", "/bucket-1/p?uploads")
        #expect(begun.fields["x-amz-checksum-algorithm"] == nil)
        let id = try #require(begun.element("UploadId"))
        // The client can name the checksum at the end; a wrong one costs no parts.
        let wrong = try await join(pieces, bench, id, completing: [Self.field: sum(pieces[0])])
        #expect(wrong.outcome == "400 BadDigest")
        let done = try await join(pieces, bench, id, completing: [Self.field: whole])
        #expect(done.element("ChecksumCRC64NVME") == whole && done.element("ChecksumType") == "FULL_OBJECT")
        #expect(try await head(bench, "p").fields[Self.field] == whole)
        // Only a composite checksum has parts.
        #expect(try await head(bench, "p", "?partNumber=1").fields[Self.field] == nil)
        let media = try #require(try await bench.services.objects.object(ObjectName(bucket: "bucket-1", key: "p")))
        #expect(media.attributes?.isChecksumUsual == nil && media.attributes?.partChecksums == nil)
    }

    @Test("parts with checksums of their own leave the object without one")
    func mixed() async throws {
        let bench = try await ObjectBench()
        let id = try await bench.begin("p")
        let done = try await join([Self.hello], bench, id) { piece in
            ["x-amz-checksum-sha256": Base64.encode(Digest.hash(piece, .sha256))]
        }
        #expect(done.outcome == "200" && done.element("ChecksumType") == nil)
        #expect(try await head(bench, "p").fields[Self.type] == nil)
    }

    @Test("an upload that is not completed after all has no checksum that nobody asked for")
    func reopened() {
        var attributes = ObjectAttributes(checksum: ObjectChecksum(.crc64nvme, value: [1]))
        attributes.isChecksumUsual = true
        attributes.takeBackCompletion()
        #expect(attributes == ObjectAttributes())
        attributes.checksum = ObjectChecksum(.sha256, isComposite: true)
        attributes.partChecksums = Data([1])
        attributes.takeBackCompletion()
        #expect(attributes == ObjectAttributes(checksum: ObjectChecksum(.sha256, isComposite: true)))
    }

    @Test("a part of a composite checksum is returned with its own", arguments: ["CRC32", "SHA256"])
    func composite(_ name: String) async throws {
        let bench = try await ObjectBench()
        let pieces = [[UInt8](repeating: 3, count: 5 << 20), Self.hello]
        let fields: HTTPFields = ["x-amz-checksum-algorithm": name]
        let begun = try await bench.send("POST", "/bucket-1/p?uploads", Self.administrator, fields)
        let id = try #require(begun.element("UploadId"))
        let done = try await join(pieces, bench, id)
        let algorithm = try #require(ObjectChecksum.Algorithm(s3Name: name))
        #expect(done.element(algorithm.s3Element)?.hasSuffix("-2") == true)
        let sums = pieces.map { piece in
            let digests = ObjectDigests(algorithm)
            digests.update(piece)
            return Base64.encode(digests.finish().checksum ?? [])
        }
        for (index, sum) in sums.enumerated() {
            for method in ["HEAD", "GET"] {
                let target = "/bucket-1/p?partNumber=\(index + 1)"
                let part = try await bench.send(method, target, Self.administrator, Self.asking)
                #expect(part.outcome == "206" && part.fields[algorithm.s3Field] == sum)
                #expect(part.fields[Self.type] == "COMPOSITE")
                #expect(try await bench.send(method, target).fields[algorithm.s3Field] == nil)
            }
        }
        let attributes = try await bench.send(
            "GET",
            "/bucket-1/p?attributes",
            Self.administrator,
            ["x-amz-object-attributes": "ObjectParts"]
        )
        for sum in sums {
            #expect(attributes.text?.contains("<\(algorithm.s3Element)>\(sum)</\(algorithm.s3Element)>") == true)
        }
        #expect(try await head(bench, "p").fields[algorithm.s3Field] == done.element(algorithm.s3Element))
    }

    @Test("checksums of very many parts are not kept")
    func limit() {
        func kept(_ count: Int) -> Int? {
            let parts = (1...count).map {
                PartRecord(
                    number: $0,
                    size: 1,
                    md5: [],
                    crc64: 0,
                    checksum: [UInt8](repeating: 1, count: 32),
                    location: "",
                    storedAt: .distantPast
                )
            }
            return MultipartDigests.kept(ObjectChecksum(.sha256, isComposite: true), of: parts)?.count
        }
        #expect(kept(2048) == 64 << 10 && kept(2049) == nil)
    }
}

@Suite("Chunks of aws-chunked", .timeLimit(.minutes(10)))
struct SmallChunkTests {
    private func send(_ sizes: [Int], isPart: Bool) async throws -> Response {
        let bench = try await ObjectBench()
        let payload = SigV4Payload.unsignedChunksAndTrailers
        let target = isPart ? "/bucket-1/k?partNumber=1&uploadId=\(try await bench.begin("k"))" : "/bucket-1/k"
        let fields: HTTPFields = [
            "x-amz-decoded-content-length": String(sizes.reduce(0, +)), "x-amz-content-sha256": payload.text,
        ]
        var head = try s3Signed(
            "PUT",
            target,
            ObjectBench.administrator,
            fields: fields,
            payload: payload,
            at: bench.clock.now
        )
        var encoder = AWSChunkedEncoder(signer: nil)
        var content: [UInt8] = []
        for size in sizes { content += encoder.chunk([UInt8](repeating: 1, count: size)) }
        content += encoder.end(trailers: [])
        head.fields["Content-Length"] = String(content.count)
        return await bench.send(head, content)
    }

    @Test("only the last one may have fewer than 8192 bytes", arguments: [false, true])
    func small(isPart: Bool) async throws {
        for sizes in [[8192, 1], [1], [], [70_000, 8192, 8191]] {
            #expect(try await send(sizes, isPart: isPart).outcome == "200", "\(sizes)")
        }
        for (sizes, number) in [([8191, 1], 1), ([8192, 100, 8192], 2), ([1, 1, 1], 1)] {
            let refusal = try await send(sizes, isPart: isPart)
            #expect(refusal.outcome == "403 InvalidChunkSizeError", "\(sizes)")
            #expect(refusal.element("Chunk") == String(number))
            #expect(refusal.element("BadChunkSize") == String(sizes[number - 1]))
        }
    }
}
