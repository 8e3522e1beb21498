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

    @Test("responses name the server, as the SDK for Android wants it before it corrects its clock")
    func server() async throws {
        let bench = try await ObjectBench()
        let early = bench.clock.now.addingTimeInterval(7200)
        for (date, outcome) in [(bench.clock.now, "404 NoSuchKey"), (early, "403 RequestTimeTooSkewed")] {
            let response = await bench.send(try bench.signed("GET", "/bucket-1/k", by: .cos, at: date))
            #expect(response.outcome == outcome && response.fields["Server"] == "tencent-cos")
        }
        #expect(try await bench.send("PUT", "/bucket-1/k", by: .cos).fields["Server"] == "tencent-cos")
        #expect(try await bench.send("GET", "/bucket-1/k").fields["Server"] == nil)
        #expect(try await bench.send("GET", "/bucket-1/k", by: .ossV4).fields["Server"] == nil)
    }

    @Test("a presigned URL of the SDK for PHP")
    func presignedByPHP() async throws {
        let bench = try await ObjectBench(publicRead: PublicRead([try #require(PublicRead.Rule("bucket-1"))]))
        func send(_ method: String, _ change: (String) -> String = { $0 }) async throws -> String {
            var head = try bench.signed(method, "/bucket-1/k", by: .cos, content: [1])
            let text = change(try #require(head.fields["Authorization"]))
            head.fields["Authorization"] = nil
            head.target = try RequestTarget(parsing: "/bucket-1/k?sign=\(PercentEncoding.encode(text))")
            return await bench.send(head, [1]).outcome
        }
        #expect(try await send("PUT") == "200")
        #expect(try await send("GET") == "200")
        // A wrong signature is no reason to take it for none.
        #expect(
            try await send("GET") { $0.replacing("q-signature=", with: "q-signature=0").dropLast().description }
                == "403 SignatureDoesNotMatch"
        )
    }

    @Test("the location of a completed object has the bucket once")
    func locations() async throws {
        let bench = try await ObjectBench()
        let session = try bench.issuer.session(bench.grant(), for: .tencent)
        let forwarded = "bucket-1.cos.ap-x.myqcloud.com"
        for (prefix, host, location) in [
            ("/", "bucket-1.s3.example.org", "http://bucket-1.s3.example.org/a/%C3%BC%201"),
            ("/", "bucket-1.s3.example.org:9000", "http://bucket-1.s3.example.org:9000/a/%C3%BC%201"),
            ("//", "bucket-1.s3.example.org", "http://bucket-1.s3.example.org/a/%C3%BC%201"),
            // None of the names of the endpoint.
            ("/", "bucket-1.cos.ap-x.myqcloud.com", "http://bucket-1.cos.ap-x.myqcloud.com/a/%C3%BC%201"),
            ("/bucket-1/", "bucket-1.other.example", "http://bucket-1.other.example/bucket-1/a/%C3%BC%201"),
            ("/bucket-1/", "s3.example.org", "http://s3.example.org/bucket-1/a/%C3%BC%201"),
            ("/", "127.0.0.1:9000", "http://127.0.0.1:9000/bucket-1/a/%C3%BC%201"),
            ("/", forwarded, "http://\(forwarded)/a/%C3%BC%201"),
        ] {
            let target = "\(prefix)a/%C3%BC%201"
            let id = try await bench.begin(target, session, by: .cos, ["Host": host])
            let part = try await bench.send(
                "PUT",
                "\(target)?partNumber=1&uploadId=\(id)",
                session,
                by: .cos,
                ["Host": host],
                content: [1]
            )
            let tag = try #require(part.fields["ETag"])
            let document = Array(
                "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>\(tag)</ETag></Part></CompleteMultipartUpload>"
                    .utf8
            )
            var head = try bench.signed(
                "POST",
                "\(target)?uploadId=\(id)",
                session,
                by: .cos,
                ["Host": host],
                content: document
            )
            if host == forwarded {
                head.fields["Host"] = "vod.example.org"
                head.fields["Vod-Forward-Cos"] = host
            }
            #expect(await bench.send(head, document).element("Location") == location, "\(prefix) \(host)")
        }
    }

    @Test("a key that begins with slashes is the one without them", arguments: Signature.cosBoth)
    func leadingSlashes(_ signature: Signature) async throws {
        let bench = try await ObjectBench()
        let session = try bench.issuer.session(bench.grant(), for: .tencent)
        let own: HTTPFields = ["Host": "bucket-1.s3.example.org"]
        // In the host; in the path; in neither, so that it is that of the credentials.
        for (target, fields) in [
            ("//a/1", own), ("///a/1", own), ("/%2Fa/1", own), ("/bucket-1//a/1", [:]), ("//a/1", [:]),
        ] {
            let response = try await bench.send("PUT", target, session, by: signature, fields)
            #expect(response.outcome == "200", "\(target)")
            let name = ObjectName(bucket: "bucket-1", key: "a/1")
            #expect(try await bench.services.objects.removeObject(name), "\(target)")
        }
        // Nothing outside of what the credentials allow.
        for target in ["//b/1", "//bucket-1/b/1"] {
            #expect(try await bench.send("PUT", target, session, by: signature, own).outcome == "403 AccessDenied")
        }

        let piece = Array("hello".utf8)
        let id = try await bench.begin("//a/k", session, by: signature, own)
        let uploads = try await bench.send("GET", "/?uploads&prefix=/a/k", session, by: signature, own)
        #expect(uploads.element("UploadId") == id)
        let part = "//a/k?partNumber=1&uploadId=\(id)"
        #expect(try await bench.send("PUT", part, session, by: signature, own, content: piece).outcome == "200")
        let parts = try await bench.send("GET", "//a/k?uploadId=\(id)", session, by: signature, own)
        #expect(parts.element("Size") == "5" && parts.element("Key") == "a/k")
        let tag = Hexadecimal.encode(Digest.hash(piece, .md5))
        let document =
            "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>\(tag)</ETag></Part></CompleteMultipartUpload>"
        let done = try await bench.send(
            "POST",
            "//a/k?uploadId=\(id)",
            session,
            by: signature,
            own,
            content: Array(document.utf8)
        )
        #expect(done.outcome == "200" && done.element("Key") == "a/k")
        #expect(try await bench.send("HEAD", "//a/k", session, by: signature, own).outcome == "200")
        let other = try await bench.begin("//a/k", session, by: signature, own)
        #expect(try await bench.send("DELETE", "//a/k?uploadId=\(other)", session, by: signature, own).outcome == "204")
    }

    @Test("so are the source of a copy, a key in a list to delete, and the prefix of a list")
    func leadingSlashesElsewhere() async throws {
        let bench = try await ObjectBench()
        #expect(try await bench.send("PUT", "/bucket-1/a", by: .cos, content: Array("hello".utf8)).outcome == "200")
        let source: HTTPFields = ["x-cos-copy-source": "bucket-1.cos.ap-x.myqcloud.com//a"]
        #expect(try await bench.send("PUT", "/bucket-1//b", by: .cos, source).element("ETag") != nil)
        let listed = try await bench.send("GET", "/bucket-1?prefix=/b", by: .cos)
        #expect(listed.element("Key") == "b")
        let document = Array("<Delete><Object><Key>/b</Key></Object></Delete>".utf8)
        let deleted = try await bench.send("POST", "/bucket-1?delete", by: .cos, content: document)
        #expect(deleted.element("Key") == "/b")
        #expect(try await bench.services.objects.object(ObjectName(bucket: "bucket-1", key: "b")) == nil)
        // Other clients mean what they say.
        for target in ["/bucket-1//c", "/bucket-1/c"] {
            #expect(try await bench.send("PUT", target, content: [1]).outcome == "200")
            #expect(try await bench.send("PUT", target, by: .ossV4, content: [1]).outcome == "200")
        }
        let all = try await bench.services.objects.objects(ObjectQuery(bucket: "bucket-1", limit: 10)).map(\.key)
        #expect(all == ["/c", "a", "c"])
    }

    @Test("bytes are appended at the end of the object", arguments: Signature.cosBoth)
    func append(_ signature: Signature) async throws {
        let bench = try await ObjectBench()
        let session = try bench.issuer.session(bench.grant(), for: .tencent)
        func append(_ text: String, at position: Int, _ key: String = "log") async throws -> Response {
            let target = "/bucket-1/a/\(key)?append&position=\(position)"
            return try await bench.send("POST", target, session, by: signature, content: Array(text.utf8))
        }
        #expect(try await append("x", at: 1).outcome == "409 PositionNotEqualToLength")
        let first = try await append("hel", at: 0)
        #expect(first.outcome == "200" && first.fields["x-cos-next-append-position"] == "3")
        let second = try await append("lo", at: 3)
        #expect(second.fields["x-cos-next-append-position"] == "5" && second.fields["ETag"] == Self.hello.tag)
        #expect(second.fields["x-cos-hash-crc64ecma"] == crc64(Array("hello".utf8)))
        let wrong = try await append("x", at: 3)
        #expect(wrong.outcome == "409 PositionNotEqualToLength" && wrong.fields["x-cos-next-append-position"] == "5")
        let head = try await bench.send("HEAD", "/bucket-1/a/log", by: signature)
        #expect(head.fields["x-cos-object-type"] == "appendable")
        #expect(try await bench.send("PUT", "/bucket-1/a/log", by: signature, content: [1]).outcome == "200")
        let other = try await bench.send("HEAD", "/bucket-1/a/log", by: signature)
        #expect(other.fields["x-cos-object-type"] == "normal")
        #expect(try await append("x", at: 1).outcome == "409 ObjectNotAppendable")
        let target = "/bucket-1/a/log?append&position=x"
        #expect(try await bench.send("POST", target, by: signature, content: [1]).outcome == "400 InvalidArgument")
    }

    @Test("the processing of images is refused, not left out", arguments: Signature.cosBoth)
    func images(_ signature: Signature) async throws {
        let bench = try await ObjectBench()
        let fields: HTTPFields = ["Pic-Operations": #"{"is_pic_info":1,"rules":[{"fileid":"a","rule":"imageMogr2"}]}"#]
        let put = try await bench.send("PUT", "/bucket-1/a.jpg", by: signature, fields, content: [1])
        #expect(put.outcome == "501 NotImplemented" && put.element("Header") == "pic-operations")
        #expect(try await bench.send("HEAD", "/bucket-1/a.jpg", by: signature).status == 404)
        #expect(try await bench.send("PUT", "/bucket-1/a.jpg", by: signature, content: [1]).outcome == "200")
        for query in [
            "imageMogr2/thumbnail/!50p", "imageView2/1/w/100", "watermark/2/text/YQ==/fill/Iw", "style/small",
            "imageMogr2/format/png%7Cwatermark/2/text/YQ", "imageInfo", "imageAve", "exif=", "ci-process=snapshot",
            "imageEnhance/x",
        ] {
            let got = try await bench.send("GET", "/bucket-1/a.jpg?\(query)", by: signature)
            #expect(got.outcome == "501 NotImplemented", "\(query)")
        }
        // Pages add some to get past a cache; another vendor's are not commands.
        #expect(try await bench.send("GET", "/bucket-1/a.jpg?exif=1&1700000000", by: signature).outcome == "200")
        #expect(try await bench.send("GET", "/bucket-1/a.jpg?imageMogr2/x", by: .ossV4).outcome == "200")
        #expect(try await bench.send("PUT", "/bucket-1/b", by: .ossV4, fields, content: [1]).outcome == "200")
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
