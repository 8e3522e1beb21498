import Bytes
import Digests
import Foundation
import HTTPWire
import Signing
import Testing
import UploadCore
import UploadModel

@testable import ObjectStore

@Suite("The endpoint for COS clients", .timeLimit(.minutes(10)))
struct COSEndpointTests {
    private static let hello = (tag: "\"5d41402abc4b2a76b9719d911017c592\"", crc64: "11177612005948864433")

    @Test("an object is stored, read and deleted", arguments: Signature.cosBoth)
    func object(_ signature: Signature) async throws {
        let bench = try await ObjectBench()
        let put = try await bench.send(
            "PUT",
            "/bucket-1/k",
            by: signature,
            ["x-cos-meta-a": "1"],
            content: Array("hello".utf8)
        )
        #expect(put.outcome == "200" && put.fields["ETag"] == Self.hello.tag)
        #expect(put.fields["Content-MD5"] == nil)
        #expect(put.fields["x-cos-hash-crc64ecma"] == Self.hello.crc64 && put.fields["x-cos-request-id"] == "request-1")
        let head = try await bench.send("HEAD", "/bucket-1/k", by: signature)
        #expect(head.fields["x-cos-meta-a"] == "1" && head.fields["x-cos-hash-crc64ecma"] == Self.hello.crc64)
        #expect(try await bench.send("DELETE", "/bucket-1/k", by: signature).outcome == "204")
        let gone = try await bench.send("GET", "/bucket-1/k", by: signature)
        #expect(gone.outcome == "404 NoSuchKey")
        for name in ["Code", "Message", "Resource", "RequestId", "TraceId"] {
            #expect(gone.element(name)?.isEmpty == false, "\(name)")
        }
    }

    @Test("the bucket is in the host, in a field, in the path or nowhere", arguments: Signature.cosBoth)
    func places(_ signature: Signature) async throws {
        let bench = try await ObjectBench()
        let session = try bench.issuer.session(bench.grant(), for: .tencent)
        let places: [(String, HTTPFields)] = [
            ("/bucket-1/a/1", [:]), ("/a/1", ["Host": "bucket-1.s3.example.org"]), ("/a/1", [:]),
            ("/a/1", ["Host": "127.0.0.1:9000"]),
        ]
        for (target, fields) in places {
            let response = try await bench.send("PUT", target, session, by: signature, fields)
            #expect(response.outcome == "200", "\(target) \(fields)")
            #expect(
                try await bench.services.objects.removeObject(ObjectName(bucket: "bucket-1", key: "a/1")),
                "\(target)"
            )
        }
    }

    @Test(
        "behind a proxy, the host that the client signed is in a forwarding field",
        arguments: Signature.cosBoth
    )
    func proxy(_ signature: Signature) async throws {
        let bench = try await ObjectBench()
        let session = try bench.issuer.session(bench.grant(), for: .tencent)
        let host = "bucket-1.cos.ap-x.myqcloud.com"
        var head = try bench.signed("PUT", "/a/1", session, by: signature, ["Host": host], content: [1])
        head.fields["Host"] = "vod.example.org"
        head.fields["Vod-Forward-Cos"] = host
        #expect(await bench.send(head, [1]).outcome == "200")
        #expect(try await bench.services.objects.removeObject(ObjectName(bucket: "bucket-1", key: "a/1")))
    }

    @Test("parts are stored, listed and joined", arguments: Signature.cosBoth)
    func parts(_ signature: Signature) async throws {
        let bench = try await ObjectBench()
        let session = try bench.issuer.session(bench.grant(), for: .tencent)
        let host: HTTPFields = ["Host": "bucket-1.s3.example.org"]
        let pieces = [[UInt8](repeating: 7, count: 1 << 20), Array("hello".utf8)]
        let id = try await bench.begin("/a/k", session, by: signature, host)
        // As the SDKs do before they begin a new one.
        let uploads = try await bench.send("GET", "/?uploads&prefix=a/k", session, by: signature, host)
        #expect(uploads.element("UploadId") == id && uploads.element("NextKeyMarker") == nil)
        for (index, piece) in pieces.enumerated() {
            let target = "/a/k?partNumber=\(index + 1)&uploadId=\(id)"
            let part = try await bench.send("PUT", target, session, by: signature, host, content: piece)
            #expect(part.fields["ETag"] == "\"\(Hexadecimal.encode(Digest.hash(piece, .md5)))\"")
        }
        let listed = try await bench.send("GET", "/a/k?uploadId=\(id)", session, by: signature, host)
        // Some clients go on as long as there is one.
        #expect(listed.element("NextPartNumberMarker") == nil && listed.element("IsTruncated") == "false")
        let document =
            "<CompleteMultipartUpload>"
            + pieces.enumerated().map { index, piece in
                let tag = Hexadecimal.encode(Digest.hash(piece, .md5))
                return "<Part><PartNumber>\(index + 1)</PartNumber><ETag>&quot;\(tag)&quot;</ETag></Part>"
            }.joined() + "</CompleteMultipartUpload>"
        let done = try await bench.send(
            "POST",
            "/a/k?uploadId=\(id)",
            session,
            by: signature,
            host,
            content: Array(document.utf8)
        )
        #expect(done.element("ETag")?.hasSuffix("-2&quot;") == true)
        #expect(done.fields["x-cos-hash-crc64ecma"] == crc64(pieces[0] + pieces[1]))
    }

    @Test("a copy source contains a host")
    func copy() async throws {
        let bench = try await ObjectBench()
        #expect(try await bench.send("PUT", "/bucket-1/a", by: .cos, content: Array("hello".utf8)).outcome == "200")
        let source: HTTPFields = [
            "x-cos-copy-source": "bucket-1.cos.ap-x.myqcloud.com/a", "x-cos-metadata-directive": "Replaced",
            "x-cos-meta-b": "2",
        ]
        let copy = try await bench.send("PUT", "/bucket-1/b", by: .cos, source)
        #expect(copy.element("ETag") == Self.hello.tag.replacing("\"", with: "&quot;"))
        #expect(try await bench.send("HEAD", "/bucket-1/b", by: .cos).fields["x-cos-meta-b"] == "2")
    }

    @Test("an unsigned liveness check works, and nothing else")
    func probe() async throws {
        let bench = try await ObjectBench()
        let host: HTTPFields = ["Host": "bucket-1.cos.ap-x.myqcloud.com"]
        #expect(await bench.send(try s3Head("HEAD", "/", host)).outcome == "200")
        for more: HTTPFields in [[:], ["Authorization": ""]] {
            var head = try s3Head("GET", "/", host)
            head.fields.append(contentsOf: more)
            let refused = await bench.send(head)
            #expect(refused.outcome == "403 AccessDenied" && refused.element("TraceId") != nil)
        }
    }
}
