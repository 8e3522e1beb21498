import Bytes
import Digests
import Foundation
import HTTPWire
import ObjectGrants
import Signing
import Testing
import UploadCore
import UploadModel

@testable import ObjectStore

@Suite("The endpoint for OSS clients", .timeLimit(.minutes(10)))
struct OSSEndpointTests {
    /// MD5, also in Base64, and CRC-64 of `hello`.
    private static let hello = (
        tag: "\"5D41402ABC4B2A76B9719D911017C592\"", md5: "XUFAKrxLKna5cZ2REBfFkg==", crc64: "11177612005948864433"
    )

    @Test("an object is stored, read and deleted, in every scheme", arguments: Signature.oss)
    func object(_ signature: Signature) async throws {
        let bench = try await ObjectBench()
        let fields: HTTPFields = ["Content-Type": "video/mp4", "x-oss-meta-a": "1"]
        let put = try await bench.send("PUT", "/bucket-1/k", by: signature, fields, content: Array("hello".utf8))
        #expect(put.outcome == "200")
        #expect(put.fields["ETag"] == Self.hello.tag)
        #expect(put.fields["Content-MD5"] == Self.hello.md5)
        #expect(put.fields["x-oss-hash-crc64ecma"] == Self.hello.crc64)
        #expect(put.fields["x-oss-request-id"] == "request-1" && put.fields["x-amz-request-id"] == nil)
        let head = try await bench.send("HEAD", "/bucket-1/k", by: signature)
        #expect(head.fields["ETag"] == Self.hello.tag && head.fields["Content-Type"] == "video/mp4")
        #expect(head.fields["x-oss-meta-a"] == "1" && head.fields["x-oss-object-type"] == "Normal")
        #expect(head.fields["x-oss-hash-crc64ecma"] == Self.hello.crc64)
        // A client gives a tag back as it got it.
        let unchanged = try await bench.send("GET", "/bucket-1/k", by: signature, ["If-None-Match": Self.hello.tag])
        #expect(unchanged.status == 304)
        // Or without quotes, as the SDK for Python does.
        let bare: HTTPFields = ["If-Match": String(Self.hello.tag.dropFirst().dropLast())]
        #expect(try await bench.send("GET", "/bucket-1/k", by: signature, bare).status == 200)
        #expect(try await bench.send("DELETE", "/bucket-1/k", by: signature).outcome == "204")
        let gone = try await bench.send("GET", "/bucket-1/k", by: signature)
        #expect(gone.outcome == "404 NoSuchKey" && gone.element("HostId") == "s3.example.org")
    }

    @Test(
        "the bucket is in the host, in the path or nowhere, and a key can have any characters",
        arguments: Signature.oss,
        ["sv/1.mp4", "sv/日本 a+b~/1.mp4", "sv//x/../y"]
    )
    func places(_ signature: Signature, key: String) async throws {
        let bench = try await ObjectBench()
        let session = try bench.issuer.session(bench.grant(.prefix("sv/")), for: .aliyun)
        let path = SigningRequest.path(of: "/" + key)
        let resource = OSSResource(bucket: "bucket-1", key: key)
        let places: [(String, HTTPFields)] = [
            ("/bucket-1" + path, [:]), (path, ["Host": "bucket-1.s3.example.org"]), (path, [:]),
            (path, ["Host": "127.0.0.1:9000"]),
            // All slashes escaped, as the SDK for Python does.
            ("/bucket-1/" + path.dropFirst().replacing("/", with: "%2F"), [:]),
            // A space as in a form, as the older SDK for Go does.
            ("/bucket-1" + path.replacing("%20", with: "+"), [:]),
        ]
        for (target, fields) in places {
            let response = try await bench.send("PUT", target, session, by: signature, fields, resource: resource)
            #expect(response.outcome == "200", "\(target)")
            #expect(
                try await bench.services.objects.removeObject(ObjectName(bucket: "bucket-1", key: key)),
                "\(target)"
            )
        }
    }

    @Test("an upload without parts has an empty marker, and up to 8 KiB of metadata", arguments: Signature.oss)
    func emptyListing(_ signature: Signature) async throws {
        let bench = try await ObjectBench()
        let session = try bench.issuer.session(bench.grant(), for: .aliyun)
        let id = try await bench.begin("/bucket-1/a/k", session, by: signature)
        let listed = try await bench.send("GET", "/bucket-1/a/k?uploadId=\(id)&max-parts=1", session, by: signature)
        // The SDK in C takes any text for the number of a part.
        #expect(listed.element("NextPartNumberMarker")?.isEmpty == true && listed.element("IsTruncated") == "false")
        for (count, outcome) in [(8191, "200"), (8192, "400 InvalidArgument")] {
            let fields: HTTPFields = ["x-oss-meta-u": String(repeating: "a", count: count)]
            let put = try await bench.send("PUT", "/bucket-1/a/m", session, by: signature, fields)
            #expect(put.outcome == outcome)
        }
    }

    @Test("an upload without parts is completed as an empty object", arguments: Signature.oss)
    func noParts(_ signature: Signature) async throws {
        let bench = try await ObjectBench()
        let session = try bench.issuer.session(bench.grant(), for: .aliyun)
        let none = Array("<CompleteMultipartUpload />".utf8)
        var id = try await bench.begin("/bucket-1/a/k", session, by: signature)
        // Twice: the response may have been lost.
        for _ in 1...2 {
            let target = "/bucket-1/a/k?uploadId=\(id)"
            let done = try await bench.send("POST", target, session, by: signature, content: none)
            #expect(done.outcome == "200" && done.fields["x-oss-hash-crc64ecma"] == "0")
        }
        let name = ObjectName(bucket: "bucket-1", key: "a/k")
        #expect(try await bench.services.objects.removeObject(name))
        // A list without parts does not drop those that are there.
        id = try await bench.begin("/bucket-1/a/k", session, by: signature)
        let target = "/bucket-1/a/k?uploadId=\(id)"
        let part = try await bench.send("PUT", target + "&partNumber=1", session, by: signature, content: [7])
        #expect(part.outcome == "200")
        let refused = try await bench.send("POST", target, session, by: signature, content: none)
        #expect(refused.outcome == "400 MalformedXML")
    }

    @Test("parts are stored, listed and joined", arguments: Signature.oss)
    func parts(_ signature: Signature) async throws {
        let bench = try await ObjectBench()
        let session = try bench.issuer.session(bench.grant(), for: .aliyun)
        let pieces = [[UInt8](repeating: 7, count: 100 << 10), Array("hello".utf8)]
        let id = try await bench.begin("/bucket-1/a/k", session, by: signature)
        for (index, piece) in pieces.enumerated() {
            let target = "/bucket-1/a/k?partNumber=\(index + 1)&uploadId=\(id)"
            let part = try await bench.send("PUT", target, session, by: signature, content: piece)
            #expect(part.outcome == "200")
            let tag = Hexadecimal.encode(Digest.hash(piece, .md5)).uppercased()
            #expect(part.fields["ETag"] == "\"\(tag)\"" && part.fields["x-oss-hash-crc64ecma"] != nil)
            #expect(part.fields["Content-MD5"] == Base64.encode(Digest.hash(piece, .md5)))
        }
        let listed = try await bench.send("GET", "/bucket-1/a/k?uploadId=\(id)&max-parts=1", session, by: signature)
        #expect(listed.element("NextPartNumberMarker") == "1" && listed.element("IsTruncated") == "true")
        #expect(listed.element("LastModified")?.hasSuffix(".000Z") == true && listed.element("Size") == "102400")
        #expect(listed.text?.contains("xmlns") == false && listed.element("HashCrc64ecma") != nil)
        let tags = pieces.map { Hexadecimal.encode(Digest.hash($0, .md5)).uppercased() }
        let document =
            "<CompleteMultipartUpload>"
            + tags.enumerated().map { "<Part><PartNumber>\($0 + 1)</PartNumber><ETag>\"\($1)\"</ETag></Part>" }.joined()
            + "</CompleteMultipartUpload>"
        let complete = "/bucket-1/a/k?uploadId=\(id)"
        let content = Array(document.utf8)
        // Twice: the response may have been lost.
        for _ in 1...2 {
            let done = try await bench.send("POST", complete, session, by: signature, content: content)
            #expect(done.outcome == "200" && done.fields["Content-Type"] == "application/xml")
            #expect(
                done.element("ETag")?.hasSuffix("-2&quot;") == true && done.fields["ETag"]?.hasSuffix("-2\"") == true
            )
            #expect(done.fields["x-oss-hash-crc64ecma"] == crc64(pieces[0] + pieces[1]))
            #expect(done.fields["Content-MD5"] == nil)
        }
        let head = try await bench.send("HEAD", "/bucket-1/a/k", session, by: signature)
        #expect(head.fields["x-oss-object-type"] == "Multipart" && head.fields["Content-Length"] == nil)
    }

    @Test("parts whose length only their end reveals are stored", arguments: Signature.oss)
    func chunkedParts(_ signature: Signature) async throws {
        let bench = try await ObjectBench()
        let id = try await bench.begin("/bucket-1/k", by: signature)
        let pieces = [[UInt8](repeating: 7, count: 1 << 20), Array("hello".utf8)]
        var tags: [String] = []
        for (index, piece) in pieces.enumerated() {
            var head = try bench.signed("PUT", "/bucket-1/k?partNumber=\(index + 1)&uploadId=\(id)", by: signature)
            head.fields["Transfer-Encoding"] = "chunked"
            head.fields["Content-Length"] = nil
            let part = await bench.send(head, piece)
            #expect(part.outcome == "200", "\(part.text ?? "")")
            tags.append(part.fields["ETag"] ?? "")
        }
        let listed = try await bench.send("GET", "/bucket-1/k?uploadId=\(id)&max-parts=1", by: signature)
        #expect(listed.element("Size") == "1048576")
        let document =
            "<CompleteMultipartUpload>"
            + tags.enumerated().map { "<Part><PartNumber>\($0 + 1)</PartNumber><ETag>\($1)</ETag></Part>" }.joined()
            + "</CompleteMultipartUpload>"
        let target = "/bucket-1/k?uploadId=\(id)"
        let done = try await bench.send("POST", target, by: signature, content: Array(document.utf8))
        #expect(done.fields["x-oss-hash-crc64ecma"] == crc64(pieces[0] + pieces[1]), "\(done.text ?? "")")
    }

    @Test("listings contain what clients need")
    func listing() async throws {
        let bench = try await ObjectBench()
        for key in ["a/1", "a/2", "b"] {
            #expect(try await bench.send("PUT", "/bucket-1/\(key)", by: .ossV1, content: [1]).outcome == "200")
        }
        let page = try await bench.send("GET", "/bucket-1/?max-keys=1&encoding-type=url", by: .ossV4)
        #expect(page.element("NextMarker") == "a/1" && page.element("Key") == "a/1")
        #expect(page.element("Type") == "Normal" && page.element("StorageClass") == "Standard")
        let second = try await bench.send(
            "GET",
            "/bucket-1/?list-type=2&prefix=a/&start-after=a/1&continuation-token=",
            by: .ossV4
        )
        #expect(second.element("KeyCount") == "1")
        #expect(try await bench.send("POST", "/bucket-1/c?uploads", by: .ossV1).outcome == "200")
        let uploads = try await bench.send("GET", "/bucket-1/?uploads", by: .ossV1)
        // The SDK for Swift drops an upload with an element that has elements.
        #expect(uploads.element("Key") == "c" && uploads.text?.contains("<Owner>") == false)
        #expect(uploads.element("NextKeyMarker") == "" && uploads.element("IsTruncated") == "false")
        let document = Array("<Delete><Object><Key>a/1</Key></Object><Object><Key>none</Key></Object></Delete>".utf8)
        let deleted = try await bench.send("POST", "/bucket-1/?delete", by: .ossV1, content: document)
        #expect(deleted.outcome == "200" && deleted.text?.contains("<Key>a/1</Key>") == true)
        let buckets = try await bench.send("GET", "/", by: .ossV4, resource: OSSResource(bucket: nil))
        #expect(buckets.element("Name") == "bucket-1")
    }

    @Test("objects are copied, and existing ones can be protected")
    func copies() async throws {
        let bench = try await ObjectBench()
        #expect(try await bench.send("PUT", "/bucket-1/a", by: .ossV4, content: Array("hello".utf8)).outcome == "200")
        let source: HTTPFields = ["x-oss-copy-source": "/bucket-1/a", "x-oss-metadata-directive": "COPY"]
        let copy = try await bench.send("PUT", "/bucket-1/b", by: .ossV4, source)
        #expect(copy.element("ETag") == Self.hello.tag.replacing("\"", with: "&quot;"))
        // A copy to itself replaces the metadata, whatever the directive says; the tags stay.
        let described: HTTPFields = ["x-oss-meta-m": "1", "x-oss-tagging": "t=1"]
        #expect(try await bench.send("PUT", "/bucket-1/s", by: .ossV4, described, content: [1]).outcome == "200")
        for more: HTTPFields in [
            ["x-oss-metadata-directive": "COPY", "x-oss-meta-m": "2"], ["x-oss-meta-m": "3"], [:],
        ] {
            var itself = more
            itself["x-oss-copy-source"] = "/bucket-1/s"
            #expect(try await bench.send("PUT", "/bucket-1/s", by: .ossV4, itself).outcome == "200")
            let head = try await bench.send("HEAD", "/bucket-1/s", by: .ossV4)
            #expect(head.fields["x-oss-meta-m"] == more["x-oss-meta-m"] && head.fields["x-oss-tagging-count"] == "1")
        }
        let cos: HTTPFields = ["x-cos-copy-source": "bucket-1.cos.ap-x.myqcloud.com/s", "x-cos-meta-m": "2"]
        #expect(try await bench.send("PUT", "/bucket-1/s", by: .cos, cos).outcome == "400 InvalidArgument")
        // Node's multipartUploadCopy reads the tag of a part from the field.
        let id = try await bench.begin("/bucket-1/p", by: .ossV4)
        let part = try await bench.send("PUT", "/bucket-1/p?partNumber=1&uploadId=\(id)", by: .ossV4, source)
        #expect(part.element("ETag") == Self.hello.tag.replacing("\"", with: "&quot;"))
        #expect(part.fields["ETag"] == Self.hello.tag)
        let kept: HTTPFields = ["x-oss-forbid-overwrite": "true"]
        let refused = try await bench.send("PUT", "/bucket-1/b", by: .ossV4, kept, content: [1])
        #expect(refused.outcome == "409 FileAlreadyExists")
        #expect(try await bench.send("PUT", "/bucket-1/c", by: .ossV4, kept, content: [1]).outcome == "200")
        // An upload in parts is refused before the parts are sent.
        let parts = try await bench.send("POST", "/bucket-1/b?uploads", by: .ossV4, kept)
        #expect(parts.outcome == "409 FileAlreadyExists")
        #expect(try await bench.send("POST", "/bucket-1/e?uploads", by: .ossV4, kept).outcome == "200")
        // What no signature of OSS covers is as if it were not there.
        var head = try bench.signed("PUT", "/bucket-1/d", by: .ossV1, content: [1])
        head.fields["x-amz-copy-source"] = "/bucket-1/a"
        #expect(await bench.send(head, [1]).outcome == "200")
        let put = try await bench.send("HEAD", "/bucket-1/d", by: .ossV1)
        #expect(put.fields["ETag"] != Self.hello.tag)
    }

    @Test("a path of slashes is the service where no bucket is in the host", arguments: Signature.oss)
    func slashes(_ signature: Signature) async throws {
        let bench = try await ObjectBench()
        let service = OSSResource(bucket: nil)
        for target in ["//", "//?max-keys=1"] {
            let list = try await bench.send("GET", target, by: signature, resource: service)
            #expect(list.outcome == "200" && list.element("Name") == "bucket-1", "\(target)")
        }
        let own: HTTPFields = ["Host": "bucket-1.s3.example.org"]
        let other = try await bench.send("GET", "//", by: signature, own, resource: service)
        #expect(other.outcome == "403 SignatureDoesNotMatch")
        // Credentials for one bucket may mean a key there.
        let session = try bench.issuer.session(bench.grant(), for: .aliyun)
        let key = OSSResource(bucket: "bucket-1", key: "/")
        #expect(try await bench.send("GET", "//", session, by: signature, resource: key).outcome == "403 AccessDenied")
        let denied = try await bench.send("GET", "//", session, by: signature, resource: service)
        #expect(denied.outcome == "403 AccessDenied")
    }

    @Test("a key has at most 1,023 bytes, also that of a source")
    func longKeys() async throws {
        let bench = try await ObjectBench()
        let (longest, longer) = (String(repeating: "A", count: 1023), String(repeating: "A", count: 1024))
        #expect(try await bench.send("PUT", "/bucket-1/\(longest)", by: .ossV4, content: [1]).outcome == "200")
        let refused = try await bench.send("PUT", "/bucket-1/\(longer)", by: .ossV4, content: [1])
        #expect(refused.outcome == "400 InvalidObjectName" && refused.element("MaxSizeAllowed") == "1023")
        for (key, outcome) in [(longest, "200"), (longer, "400 InvalidObjectName")] {
            let source: HTTPFields = ["x-oss-copy-source": "/bucket-1/\(key)"]
            #expect(try await bench.send("PUT", "/bucket-1/b", by: .ossV4, source).outcome == outcome)
        }
        // At Amazon one more; what is there can be deleted in a list.
        #expect(try await bench.send("PUT", "/bucket-1/\(longer)", content: [1]).outcome == "200")
        let document = Array("<Delete><Object><Key>\(longer)</Key></Object></Delete>".utf8)
        let deleted = try await bench.send("POST", "/bucket-1/?delete", by: .ossV4, content: document)
        #expect(deleted.element("Deleted") != nil)
    }

    @Test("access rights of a bucket are its own, and those of an object are named")
    func accessRights() async throws {
        let bench = try await ObjectBench()
        #expect(try await bench.send("PUT", "/bucket-1/k", by: .ossV4, content: [1]).outcome == "200")
        for (target, fields, outcome): (String, HTTPFields, String) in [
            ("/bucket-1/?acl", ["x-oss-acl": "private"], "200"),
            ("/bucket-1/?acl", ["x-oss-acl": "default"], "400 InvalidArgument"),
            ("/bucket-7", ["x-oss-acl": "default"], "400 InvalidArgument"),
            ("/bucket-7", ["x-oss-acl": "private"], "200"),
            ("/bucket-1/k?acl", ["x-oss-object-acl": "default"], "200"),
            ("/bucket-1/k?acl", [:], "400 MissingArgument"),
        ] {
            let response = try await bench.send("PUT", target, by: .ossV4, fields)
            #expect(response.outcome == outcome, "\(target) \(fields)")
        }
    }

    @Test("fields that a CORS rule allows are read in lower case")
    func corsRules() async throws {
        let bench = try await ObjectBench()
        let rules = """
            <CORSConfiguration><CORSRule><ID>1</ID><AllowedOrigin>https://a.example</AllowedOrigin><AllowedMethod>PUT</AllowedMethod>\
            <AllowedHeader>X-A*</AllowedHeader><ExposeHeader>ETag</ExposeHeader><MaxAgeSeconds>9</MaxAgeSeconds></CORSRule>\
            </CORSConfiguration>
            """
        #expect(try await bench.send("PUT", "/bucket-1/?cors", by: .ossV4, content: Array(rules.utf8)).outcome == "200")
        let read = try await bench.send("GET", "/bucket-1/?cors", by: .ossV4)
        for (name, text) in [
            ("AllowedOrigin", "https://a.example"), ("AllowedMethod", "PUT"), ("AllowedHeader", "x-a*"),
            ("ExposeHeader", "ETag"), ("MaxAgeSeconds", "9"),
        ] { #expect(read.element(name) == text, "\(name)") }
        #expect(try await bench.send("GET", "/bucket-1?cors").text == rules)
    }

    @Test("the location of a bucket has the prefix of the vendor")
    func bucketLocation() async throws {
        let bench = try await ObjectBench()
        let location = try await bench.send("GET", "/bucket-1/?location", by: .ossV4)
        #expect(location.element("LocationConstraint") == "oss-us-east-1")
        let buckets = try await bench.send("GET", "/", by: .ossV4, resource: OSSResource(bucket: nil))
        #expect(buckets.element("Location") == "oss-us-east-1")
        let info = try await bench.send("GET", "/bucket-1/?bucketInfo", by: .ossV4)
        #expect(info.element("Location") == "oss-us-east-1")
        #expect(BucketDocuments.named("oss-cn-x", for: .aliyun) == "oss-cn-x")
        for (place, outcome) in [
            ("oss-us-east-1", "200"), ("us-east-1", "200"), ("oss-cn-x", "400 IllegalLocationConstraintException"),
        ] {
            let text = "<LocationConstraint>\(place)</LocationConstraint>"
            let document = Array("<CreateBucketConfiguration>\(text)</CreateBucketConfiguration>".utf8)
            let made = try await bench.send("PUT", "/bucket-7", by: .ossV4, content: document)
            #expect(made.outcome == outcome, "\(place)")
        }
        let other = try await bench.send("GET", "/bucket-1/?location", by: .cos)
        #expect(other.element("LocationConstraint") == "us-east-1")
    }

    @Test("a bare parameter that begins with x- is no sub-resource", arguments: Signature.oss)
    func bareParameter(_ signature: Signature) async throws {
        let bench = try await ObjectBench()
        for (name, outcome) in [("x-param-null", "200"), ("X-null", "200"), ("param-null", "400 NotImplemented")] {
            let put = try await bench.send("PUT", "/bucket-1/k?\(name)", by: signature, content: [1])
            #expect(put.outcome == outcome, "\(name)")
        }
    }

    @Test("a quiet deletion has no content in its response unless something is left")
    func quiet() async throws {
        let bench = try await ObjectBench()
        let session = try bench.issuer.session(bench.grant(actions: [.deleteObject]), for: .aliyun)
        func delete(_ key: String, by signature: Signature) async throws -> Response {
            let text = "<Delete><Quiet>true</Quiet><Object><Key>\(key)</Key></Object></Delete>"
            return try await bench.send("POST", "/bucket-1/?delete", session, by: signature, content: Array(text.utf8))
        }
        let none = try await delete("a/none", by: .ossV4)
        #expect(none.outcome == "200" && none.text?.isEmpty != false && none.fields["Content-Type"] == nil)
        #expect(try await delete("b/none", by: .ossV4).element("Code") == "AccessDenied")
    }

    @Test("a range beyond the object returns all of it, unless the standard is requested")
    func ranges() async throws {
        let bench = try await ObjectBench()
        #expect(try await bench.send("PUT", "/bucket-1/k", by: .ossV4, content: Array("hello".utf8)).outcome == "200")
        #expect(try await bench.send("PUT", "/bucket-1/empty", by: .ossV4).outcome == "200")
        // Without and with the field: the expected Content-Range, or `nil` for all bytes.
        let rows: [(key: String, range: String, own: String?, standard: String?)] = [
            ("k", "bytes=0-4", "bytes 0-4/5", "bytes 0-4/5"), ("k", "bytes=4-", "bytes 4-4/5", "bytes 4-4/5"),
            ("k", "bytes=-5", "bytes 0-4/5", "bytes 0-4/5"), ("k", "bytes=3-5", nil, "bytes 3-4/5"),
            ("k", "bytes=-6", nil, "bytes 0-4/5"), ("k", "bytes=5-6", nil, "bytes */5"),
            ("k", "bytes=5-", nil, "bytes */5"), ("k", "byte=0-1", nil, nil), ("k", "bytes=3-1", nil, nil),
            ("k", "bytes=0-1,3-4", "bytes 0-1/5", "bytes 0-1/5"), ("k", "bytes=5-6,0-1", nil, "bytes */5"),
            ("empty", "bytes=0-", nil, "bytes */0"),
        ]
        for row in rows {
            let plain: HTTPFields = ["Range": row.range]
            let standard: HTTPFields = ["Range": row.range, "x-oss-range-behavior": "standard"]
            for (asked, expected) in [(plain, row.own), (standard, row.standard)] {
                let got = try await bench.send("GET", "/bucket-1/\(row.key)", by: .ossV4, asked)
                #expect(got.fields["Content-Range"] == expected, "\(row.key) \(row.range)")
                let isNone = expected?.contains("*") ?? false
                #expect(got.outcome == (isNone ? "416 InvalidRange" : expected == nil ? "200" : "206"))
            }
        }
        // Another value is as if it were not there.
        let other: HTTPFields = ["Range": "bytes=5-", "x-oss-range-behavior": "Standard"]
        #expect(try await bench.send("GET", "/bucket-1/k", by: .ossV4, other).outcome == "200")
        var cos: HTTPFields = ["Range": "bytes=5-"]
        #expect(try await bench.send("GET", "/bucket-1/k", by: .cos, cos).outcome == "416 InvalidRange")
        // COS has no such field.
        cos["x-cos-range-behavior"] = "x"
        #expect(try await bench.send("GET", "/bucket-1/k", by: .cos, cos).outcome == "501 NotImplemented")
    }

    @Test("bytes are appended at the end of the object", arguments: Signature.oss)
    func append(_ signature: Signature) async throws {
        let bench = try await ObjectBench()
        func append(_ text: String, at position: Int, _ fields: HTTPFields = [:]) async throws -> Response {
            let target = "/bucket-1/log?append&position=\(position)"
            return try await bench.send("POST", target, by: signature, fields, content: Array(text.utf8))
        }
        #expect(try await append("x", at: 1).outcome == "409 PositionNotEqualToLength")
        #expect(try await append("hel", at: 0, ["Content-Type": "text/x"]).fields["x-oss-next-append-position"] == "3")
        let second = try await append("lo", at: 3, ["Content-Type": "text/y"])
        #expect(second.fields["x-oss-next-append-position"] == "5" && second.fields["ETag"] == Self.hello.tag)
        #expect(second.fields["x-oss-hash-crc64ecma"] == Self.hello.crc64)
        let wrong = try await append("x", at: 3)
        #expect(wrong.outcome == "409 PositionNotEqualToLength" && wrong.fields["x-oss-next-append-position"] == "5")
        let broken = try await append("x", at: 5, ["Content-MD5": "XUFAKrxLKna5cZ2REBfFkg=="])
        #expect(broken.outcome == "400 InvalidDigest")
        let head = try await bench.send("HEAD", "/bucket-1/log", by: signature)
        #expect(head.fields["x-oss-object-type"] == "Appendable" && head.fields["Content-Type"] == "text/x")
        #expect(head.fields["ETag"] == Self.hello.tag)
        #expect(try await bench.send("PUT", "/bucket-1/log", by: signature, content: [1]).outcome == "200")
        #expect(try await append("x", at: 1).outcome == "409 ObjectNotAppendable")
    }

    @Test("a form is accepted", arguments: [true, false])
    func form(isV4: Bool) async throws {
        let bench = try await ObjectBench()
        let session = try bench.issuer.session(bench.grant(actions: [.postObject]), for: .aliyun)
        func post(_ key: String, _ file: String, to target: String, limit: Int = 100) async throws -> Response {
            let scheme: OSSSigner.Scheme = isV4 ? .v4(region: "x") : .v1(formatDate: { HTTPDate.format($0) })
            let fields = OSSSigner(credentials: session, scheme: scheme).form(
                policy: { fields in
                    let conditions = fields.filter { $0.name.hasPrefix("x-oss-") }.map {
                        "{\"\($0.name)\":\"\($0.value)\"}"
                    }
                    let all =
                        ["[\"starts-with\",\"$key\",\"a/\"]", "[\"content-length-range\",1,\(limit)]"] + conditions
                    return Base64.encode(
                        "{\"expiration\":\"2026-01-02T04:04:05.000Z\",\"conditions\":[\(all.joined(separator: ","))]}"
                            .utf8
                    )
                },
                at: noon.unixSeconds
            )
            var text = ""
            for field in [SigningField("key", key), SigningField("success_action_status", "201")] + fields {
                text += "--x\r\nContent-Disposition: form-data; name=\"\(field.name)\"\r\n\r\n\(field.value)\r\n"
            }
            text += "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n\(file)\r\n--x--\r\n"
            let type: HTTPFields = ["Content-Type": "multipart/form-data; boundary=x"]
            return await bench.send(try s3Head("POST", target, type), Array(text.utf8))
        }
        for target in ["/bucket-1", "/"] {
            let done = try await post("a/${filename}", "hello", to: target)
            #expect(done.outcome == "201" && done.fields["ETag"] == Self.hello.tag)
            #expect(done.fields["Content-MD5"] == Self.hello.md5)
            #expect(done.element("Key") == "a/f" && done.element("Bucket") == "bucket-1")
        }
        #expect(try await post("b/1", "hello", to: "/").outcome == "403 AccessDenied")
        #expect(try await post("a/1", "hello", to: "/", limit: 4).outcome == "400 EntityTooLarge")
        let other = try await post("a/1", "hello", to: "/bucket-2")
        #expect(other.outcome == "404 NoSuchBucket" || other.outcome == "403 AccessDenied")
        #expect(other.element("HostId") != nil)
    }

    @Test("lists of the SDK for PHP have parameters without values", arguments: Signature.oss)
    func bareParameters(_ signature: Signature) async throws {
        let bench = try await ObjectBench()
        let referer: HTTPFields = ["Referer": "http://bucket-1.oss-cn-hangzhou.aliyuncs.com/"]
        for key in ["a", "b/c"] {
            let put = try await bench.send("PUT", "/bucket-1/\(key)", by: signature, referer, content: [1])
            #expect(put.outcome == "200")
        }
        for query in [
            "delimiter&encoding-type=url&marker&max-keys=3&prefix",
            "delimiter=&encoding-type=url&list-type=2&max-keys=100&prefix&start-after",
            "delimiter&encoding-type=url&key-marker&max-keys=100&prefix&version-id-marker&versions",
        ] {
            let list = try await bench.send("GET", "/bucket-1/?\(query)", by: signature, referer)
            #expect(list.outcome == "200" && list.element("IsTruncated") == "false", "\(query)")
            #expect(list.text?.contains("<Key>a</Key>") == true && list.text?.contains("<Key>b/c</Key>") == true)
        }
        let uploads = try await bench.send("GET", "/bucket-1/?encoding-type=url&uploads", by: signature, referer)
        #expect(uploads.outcome == "200")
    }

    @Test("the error of a HEAD request is in a field")
    func headError() async throws {
        let bench = try await ObjectBench()
        let response = try await bench.send("HEAD", "/bucket-1/none", by: .ossV4)
        #expect(response.status == 404)
        let bytes = try #require(response.fields["x-oss-err"].flatMap { Base64.decode($0) })
        #expect(response.fields["x-oss-error"] == response.fields["x-oss-err"])
        #expect(String(decoding: bytes, as: UTF8.self).contains("<Code>NoSuchKey</Code>"))
    }
}
