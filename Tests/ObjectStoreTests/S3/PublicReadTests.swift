import Bytes
import Foundation
import HTTPWire
import Signing
import SluiceTesting
import Testing
import UploadModel

@testable import ObjectGrants
@testable import ObjectStore

@Suite("Objects that anyone can read", .timeLimit(.minutes(10)))
struct PublicReadTests {
    static func rule(_ text: String) throws -> PublicRead.Rule { try #require(PublicRead.Rule(text)) }

    static func bench(_ rules: String..., maximumAge: Int64 = 60, cors: BucketCORS? = nil) async throws -> ObjectBench {
        let publicRead = PublicRead(try rules.map { try rule($0) }, maximumAge: maximumAge)
        return try await ObjectBench(publicRead: publicRead, cors: cors)
    }

    @Test(
        "a prefix ends where it says",
        arguments: [
            ("media", "media", "x", true), ("media", "media", "public/x", true), ("media", "media-2", "x", false),
            ("media/", "media", "x", true), ("media/public/", "media", "public/x", true),
            ("media/public/", "media", "public/a/../x", true), ("media/public/", "media", "public", false),
            ("media/public/", "media", "publicity/x", false), ("media/public", "media", "publicity/x", true),
            ("media/public/", "media", "Public/x", false), ("media/public/", "media", "/public/x", false),
            ("media/public/", "media-2", "public/x", false), ("media/public/", "media", "public/\u{301}", true),
            ("media/\u{E9}/", "media", "\u{E9}/x", true), ("media/\u{E9}/", "media", "e\u{301}/x", false),
        ]
    )
    func coverage(rule: String, bucket: String, key: String, isCovered: Bool) throws {
        #expect(try Self.rule(rule).covers(ObjectName(bucket: bucket, key: key)) == isCovered)
    }

    @Test(
        "rules that read as something else than they are do not exist",
        arguments: [
            "", "/", "/media", "Media", "m", "media/*", "media/public*", "*", "media/../other", "media/./x",
            "media/a/..",
            "media/a\nb", "media/\u{7F}", "media/" + String(repeating: "x", count: 1025), "media public/x",
        ]
    )
    func refused(text: String) {
        #expect(PublicRead.Rule(text) == nil)
    }

    // MARK: Requests

    /// Two objects: `public/1` and `secret/1`; the first also exists with a text that looks like a way out.
    static func filled() async throws -> ObjectBench {
        let bench = try await bench("bucket-1/public/")
        for key in ["public/1", "secret/1", "public/../secret/2"] {
            #expect(try await bench.send("PUT", "/bucket-1/\(key)", content: [1, 2, 3]).status == 200)
        }
        return bench
    }

    @Test(
        "GET and HEAD of a public object need no signature",
        arguments: [
            "/bucket-1/public/1", "/bucket-1/public/1?v=2", "/bucket-1/public/1?x-id=GetObject",
            "/bucket-1/%70ublic%2F1",
            "/bucket-1%2Fpublic/1", "/bucket-1/public/1?partNumber=1",
        ]
    )
    func reading(target: String) async throws {
        let bench = try await Self.filled()
        for method in ["GET", "HEAD"] {
            let response = await bench.send(try s3Head(method, target))
            #expect([200, 206].contains(response.status.code), "\(method) \(response.outcome)")
            #expect(response.fields["Cache-Control"] == "public, max-age=60")
        }
    }

    @Test("a bucket in the host is the same bucket")
    func virtualHost() async throws {
        let bench = try await Self.filled()
        let host: HTTPFields = ["Host": "bucket-1.s3.example.org"]
        #expect(await bench.send(try s3Head("GET", "/public/1", host)).status == 200)
        #expect(await bench.send(try s3Head("GET", "/secret/1", host)).outcome == "403 AccessDenied")
        #expect(await bench.send(try s3Head("GET", "/bucket-1/public/1", host)).outcome == "403 AccessDenied")
    }

    @Test("OSS and COS clients read without a signature too", arguments: ["x-oss-user-agent", "x-cos-request-id"])
    func vendors(field: String) async throws {
        let bench = try await Self.filled()
        let name = try #require(FieldName(field))
        #expect(await bench.send(try s3Head("GET", "/bucket-1/public/1", [name: "1"])).status == 200)
        #expect(await bench.send(try s3Head("GET", "/bucket-1/secret/1", [name: "1"])).outcome == "403 AccessDenied")
    }

    @Test(
        "nothing else is answered without a signature",
        arguments: [
            ("GET", "/"), ("GET", "/bucket-1"), ("GET", "/bucket-1/"), ("HEAD", "/bucket-1"),
            ("GET", "/bucket-1?list-type=2"),
            ("GET", "/bucket-1?list-type=2&prefix=public/"), ("GET", "/bucket-1?uploads"),
            ("GET", "/bucket-1?location"),
            ("GET", "/bucket-1?versioning"), ("GET", "/bucket-1?cors"),
            ("GET", "/bucket-1/secret/1"), ("HEAD", "/bucket-1/secret/1"), ("GET", "/bucket-1/secret/none"),
            ("GET", "/bucket-1/public"), ("GET", "/bucket-1/publicity/1"), ("GET", "/bucket-2/public/1"),
            ("GET", "/bucket-1/public/1?tagging"), ("GET", "/bucket-1/public/1?attributes"),
            ("GET", "/bucket-1/public/1?uploadId=1"), ("GET", "/bucket-1/public/1?versionId=null"),
            ("GET", "/bucket-1/public/1?response-content-type=text/html"),
            ("HEAD", "/bucket-1/public/1?response-cache-control=no-store"),
            ("PUT", "/bucket-1/public/2"), ("DELETE", "/bucket-1/public/1"), ("POST", "/bucket-1/public/1?uploads"),
            ("PUT", "/bucket-1/public/1?tagging"),
        ]
    )
    func nothingElse(method: String, target: String) async throws {
        let bench = try await Self.filled()
        let fields: HTTPFields = ["x-amz-object-attributes": "ETag"]
        let head = try s3Head(method, target, target.hasSuffix("attributes") ? fields : [:])
        #expect(await bench.send(head).outcome == "403 AccessDenied")
    }

    @Test(
        "nobody reads policies or versions without a signature",
        arguments: ["policy", "torrent", "website", "acl", "versions"]
    )
    func subresources(name: String) async throws {
        let bench = try await Self.filled()
        let outcome = ["acl": "403 AccessDenied", "versions": "400 InvalidRequest"][name] ?? "501 NotImplemented"
        #expect(await bench.send(try s3Head("GET", "/bucket-1/public/1?\(name)")).outcome == outcome)
        let list = name == "torrent" ? "501 NotImplemented" : "403 AccessDenied"
        #expect(await bench.send(try s3Head("GET", "/bucket-1?\(name)")).outcome == list)
    }

    @Test("a copy needs a signature, also from a public object")
    func copying() async throws {
        let bench = try await Self.filled()
        let source: HTTPFields = ["x-amz-copy-source": "/bucket-1/public/1"]
        #expect(await bench.send(try s3Head("PUT", "/bucket-1/public/2", source)).outcome == "403 AccessDenied")
    }

    @Test("a missing object is 404 only where objects are public")
    func missing() async throws {
        let bench = try await Self.bench("bucket-1/public/", "bucket-3")
        #expect(await bench.send(try s3Head("GET", "/bucket-1/public/none")).outcome == "404 NoSuchKey")
        #expect(await bench.send(try s3Head("GET", "/bucket-1/none")).outcome == "403 AccessDenied")
        #expect(await bench.send(try s3Head("GET", "/bucket-2/none")).outcome == "403 AccessDenied")
        #expect(await bench.send(try s3Head("GET", "/bucket-3/none")).outcome == "404 NoSuchBucket")
    }

    // MARK: Signatures

    @Test("a wrong signature is refused, also for a public object")
    func wrongSignatures() async throws {
        let bench = try await Self.filled()
        let wrong = SigningCredentials(
            accessKeyID: ObjectBench.administrator.accessKeyID,
            secretAccessKey: "other"
        )
        let header = try await bench.send("GET", "/bucket-1/public/1", wrong)
        #expect(header.outcome == "403 SignatureDoesNotMatch")
        let query = try s3Signed("GET", "/bucket-1/public/1", wrong, lifetime: 60, at: bench.clock.now)
        #expect(await bench.send(query).outcome == "403 SignatureDoesNotMatch")
        for signature in Signature.allCases {
            let response = try await bench.send("GET", "/bucket-1/public/1", wrong, by: signature)
            #expect(response.outcome == "403 SignatureDoesNotMatch", "\(signature)")
        }
    }

    @Test(
        "a part of a signature is no public request",
        arguments: [
            "X-Amz-Signature=1", "x-amz-algorithm=AWS4-HMAC-SHA256", "X-Amz-Security-Token=t", "AWSAccessKeyId=1",
            "OSSAccessKeyId=1", "Signature=1", "x-oss-signature=1", "security-token=t", "q-signature=1", "q-ak=1",
            "x-cos-security-token=t",
        ]
    )
    func partsOfSignatures(query: String) async throws {
        let bench = try await Self.filled()
        #expect(await bench.send(try s3Head("GET", "/bucket-1/public/1?\(query)")).status.code >= 400)
    }

    @Test(
        "a field of a signature is no public request",
        arguments: [
            ("Authorization", ""), ("Authorization", "Bearer 1"), ("Authorization", "AWS 1:2"),
            ("x-amz-security-token", "t"), ("x-oss-security-token", "t"), ("x-cos-security-token", "t"),
            ("Vod-Forward-Cos", "bucket-2.cos.example.com"),
        ]
    )
    func fieldsOfSignatures(name: String, value: String) async throws {
        let bench = try await Self.filled()
        let field = try #require(FieldName(name))
        #expect(await bench.send(try s3Head("GET", "/bucket-1/public/1", [field: value])).status.code >= 400)
    }

    @Test("a signed request of a public object gets what it got before")
    func signed() async throws {
        let bench = try await Self.filled()
        let target = "/bucket-1/public/1?response-content-type=text/html"
        let response = try await bench.send("GET", target)
        #expect(response.fields["Content-Type"] == "text/html")
        #expect(response.fields["Cache-Control"] == nil && response.fields["Content-Disposition"] == nil)
    }

    // MARK: Fields

    @Test("an object's own Cache-Control or Expires is kept")
    func ownTime() async throws {
        let bench = try await Self.bench("bucket-1")
        let names: [FieldName] = ["Cache-Control", "Expires"]
        for (name, value) in zip(names, ["no-cache", "Fri, 02 Jan 2026 03:04:05 GMT"]) {
            _ = try await bench.send("PUT", "/bucket-1/1", ObjectBench.administrator, [name: value])
            let response = await bench.send(try s3Head("GET", "/bucket-1/1"))
            #expect(response.fields[name] == value)
            #expect(names.count { response.fields.contains($0) } == 1)
        }
    }

    @Test("304 has the fields for caches, and no others of the object")
    func notModified() async throws {
        let bench = try await Self.filled()
        let tag = try #require(await bench.send(try s3Head("HEAD", "/bucket-1/public/1")).fields["ETag"])
        let response = await bench.send(try s3Head("GET", "/bucket-1/public/1", ["If-None-Match": tag]))
        #expect(response.status == 304)
        #expect(response.fields["Cache-Control"] == "public, max-age=60" && response.fields["ETag"] == tag)
        #expect(response.fields["Vary"]?.contains("Origin") == true)
        #expect(!response.fields.contains("Content-Disposition") && !response.fields.contains("Content-Type"))
    }

    @Test("the response varies by origin, whether or not this request has one")
    func varies() async throws {
        let bench = try await Self.bench("bucket-1", cors: BucketCORS(origins: ["https://app.example"]))
        _ = try await bench.send("PUT", "/bucket-1/1")
        for origin in [nil, "https://app.example", "https://other.example"] {
            var fields: HTTPFields = [:]
            fields["Origin"] = origin
            let response = await bench.send(try s3Head("GET", "/bucket-1/1", fields))
            #expect(response.fields["Vary"]?.contains("Origin") == true)
            let allowed = origin == "https://app.example" ? origin : nil
            #expect(response.fields["Access-Control-Allow-Origin"] == allowed)
        }
    }

    @Test("the number of tags is for those who can read tags")
    func tags() async throws {
        let bench = try await Self.bench("bucket-1")
        _ = try await bench.send("PUT", "/bucket-1/1", ObjectBench.administrator, ["x-amz-tagging": "a=b"])
        #expect(try await bench.send("GET", "/bucket-1/1").fields["x-amz-tagging-count"] == "1")
        #expect(await bench.send(try s3Head("GET", "/bucket-1/1")).fields["x-amz-tagging-count"] == nil)
    }

    @Test(
        "only what runs no script is displayed in place",
        arguments: [
            ("video/mp4", nil, nil), ("image/png", nil, nil),
            ("image/png", "inline; filename=\"a.png\"", "inline; filename=\"a.png\""),
            ("text/plain; charset=utf-8", nil, nil), ("image/png", "attachment", "attachment"),
            ("text/html", nil, "attachment; filename=\"p.x\""), ("image/svg+xml", nil, "attachment; filename=\"p.x\""),
            ("image/x+xml", nil, "attachment; filename=\"p.x\""), ("TEXT/HTML", nil, "attachment; filename=\"p.x\""),
            ("text/html", "inline; filename=\"a.html\"", "attachment; filename=\"a.html\""),
            ("image/png, text/html", nil, "attachment; filename=\"p.x\""),
            ("image/png; a=\"b\", text/html", nil, "attachment; filename=\"p.x\""),
            ("text/xml", nil, "attachment; filename=\"p.x\""),
            ("application/javascript", nil, "attachment; filename=\"p.x\""),
            ("application/pdf", nil, "attachment; filename=\"p.x\""), ("nonsense", nil, "attachment; filename=\"p.x\""),
            (nil, nil, "attachment; filename=\"p.x\""),
        ] as [(String?, String?, String?)]
    )
    func presentation(type: String?, own: String?, expected: String?) async throws {
        let bench = try await Self.bench("bucket-1")
        var fields: HTTPFields = [:]
        fields["Content-Type"] = type
        fields["Content-Disposition"] = own
        _ = try await bench.send("PUT", "/bucket-1/a/p.x", ObjectBench.administrator, fields)
        let response = await bench.send(try s3Head("GET", "/bucket-1/a/p.x"))
        #expect(response.fields["Content-Disposition"] == expected)
        #expect(response.fields["X-Content-Type-Options"] == "nosniff")
        #expect(response.fields["Content-Security-Policy"] == "default-src 'none'; sandbox")
    }
}
