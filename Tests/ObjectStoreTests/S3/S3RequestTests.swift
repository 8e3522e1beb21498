internal import Bytes
import Foundation
import HTTPWire
import Signing
import Testing
import UploadCore
import UploadModel
import XMLText

@testable import ObjectStore

@Suite("Decoding of S3 requests", .timeLimit(.minutes(10)))
struct S3RequestTests {
    private static let endpoint = EndpointHosts(hosts: ["s3.example.org", "s3-alias.example.org"])

    private static func operation(
        _ method: String,
        _ target: String,
        _ fields: HTTPFields = [:]
    ) throws(ObjectError) -> ObjectOperation {
        guard let head = try? s3Head(method, target, fields) else {
            throw ObjectError(.invalidURI, "no target: \(target)")
        }
        return try s3Operation(head, at: endpoint)
    }

    private static let name = ObjectName(bucket: "bucket-1", key: "a/b")

    @Test(
        "each operation has its method and parameters",
        arguments: [
            ("GET", "/", "ListBuckets"), ("GET", "/?x-id=ListBuckets", "ListBuckets"),
            ("PUT", "/bucket-1", "CreateBucket"), ("PUT", "/bucket-1/", "CreateBucket"),
            ("HEAD", "/bucket-1", "HeadBucket"), ("DELETE", "/bucket-1", "DeleteBucket"),
            ("GET", "/bucket-1?location", "GetBucketLocation"), ("GET", "/bucket-1", "ListObjects"),
            ("GET", "/bucket-1?list-type=2", "ListObjectsV2"), ("GET", "/bucket-1?uploads", "ListMultipartUploads"),
            ("GET", "/bucket-1?cors", "GetBucketCors"), ("PUT", "/bucket-1?cors=", "PutBucketCors"),
            ("DELETE", "/bucket-1?cors", "DeleteBucketCors"),
            ("GET", "/bucket-1?lifecycle", "GetBucketLifecycleConfiguration"),
            ("PUT", "/bucket-1?lifecycle", "PutBucketLifecycleConfiguration"),
            ("DELETE", "/bucket-1?lifecycle", "DeleteBucketLifecycle"), ("POST", "/bucket-1?delete", "DeleteObjects"),
            ("PUT", "/bucket-1/a/b", "PutObject"), ("PUT", "/bucket-1/a/b?versionId=null", "PutObject"),
            ("GET", "/bucket-1/a/b", "GetObject"), ("HEAD", "/bucket-1/a/b?unknown=1", "HeadObject"),
            ("DELETE", "/bucket-1/a/b", "DeleteObject"), ("GET", "/bucket-1/a/b?tagging", "GetObjectTagging"),
            ("PUT", "/bucket-1/a/b?tagging", "PutObjectTagging"),
            ("DELETE", "/bucket-1/a/b?tagging", "DeleteObjectTagging"),
            ("POST", "/bucket-1/a/b?uploads", "CreateMultipartUpload"),
            ("PUT", "/bucket-1/a/b?uploadId=1&partNumber=10000", "UploadPart"),
            ("GET", "/bucket-1/a/b?uploadId=1", "ListParts"),
            ("POST", "/bucket-1/a/b?uploadId=1", "CompleteMultipartUpload"),
            ("DELETE", "/bucket-1/a/b?uploadId=1", "AbortMultipartUpload"), ("OPTIONS", "/bucket-1/a/b", "Preflight"),
        ]
    )
    func operations(_ method: String, _ target: String, _ name: String) throws {
        let operation = try Self.operation(method, target)
        #expect(operation.name == name)
        #expect(operation.bucket == (name == "ListBuckets" ? nil : "bucket-1"))
        if target.hasPrefix("/bucket-1/a"), method != "OPTIONS" { #expect(operation.object == Self.name) }
    }

    @Test("copies and forms are recognised by their headers")
    func byHeaders() throws {
        let source: HTTPFields = [
            "x-amz-copy-source": "/bucket-2/a%2Bb%20+c//%C3%BC?versionId=null",
            "x-amz-copy-source-if-none-match": "\"x\"",
        ]
        let from = CopySource(
            ObjectName(bucket: "bucket-2", key: "a+b +c//ü"),
            conditions: ["If-None-Match": "\"x\""]
        )
        #expect(try Self.operation("PUT", "/bucket-1/a/b", source) == .copyObject(Self.name, from: from))
        var ranged = source
        ranged["x-amz-copy-source-range"] = "bytes=0-9"
        let target = "/bucket-1/a/b?uploadId=1%202&partNumber=2"
        let part = PartReference(2, of: "1 2")
        #expect(
            try Self.operation("PUT", target, ranged) == .uploadPartCopy(Self.name, part, from: from, range: 0...9)
        )
        #expect(try Self.operation("PUT", target, source) == .uploadPartCopy(Self.name, part, from: from, range: nil))
        let form: HTTPFields = ["Content-Type": "multipart/form-data; boundary=x"]
        #expect(try Self.operation("POST", "/bucket-1", form) == .postObject("bucket-1"))
    }

    @Test(
        "invalid requests are refused",
        arguments: [
            ("PUT", "/bucket-1?acl", ObjectErrorCode.accessControlListNotSupported),
            ("PUT", "/bucket-1/a?acl", .accessControlListNotSupported),
            ("GET", "/bucket-1/a?policy", .notImplemented), ("PUT", "/bucket-1?versioning", .notImplemented),
            ("PUT", "/bucket-1?versions", .methodNotAllowed), ("GET", "/bucket-1/a?versions", .invalidRequest),
            ("GET", "/bucket-1?versions&version-id-marker=null", .invalidArgument),
            ("GET", "/bucket-1?bucketInfo", .methodNotAllowed), ("GET", "/bucket-1/a?versionId=1", .notImplemented),
            ("PUT", "/bucket-1/a?x", .notImplemented), ("POST", "/bucket-1/a?process", .notImplemented),
            ("DELETE", "/bucket-1/a?x=", .notImplemented), ("PUT", "/bucket-1?referer", .notImplemented),
            ("GET", "/bucket-1?stat", .notImplemented), ("HEAD", "/bucket-1?x", .notImplemented),
            ("DELETE", "/bucket-1/a?versionId=x", .notImplemented), ("PUT", "/bucket-1?object-lock", .notImplemented),
            ("PUT", "/bucket-1/a?retention", .notImplemented), ("PUT", "/bucket-1/a?legal-hold", .notImplemented),
            ("PUT", "/bucket-1?website", .notImplemented), ("PUT", "/bucket-1?tagging", .notImplemented),
            ("PUT", "/bucket-1?encryption", .notImplemented), ("POST", "/bucket-1/a?restore", .notImplemented),
            ("POST", "/bucket-1/a?select&select-type=2", .notImplemented),
            ("GET", "/bucket-1/a?torrent", .notImplemented),
            ("GET", "/bucket-1/a?attributes", .invalidRequest), ("PUT", "/bucket-1?replication", .notImplemented),
            ("PUT", "/", .methodNotAllowed), ("GET", "/?acl", .invalidRequest), ("GET", "/?cors", .invalidRequest),
            ("PATCH", "/bucket-1", .methodNotAllowed), ("POST", "/bucket-1/a", .methodNotAllowed),
            ("PUT", "/bucket-1?delete", .methodNotAllowed), ("POST", "/bucket-1?uploads", .methodNotAllowed),
            ("POST", "/bucket-1?cors", .methodNotAllowed), ("PUT", "/bucket-1?location", .methodNotAllowed),
            ("POST", "/bucket-1", .preconditionFailed), ("PUT", "/bucket-1/a?uploads", .methodNotAllowed),
            ("GET", "/bucket-1/a?uploads", .invalidRequest), ("POST", "/bucket-1/a?delete", .invalidRequest),
            ("GET", "/bucket-1/a?location", .invalidRequest), ("GET", "/bucket-1?uploadId=1", .invalidRequest),
            ("GET", "/bucket-1/a?tagging&uploadId=1", .invalidArgument),
            ("HEAD", "/bucket-1/a?uploadId=1", .methodNotAllowed),
            ("PUT", "/bucket-1/a?partNumber=1", .invalidRequest), ("PUT", "/bucket-1/a?uploadId=1", .invalidRequest),
            ("PUT", "/bucket-1/a?uploadId=&partNumber=1", .noSuchUpload),
            ("PUT", "/bucket-1/a?uploadId=1&uploadId=2&partNumber=1", .invalidArgument),
            ("PUT", "/bucket-1/a?uploadId=1&partNumber=0", .invalidArgument),
            ("PUT", "/bucket-1/a?uploadId=1&partNumber=10001", .invalidArgument),
            ("PUT", "/bucket-1/a?uploadId=1&partNumber=-1", .invalidArgument),
            ("PUT", "/bucket-1/a?uploadId=1&partNumber=", .invalidArgument),
            ("PUT", "/bucket-1/a?uploadId=1&partNumber=99999999999999999999", .invalidArgument),
            ("GET", "/bucket-1/a?partNumber=x", .invalidArgument),
            ("GET", "/bucket-1/a?uploadId=1&max-parts=x", .invalidArgument),
            ("GET", "/bucket-1/a?uploadId=1&part-number-marker=-2", .invalidArgument),
            ("GET", "/bucket-1?max-keys=x", .invalidArgument), ("GET", "/bucket-1?max-keys=-1", .invalidArgument),
            ("GET", "/bucket-1?max-keys=1&max-keys=2", .invalidArgument),
            ("GET", "/bucket-1?encoding-type=x", .invalidArgument), ("GET", "/bucket-1?list-type=3", .invalidArgument),
            ("GET", "/bucket-1?list-type=2&continuation-token=x&continuation-token=y", .invalidArgument),
            ("GET", "/?max-buckets=0", .invalidArgument), ("GET", "/?max-buckets=10001", .invalidArgument),
            ("GET", "/?continuation-token=x", .invalidArgument),
            ("GET", "/?continuation-token=\(ListingPosition.prefix("a/").token)", .invalidArgument),
            ("GET", "/bucket-1?uploads&max-uploads=1.5", .invalidArgument), ("GET", "/bucket-1?a=%zz", .invalidURI),
            ("GET", "/bucket-1?prefix=%00", .invalidURI), ("GET", "/bucket-1?prefix=%FF", .invalidURI),
            ("GET", "/ab", .invalidBucketName), ("GET", "/Bucket-1", .invalidBucketName),
            ("GET", "/bucket_1", .invalidBucketName), ("GET", "/-bucket", .invalidBucketName),
            ("GET", "/bucket-", .invalidBucketName), ("GET", "/b..t", .invalidBucketName),
            ("GET", "/192.168.5.4", .invalidBucketName), ("GET", "/xn--bucket", .invalidBucketName),
            ("GET", "/bucket-s3alias", .invalidBucketName), ("GET", "//key", .invalidBucketName),
            ("GET", "/..", .invalidBucketName), ("GET", "/" + String(repeating: "a", count: 64), .invalidBucketName),
            ("PUT", "/bucket-1/" + String(repeating: "a", count: 1025), .keyTooLong),
            ("PUT", "/bucket-1/" + String(repeating: "%C3%BC", count: 513), .keyTooLong),
        ] as [(String, String, ObjectErrorCode)]
    )
    func refusals(_ method: String, _ target: String, _ code: ObjectErrorCode) {
        #expect(s3Code { () throws(ObjectError) in try Self.operation(method, target) } == code)
    }

    @Test("the longest allowed names are accepted")
    func longest() throws {
        let key = String(repeating: "ü", count: 512)
        #expect(try Self.operation("PUT", "/bucket-1/" + String(repeating: "%C3%BC", count: 512)).object?.key == key)
        let bucket = String(repeating: "a", count: 63)
        #expect(try Self.operation("PUT", "/\(bucket)") == .createBucket(bucket))
        #expect(try Self.operation("PUT", "/a.b") == .createBucket("a.b"))
    }

    @Test(
        "a key is decoded once and not normalised",
        arguments: [
            ("/bucket-1/a//b", "a//b"), ("/bucket-1//a", "/a"), ("/bucket-1/a/", "a/"), ("/bucket-1//", "/"),
            ("/bucket-1/a+b", "a+b"), ("/bucket-1/a%2Bb%20c", "a+b c"), ("/bucket-1/a%2Fb", "a/b"),
            ("/bucket-1/.", "."), ("/bucket-1/../a", "../a"), ("/bucket-1/a/./b", "a/./b"), ("/bucket-1/%252F", "%2F"),
            ("/bucket-1/%E6%97%A5/e%CC%81", "日/e\u{301}"), ("/bucket-1/x%3Fy%23z", "x?y#z"), ("/bucket%2D1/a", "a"),
            ("/bucket-1%2Fa", "a"), ("/bucket-1/%C2%A0", "\u{A0}"),
        ]
    )
    func keys(_ target: String, _ key: String) throws {
        let object = try #require(try Self.operation("GET", target).object)
        #expect(object.bucket == "bucket-1")
        #expect(Array(object.key.utf8) == Array(key.utf8))
    }

    @Test(
        "the bucket can be in the host",
        arguments: [
            ("bucket-1.s3.example.org", "/a//b", "bucket-1", "a//b"),
            ("BUCKET-1.S3.example.org:80", "/", "bucket-1", ""),
            ("a.b.s3.example.org:8443", "/bucket-2/x", "a.b", "bucket-2/x"),
            ("s3.example.org", "/bucket-1/x", "bucket-1", "x"), ("s3.example.org:1", "/bucket-1", "bucket-1", ""),
            ("other.example.org", "/bucket-1/x", "bucket-1", "x"), ("127.0.0.1:9000", "/bucket-1/x", "bucket-1", "x"),
            ("[::1]:9000", "/bucket-1/x", "bucket-1", "x"), ("xs3.example.org", "/bucket-1/x", "bucket-1", "x"),
            ("bucket-1.s3-alias.example.org", "/x", "bucket-1", "x"),
            (".s3.example.org", "/bucket-1/x", "bucket-1", "x"),
        ]
    )
    func hosts(_ host: String, _ target: String, _ bucket: String, _ key: String) throws {
        let head = try s3Head("GET", target, ["Host": host])
        #expect(Self.endpoint.address(of: head) == EndpointHosts.Address(bucket: bucket, key: key))
    }

    @Test("the authority of the target replaces Host")
    func authority() throws {
        let head = try s3Head("GET", "http://bucket-2.s3.example.org/x", ["Host": "bucket-1.s3.example.org"])
        #expect(Self.endpoint.address(of: head) == EndpointHosts.Address(bucket: "bucket-2", key: "x"))
    }

    @Test("parameters of listings are read")
    func listings() throws {
        let target = "/bucket-1?prefix=a%20b%2B&delimiter=%2F&marker=x+y&max-keys=5000&encoding-type=url"
        guard case .listObjects(let first) = try Self.operation("GET", target) else {
            throw ObjectError(.internalError)
        }
        #expect(first.prefix == "a b+" && first.delimiter == "/" && first.marker == "x y" && first.maximum == 1000)
        #expect(first.encodesURL && first.wantsOwner && (try first.start()) == .key("x y"))

        let token = ListingPosition.prefix("a/").token
        let second = "/bucket-1?list-type=2&start-after=s&continuation-token=\(token)&max-keys=0&delimiter=&marker=m"
        guard case .listObjects(let listing) = try Self.operation("GET", second) else {
            throw ObjectError(.internalError)
        }
        #expect(listing.marker == "s" && listing.delimiter == nil && listing.maximum == 0 && !listing.wantsOwner)
        #expect(try listing.start() == .prefix("a/"))
        for token in ["x", "AQ", "!", token + "A", "AwB"] {
            guard
                case .listObjects(let listing) = try Self.operation(
                    "GET",
                    "/bucket-1?list-type=2&continuation-token=\(token)"
                )
            else { throw ObjectError(.internalError) }
            #expect(s3Code { () throws(ObjectError) in try listing.start() } == .invalidArgument, "\(token)")
        }

        let third = "/bucket-1?uploads&key-marker=a/&upload-id-marker=u&delimiter=/&max-uploads=3"
        guard case .listMultipartUploads(var uploads) = try Self.operation("GET", third) else {
            throw ObjectError(.internalError)
        }
        #expect(uploads.start == .key("a/", id: "u") && uploads.maximum == 3)
        uploads.uploadIDMarker = nil
        #expect(uploads.start == .prefix("a/"))
        guard case .listMultipartUploads(let other) = try Self.operation("GET", "/bucket-1?uploads&upload-id-marker=u")
        else { throw ObjectError(.internalError) }
        #expect(other.start == nil && other.uploadIDMarker == nil)
    }

    @Test("an empty continuation token begins a listing, and is returned")
    func emptyToken() throws {
        guard
            case .listObjects(let listing) = try Self.operation(
                "GET",
                "/bucket-1?list-type=2&continuation-token=&start-after=s"
            )
        else { throw ObjectError(.internalError) }
        #expect(listing.token == "" && (try listing.start()) == .key("s"))
    }

    @Test(
        "lists of buckets have pages, prefixes and regions",
        arguments: [
            ("", ["a-1", "b-1", "b-2", "c-1"], nil), ("max-buckets=2", ["a-1", "b-1"], "b-1"),
            ("max-buckets=2&continuation-token=\(ListingPosition.key("b-1").token)", ["b-2", "c-1"], nil),
            ("max-buckets=4&continuation-token=", ["a-1", "b-1", "b-2", "c-1"], nil),
            ("prefix=b-", ["b-1", "b-2"], nil),
            ("prefix=b-&max-buckets=1", ["b-1"], "b-1"), ("prefix=x", [], nil),
            ("bucket-region=here&prefix=c", ["c-1"], nil),
            ("bucket-region=elsewhere", [], nil),
        ] as [(String, [String], String?)]
    )
    func buckets(_ query: String, _ names: [String], _ last: String?) throws {
        guard case .listBuckets(let listing) = try Self.operation("GET", "/?" + query) else {
            throw ObjectError(.internalError)
        }
        let page = listing.page(of: ["a-1", "b-1", "b-2", "c-1"], in: "here") { $0 }
        #expect(page.0 == names && page.isTruncated == (last != nil))
        let bytes = BucketDocuments.list(
            page.0.map { (name: $0, createdAt: noon) },
            listing,
            isTruncated: page.isTruncated,
            owner: ObjectOwner(id: "o", name: "n"),
            region: "here"
        )
        let node = try #require(XMLNode.parse(bytes))
        #expect(node["ContinuationToken"].flatMap { ListingPosition(token: $0) } == last.map { .key($0) })
        #expect(node["Prefix"] == listing.prefix)
        let shown = node.first("Buckets")?.all("Bucket") ?? []
        #expect(shown.map { $0["BucketRegion"] } == names.map { _ in query.isEmpty ? nil : "here" })
    }

    @Test("parameters of reads are decoded")
    func reading() throws {
        let target = "/bucket-1/a/b?response-content-disposition=attachment%3B%20filename%3D%22x%22&response-expires=0"
        let fields: HTTPFields = ["Range": "bytes=1-", "x-amz-checksum-mode": "ENABLED"]
        var wanted = ObjectReading()
        wanted.range = "bytes=1-"
        wanted.wantsChecksum = true
        wanted.overrides = ["content-disposition": "attachment; filename=\"x\"", "expires": "0"]
        #expect(try Self.operation("GET", target, fields) == .getObject(Self.name, wanted))
        var part = ObjectReading()
        part.part = 3
        #expect(try Self.operation("HEAD", "/bucket-1/a/b?partNumber=3") == .headObject(Self.name, part))
        #expect(
            s3Code { () throws(ObjectError) in
                try Self.operation("GET", "/bucket-1/a?partNumber=3", ["Range": "bytes=1-"])
            }
                == .invalidRequest
        )
    }

    @Test(
        "headers that request unsupported features are refused",
        arguments: [
            ("x-amz-acl", "public-read", ObjectErrorCode.accessControlListNotSupported),
            ("x-amz-grant-read", "id=1", .accessControlListNotSupported),
            ("x-amz-storage-class", "GLACIER", .invalidStorageClass),
            ("x-amz-server-side-encryption", "AES256", .notImplemented),
            ("x-amz-server-side-encryption-customer-key", "x", .notImplemented),
            ("x-amz-object-lock-mode", "GOVERNANCE", .notImplemented),
            ("X-Amz-Bucket-Object-Lock-Enabled", "true", .notImplemented),
            ("x-amz-website-redirect-location", "/", .notImplemented),
            ("x-amz-expected-bucket-owner", "1", .invalidBucketOwner),
            ("x-amz-expected-bucket-owner", "123456789012", .accessDenied),
            ("x-amz-source-expected-bucket-owner", "00000000000x", .invalidBucketOwner),
            ("x-amz-source-expected-bucket-owner", "000000000001", .accessDenied),
            ("x-amz-write-offset-bytes", "0", .notImplemented),
            ("x-amz-copy-source", "bucket-2", .invalidArgument), ("x-amz-copy-source", "bucket-2/", .invalidArgument),
            ("x-amz-copy-source", "B/a", .invalidBucketName), ("x-amz-copy-source", "bucket-2/%zz", .invalidArgument),
            ("x-amz-copy-source", "bucket-2/%FF", .invalidArgument),
            ("x-amz-copy-source", "bucket-2/a?versionId=1", .notImplemented),
            ("x-amz-copy-source", "arn:aws:s3:::bucket-2/a", .invalidBucketName),
        ] as [(String, String, ObjectErrorCode)]
    )
    func headers(_ name: String, _ value: String, _ code: ObjectErrorCode) throws {
        var fields = HTTPFields()
        fields.append(try #require(FieldName(name)), value)
        #expect(s3Code { () throws(ObjectError) in try Self.operation("PUT", "/bucket-1/a/b", fields) } == code)
        // In the query of a presigned URL it is the same.
        let query = "\(name)=\(PercentEncoding.encode(value))&X-Amz-Signature=x"
        #expect(s3Code { () throws(ObjectError) in try Self.operation("PUT", "/bucket-1/a/b?\(query)") } == code)
    }

    @Test(
        "an invalid range of a copy source is refused",
        arguments: [
            "0-9", "bytes=5-4", "bytes=-5", "bytes=1-", "bytes=1--2", "bytes=0-9,11-12", "bytes=0-99999999999999999999",
        ]
    )
    func ranges(_ text: String) {
        let fields: HTTPFields = ["x-amz-copy-source": "bucket-2/a", "x-amz-copy-source-range": text]
        let target = "/bucket-1/a/b?uploadId=1&partNumber=1"
        #expect(s3Code { () throws(ObjectError) in try Self.operation("PUT", target, fields) } == .invalidArgument)
    }

    @Test("headers in the query of a presigned URL count, except those of the signature or the content")
    func hoisted() throws {
        let query =
            "x-amz-meta-a=b%20c&X-Amz-Tagging=k%3Dv&x-amz-checksum-crc32=AAAAAA%3D%3D&x-amz-sdk-checksum-algorithm=CRC32"
            + "&x-amz-checksum-algorithm=SHA256&X-Amz-Date=x&X-Amz-Content-Sha256=y&response-expires=0&x-amz-meta-h=query"
        let head = try s3Head("PUT", "/bucket-1/a?\(query)&X-Amz-Signature=x", ["x-amz-meta-h": "head"])
        let request = try RequestReader(head, .aws)
        let own = request.all("").map { "\($0.name): \($0.value)" }
        #expect(own == ["meta-h: head", "meta-a: b c", "tagging: k=v", "checksum-algorithm: SHA256"])
        let headers = try S3ObjectHeaders(request)
        #expect(headers.headers == ["x-amz-meta-a": "b c", "x-amz-meta-h": "head"] && headers.tags == ["k": "v"])
        let unsigned = try s3Head("PUT", "/bucket-1/a?\(query)")
        #expect(try RequestReader(unsigned, .aws).all("").isEmpty)
    }

    @Test("headers, metadata and tags are kept with an object")
    func objectHeaders() throws {
        var fields: HTTPFields = [
            "Content-Type": "video/mp4", "Cache-Control": "no-store", "content-encoding": "aws-chunked, gzip",
            "X-Amz-Meta-A": "1", "x-amz-meta-a": "2", "x-amz-meta-empty": "", "Expires": "0", "Accept": "x",
        ]
        let headers = try S3ObjectHeaders(RequestReader(try s3Head("PUT", "/bucket-1/a", fields), .aws))
        #expect(headers.contentType == "video/mp4" && headers.tags.isEmpty)
        #expect(
            headers.headers == [
                "cache-control": "no-store", "content-encoding": "gzip", "x-amz-meta-a": "1,2", "x-amz-meta-empty": "",
                "expires": "0",
            ]
        )
        fields = ["Content-Encoding": "aws-chunked", "x-amz-meta-a": String(repeating: "x", count: 2047)]
        let longest = try S3ObjectHeaders(RequestReader(try s3Head("PUT", "/bucket-1/a", fields), .aws))
        #expect(longest.headers.keys.sorted() == ["x-amz-meta-a"] && longest.contentType == nil)
        fields["x-amz-meta-b"] = ""
        let head = try s3Head("PUT", "/bucket-1/a", fields)
        #expect(
            s3Code { () throws(ObjectError) in try S3ObjectHeaders(RequestReader(head, .aws)) } == .metadataTooLarge
        )
    }

    @Test("directives decide whether a copy uses the request's metadata")
    func directives() throws {
        let address = EndpointHosts.Address(bucket: "bucket-1", key: "a")
        func command(_ vendor: Vendor, _ fields: HTTPFields) throws(ObjectError) -> ObjectCommand {
            guard var head = try? s3Head("PUT", "/bucket-1/a", fields) else { throw ObjectError(.invalidURI) }
            let source: FieldName = vendor == .aws ? "x-amz-copy-source" : "x-oss-copy-source"
            head.fields[source] = "/bucket-2/a"
            return try ObjectCommand(RequestReader(head, vendor), for: address)
        }
        for (value, replaces) in [(nil, false), ("COPY", false), ("REPLACE", true)] as [(String?, Bool)] {
            var fields = HTTPFields()
            fields["x-amz-metadata-directive"] = value
            #expect(try command(.aws, fields).write.replacesMetadata == replaces)
        }
        #expect(try command(.aliyun, ["x-oss-tagging-directive": "replaced"]).write.replacesTags)
        for wrong in ["x", "replace"] {
            let fields: HTTPFields = ["x-amz-tagging-directive": wrong]
            #expect(s3Code { () throws(ObjectError) in try command(.aws, fields) } == .invalidArgument)
        }
    }

    @Test("harmless headers are accepted")
    func harmless() throws {
        let fields: HTTPFields = [
            "x-amz-acl": "private", "x-amz-storage-class": "STANDARD", "x-amz-meta-a": "b", "x-amz-request-payer": "x",
            "x-amz-bucket-object-lock-enabled": "false", "x-amz-object-ownership": "BucketOwnerEnforced",
        ]
        #expect(try Self.operation("PUT", "/bucket-1/a/b", fields) == .putObject(Self.name))
    }
}
