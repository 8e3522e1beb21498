import Bytes
import Digests
import Foundation
import HTTPWire
import Testing
import Tus
import UploadModel

@Suite("Digest fields (RFC 9530) with tus", .timeLimit(.minutes(10)))
struct TusDigestTests {
    private let content = bytes("hello world")

    private static func digest(_ bytes: [UInt8], _ algorithm: DigestAlgorithm = .sha256) -> String {
        let name = algorithm == .sha256 ? "sha-256" : "sha-512"
        return "\(name)=:\(Base64.encode(Digest.hash(bytes, algorithm))):"
    }

    private func body(_ trailers: HTTPFields? = nil) -> ScriptedBody {
        ScriptedBody([content], announced: trailers == nil ? 11 : nil, trailers: trailers ?? HTTPFields())
    }

    private func failure(_ response: Response) -> String {
        "\(response.status.code) " + response.text.prefix { $0 != ":" }
    }

    @Test("the content of a PATCH has the announced digest, or nothing of it is kept", arguments: [false, true])
    func contentDigest(inTrailer: Bool) async throws {
        let bench = try TusBench()
        let path = try await bench.create(length: 11)
        for (digest, status) in [
            (Self.digest([1]), 460), (Self.digest([1], .sha512), 460), (Self.digest(content), 204),
        ] {
            let announced: HTTPFields = inTrailer ? ["Trailer": "Content-Digest"] : ["Content-Digest": digest]
            let response = try await bench.respond(
                "PATCH \(path)",
                TusBench.append(at: 0, announced),
                body(inTrailer ? ["Content-Digest": digest] : nil)
            )
            #expect(response.status.code == status, "\(response.text)")
            #expect(
                try await bench.respond("HEAD \(path)", TusBench.version).offset == (status == 204 ? "11" : "0")
            )
        }
    }

    @Test("the content of a creation has the announced digest, or there is no upload")
    func contentDigestOfCreation() async throws {
        let bench = try TusBench()
        let type: HTTPFields = ["Content-Type": "application/offset+octet-stream"]
        for (digest, status) in [(Self.digest([1]), 460), (Self.digest(content), 201)] {
            var fields = TusBench.creation(length: 11, type)
            fields["Content-Digest"] = digest
            #expect(try await bench.respond("POST /files", fields, body()).status.code == status)
            #expect(try await bench.liveUploads().count == (status == 201 ? 1 : 0))
        }
    }

    @Test("fields that cannot be understood, or contradict each other, are refused")
    func refused() async throws {
        let bench = try TusBench()
        let path = try await bench.create(length: 11)
        let checksum = "sha1 \(Base64.encode(Digest.hash(content, .sha1)))"
        for fields: HTTPFields in [
            ["Content-Digest": "sha-256=abc"], ["Content-Digest": "sha-256=:YQ==:"], ["Content-Digest": "("],
            ["Content-Digest": Self.digest(content), "Upload-Checksum": checksum],
        ] {
            let response = try await bench.respond("PATCH \(path)", TusBench.append(at: 0, fields), body())
            #expect(failure(response) == "400 ERR_INVALID_REQUEST")
        }
        let response = try await bench.respond(
            "POST /files",
            TusBench.creation(length: 11, ["Repr-Digest": "sha-256=1"])
        )
        #expect(failure(response) == "400 ERR_INVALID_REQUEST")
        // What proves nothing is ignored.
        let unknown: HTTPFields = ["Content-Digest": "md5=:YQ==:", "Upload-Checksum": checksum]
        #expect(try await bench.respond("PATCH \(path)", TusBench.append(at: 0, unknown), body()).status == 204)
    }

    @Test("an upload has the digest that its creation announces, however its bytes come", arguments: [false, true])
    func wholeDigest(withCreation: Bool) async throws {
        let bench = try TusBench()
        for (digest, isRight) in [(Self.digest([1]), false), (Self.digest(content), true)] {
            var fields = TusBench.creation(length: 11, ["Repr-Digest": digest])
            var response: Response
            if withCreation {
                fields["Content-Type"] = "application/offset+octet-stream"
                response = try await bench.respond("POST /files", fields, body())
            } else {
                let path = try #require(try await bench.respond("POST /files", fields).path)
                response = try await bench.respond("PATCH \(path)", TusBench.append(at: 0), body())
            }
            if isRight {
                #expect(response.status == (withCreation ? 201 : 204))
            } else {
                #expect(failure(response) == "400 ERR_DIGEST_MISMATCH")
            }
            #expect(try await bench.liveUploads().filter { $0.state == .completed }.count == (isRight ? 1 : 0))
        }
    }

    @Test("a final upload has its digest when its parts are joined")
    func final() async throws {
        let bench = try TusBench()
        var partial = TusBench.creation(length: 11, ["Upload-Concat": "partial"])
        partial["Content-Type"] = "application/offset+octet-stream"
        let path = try #require(try await bench.respond("POST /files", partial, body()).path)
        for (digest, isRight) in [(Self.digest([1]), false), (Self.digest(content + content), true)] {
            let fields: HTTPFields = [
                "Tus-Resumable": "1.0.0", "Authorization": "Bearer upload-key",
                "Upload-Concat": "final;\(path) \(path)", "Repr-Digest": digest,
            ]
            let response = try await bench.respond("POST /files", fields)
            if isRight {
                #expect(response.status == 201, "\(response.text)")
            } else {
                #expect(failure(response) == "400 ERR_DIGEST_MISMATCH")
            }
        }
    }
}
