import Bytes
import Foundation
import HTTPWire
import Signing
import SluiceTesting
import Testing
import UploadCore
import UploadModel

@testable import ObjectGrants

/// Unauthorised requests are refused with the code that the vendor's clients know, and change nothing.
@Suite("What is denied at the endpoints of OSS and COS", .timeLimit(.minutes(10)))
struct VendorDenialTests {
    struct Row: Sendable, CustomTestStringConvertible {
        let what: String
        let oss: String
        let cos: String
        let ask: @Sendable (ObjectBench, Signature) async throws -> Response

        init(
            _ what: String,
            _ oss: String,
            cos: String? = nil,
            _ ask: @escaping @Sendable (ObjectBench, Signature) async throws -> Response
        ) {
            self.what = what
            self.oss = oss
            self.cos = cos ?? oss
            self.ask = ask
        }

        var testDescription: String { what }
    }

    private static func session(_ bench: ObjectBench, _ grant: ObjectGrant? = nil) throws -> SigningCredentials {
        try bench.issuer.session(grant ?? bench.grant(), for: .aliyun)
    }

    static let access: [Row] = [
        Row("another key", "403 AccessDenied") {
            try await $0.send("PUT", "/bucket-1/b/1", session($0), by: $1, content: [1])
        },
        Row("another bucket", "403 AccessDenied") {
            try await $0.send("PUT", "/bucket-2/a/1", session($0), by: $1, content: [1])
        },
        Row("another bucket by its host", "403 AccessDenied") {
            let host: HTTPFields = ["Host": "bucket-2.s3.example.org"]
            return try await $0.send("PUT", "/a/1", session($0), by: $1, host, content: [1])
        },
        Row("reading with a session that uploads", "403 AccessDenied") {
            try await $0.send("GET", "/bucket-1/a/there", session($0), by: $1)
        },
        Row("removing with a session that uploads", "403 AccessDenied") {
            try await $0.send("DELETE", "/bucket-1/a/there", session($0), by: $1)
        },
        Row("uploading with a session that reads", "403 AccessDenied") {
            try await $0.send("PUT", "/bucket-1/a/1", session($0, $0.grant(actions: ObjectAction.read)), by: $1)
        },
        Row("listing above the prefix", "403 AccessDenied") {
            let session = try session($0, $0.grant(actions: ObjectAction.read))
            return try await $0.send("GET", "/bucket-1/?prefix=", session, by: $1)
        },
        Row("a copy of an object that the session does not cover", "403 AccessDenied") {
            let all = Set(ObjectAction.allCases)
            let source: HTTPFields = [
                "x-oss-copy-source": "/bucket-1/b/there", "x-cos-copy-source": "bucket-1.x/b/there",
            ]
            return try await $0.send("PUT", "/bucket-1/a/1", session($0, $0.grant(actions: all)), by: $1, source)
        },
        Row("parts of an upload for another key", "404 NoSuchUpload") {
            let id = try await $0.begin("/bucket-1/a/1", session($0), by: $1)
            let target = "/bucket-1/a/2?partNumber=1&uploadId=\(id)"
            return try await $0.send("PUT", target, session($0), by: $1, content: [1])
        },
        Row("a new bucket", "403 AccessDenied") { try await $0.send("PUT", "/bucket-3", session($0), by: $1) },
        Row("all buckets", "403 AccessDenied") {
            try await $0.send("GET", "/", session($0), by: $1, resource: OSSResource(bucket: nil))
        },
        Row("more bytes than the session allows", "400 EntityTooLarge") {
            try await $0.send(
                "PUT",
                "/bucket-1/a/1",
                session($0, $0.grant(maximumBytes: 3)),
                by: $1,
                content: [1, 2, 3, 4]
            )
        },
        Row("a media type that the session does not allow", "400 InvalidArgument", cos: "403 AccessDenied") {
            let session = try session($0, $0.grant(contentTypes: ["video/*"]))
            return try await $0.send(
                "PUT",
                "/bucket-1/a/1",
                session,
                by: $1,
                ["Content-Type": "text/html"],
                content: [1]
            )
        },
        Row("a one-time session that was used", "403 AccessDenied") {
            let session = try session($0, $0.grant(isOneTime: true))
            _ = try await $0.send("PUT", "/bucket-1/a/1", session, by: $1, content: [1])
            return try await $0.send("PUT", "/bucket-1/a/2", session, by: $1, content: [1])
        },
    ]

    static let credentials: [Row] = [
        Row("a session that is over", "403 SecurityTokenExpired", cos: "403 AccessDenied") {
            let session = try session($0, $0.grant(lasting: 100))
            $0.clock.advance(by: 101)
            return try await $0.send("PUT", "/bucket-1/a/1", session, by: $1, content: [1])
        },
        Row("credentials that are not known", "403 InvalidAccessKeyId") {
            let unknown = SigningCredentials(accessKeyID: "LTAInobody", secretAccessKey: "secret")
            return try await $0.send("PUT", "/bucket-1/a/1", unknown, by: $1, content: [1])
        },
        Row("a session without its token", "403 InvalidAccessKeyId") {
            let session = try session($0)
            let half = SigningCredentials(
                accessKeyID: session.accessKeyID,
                secretAccessKey: session.secretAccessKey
            )
            return try await $0.send("PUT", "/bucket-1/a/1", half, by: $1, content: [1])
        },
        Row("the token of another session", "403 InvalidSecurityToken", cos: "403 InvalidAccessKeyId") {
            let (one, other) = (try session($0), try session($0))
            let mixed = SigningCredentials(
                accessKeyID: one.accessKeyID,
                secretAccessKey: one.secretAccessKey,
                sessionToken: other.sessionToken
            )
            return try await $0.send("PUT", "/bucket-1/a/1", mixed, by: $1, content: [1])
        },
        Row("a token that was changed", "403 InvalidSecurityToken", cos: "403 InvalidAccessKeyId") {
            let session = try session($0)
            let token = try #require(session.sessionToken)
            let changed = SigningCredentials(
                accessKeyID: session.accessKeyID,
                secretAccessKey: session.secretAccessKey,
                sessionToken: String(token.dropLast()) + (token.last == "A" ? "Q" : "A")
            )
            return try await $0.send("PUT", "/bucket-1/a/1", changed, by: $1, content: [1])
        },
        Row("another secret", "403 SignatureDoesNotMatch") {
            let other = SigningCredentials(accessKeyID: "SLAKKNOWN", secretAccessKey: "other")
            return try await $0.send("PUT", "/bucket-1/a/1", other, by: $1, content: [1])
        },
    ]

    static let requests: [Row] = [
        Row("another method", "403 SignatureDoesNotMatch") {
            var head = try $0.signed("GET", "/bucket-1/a/there", by: $1)
            head.method = .delete
            return await $0.send(head)
        },
        Row("another key than was signed", "403 SignatureDoesNotMatch") {
            var head = try $0.signed("PUT", "/bucket-1/a/1", by: $1)
            let query = head.target.rawQuery.map { "?\($0)" } ?? ""
            head.target = try RequestTarget(parsing: "/bucket-1/a/2\(query)")
            return await $0.send(head, [])
        },
        Row("another part than was signed", "403 SignatureDoesNotMatch") {
            let id = try await $0.begin("/bucket-1/a/1", by: $1)
            var head = try $0.signed("PUT", "/bucket-1/a/1?partNumber=1&uploadId=\(id)", by: $1)
            let query = try #require(head.target.rawQuery).replacing("partNumber=1", with: "partNumber=2")
            head.target = try RequestTarget(parsing: "/bucket-1/a/1?\(query)")
            return await $0.send(head, [])
        },
        Row("another media type than was signed", "403 SignatureDoesNotMatch") {
            let type: HTTPFields = ["Content-Type": "video/mp4"]
            var head = try $0.signed("PUT", "/bucket-1/a/1", by: $1, type)
            head.fields["Content-Type"] = "text/html"
            return await $0.send(head, [])
        },
        Row("signed an hour ago", "403 RequestTimeTooSkewed", cos: "403 AccessDenied") {
            await $0.send(try $0.signed("GET", "/bucket-1/a/there", by: $1, at: noon.addingTimeInterval(-3600)))
        },
        Row("two signatures", "400 InvalidArgument") {
            var head = try $0.signed("GET", "/bucket-1/a/there", by: $1)
            if $1.isQuery {
                head.fields["Authorization"] = $1 == .cosQuery ? "q-sign-algorithm=sha1&q-ak=x" : "OSS x:y"
            } else {
                let more = $1 == .cos ? "q-ak=x" : "OSSAccessKeyId=x"
                head.target = try RequestTarget(parsing: "/bucket-1/a/there?\(more)")
            }
            return await $0.send(head)
        },
        Row("what nobody here would heed in the query", "400 NotImplemented", cos: "501 NotImplemented") {
            let name = $1 == .cos || $1 == .cosQuery ? "ci-process" : "x-oss-process"
            return try await $0.send("GET", "/bucket-1/a/there?\(name)=image", by: $1)
        },
        Row("encryption by keys of the client", "400 NotImplemented", cos: "501 NotImplemented") {
            let fields: HTTPFields = [
                "x-oss-server-side-encryption": "KMS", "x-cos-server-side-encryption": "cos/kms",
            ]
            return try await $0.send("PUT", "/bucket-1/a/1", by: $1, fields, content: [1])
        },
        Row("other content than its digest", "400 InvalidDigest", cos: "400 BadDigest") {
            let fields: HTTPFields = ["Content-MD5": "XUFAKrxLKna5cZ2REBfFkg=="]
            return try await $0.send("PUT", "/bucket-1/a/1", by: $1, fields, content: [1])
        },
        Row("a part that is too small", "400 EntityTooSmall") { bench, signature in
            let id = try await bench.begin("/bucket-1/a/1", by: signature)
            var list = ""
            for number in 1...2 {
                let target = "/bucket-1/a/1?partNumber=\(number)&uploadId=\(id)"
                let part = try await bench.send("PUT", target, by: signature, content: [1])
                list += "<Part><PartNumber>\(number)</PartNumber><ETag>\(part.fields["ETag"] ?? "")</ETag></Part>"
            }
            let document = Array("<CompleteMultipartUpload>\(list)</CompleteMultipartUpload>".utf8)
            return try await bench.send("POST", "/bucket-1/a/1?uploadId=\(id)", by: signature, content: document)
        },
        Row("a part whose tag a browser could not read", "400 InvalidPart") { bench, signature in
            let id = try await bench.begin("/bucket-1/a/1", by: signature)
            let target = "/bucket-1/a/1?partNumber=1&uploadId=\(id)"
            _ = try await bench.send("PUT", target, by: signature, content: [1])
            let list = "<Part><PartNumber>1</PartNumber><ETag>undefined</ETag></Part>"
            let document = Array("<CompleteMultipartUpload>\(list)</CompleteMultipartUpload>".utf8)
            return try await bench.send("POST", "/bucket-1/a/1?uploadId=\(id)", by: signature, content: document)
        },
        Row("a bucket that is not there", "404 NoSuchBucket") {
            try await $0.send("PUT", "/bucket-9/a", by: $1, content: [1])
        },
    ]

    @Test(
        "each request is refused with its code, and existing objects stay unchanged",
        arguments: access + credentials + requests,
        Signature.allCases
    )
    func denied(_ row: Row, signature: Signature) async throws {
        let bench = try await ObjectBench()
        for key in ["a/there", "b/there"] {
            #expect(try await bench.send("PUT", "/bucket-1/\(key)", content: [7]).outcome == "200")
        }
        #expect(try await bench.services.objects.createBucket("bucket-2"))
        let before = try await bench.services.objects.objects(ObjectQuery(bucket: "bucket-1", limit: 10)).map(\.id)
        let response = try await row.ask(bench, signature)
        let isCOS = Signature.cosBoth.contains(signature)
        var expected = isCOS ? row.cos : row.oss
        // A signature in a query has an end of its own.
        if signature.isQuery, expected == "403 RequestTimeTooSkewed" { expected = "403 AccessDenied" }
        #expect(response.outcome == expected)
        if let text = response.text {
            #expect(response.element(isCOS ? "TraceId" : "HostId") != nil)
            for secret in ["secret", "other"] { #expect(!text.contains(">\(secret)<")) }
        }
        let after = try await bench.services.objects.objects(ObjectQuery(bucket: "bucket-1", limit: 10))
        #expect(after.filter { $0.key.hasSuffix("there") == true }.map(\.id) == before)
        // Only what a row was allowed before it was refused.
        #expect(after.count <= before.count + 1)
        #expect(try await bench.services.objects.objects(ObjectQuery(bucket: "bucket-2", limit: 10)).isEmpty)
    }
}
