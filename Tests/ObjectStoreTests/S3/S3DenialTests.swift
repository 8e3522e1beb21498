import Bytes
import Foundation
import HTTPWire
import Signing
import SluiceTesting
import Testing
import UploadCore
import UploadModel

@testable import ObjectGrants

/// Unauthorised requests are refused with the code that S3 clients know, and change nothing.
@Suite("What is denied at the endpoint of S3", .timeLimit(.minutes(10)))
struct S3DenialTests {
    /// One row: who asks for what, and what the response is.
    struct Row: Sendable, CustomTestStringConvertible {
        let what: String
        let expected: String
        let ask: @Sendable (ObjectBench) async throws -> Response

        init(_ what: String, _ expected: String, _ ask: @escaping @Sendable (ObjectBench) async throws -> Response) {
            self.what = what
            self.expected = expected
            self.ask = ask
        }

        var testDescription: String { what }
    }

    private static func policy(_ statement: String) throws -> SessionPolicy {
        try SessionPolicy("{\"Version\":\"2012-10-17\",\"Statement\":[\(statement)]}", vendor: .aws)
    }

    private static let all: Set<ObjectAction> = Set(ObjectAction.allCases)

    /// By what the session is for.
    static let others: [Row] = [
        Row("another key", "403 AccessDenied") {
            try await $0.send("PUT", "/bucket-1/b/1", $0.issuer.session($0.grant()), content: [1])
        },
        Row("a key that begins as the only one", "403 AccessDenied") {
            try await $0.send("PUT", "/bucket-1/a/1x", $0.issuer.session($0.grant(.only("a/1"))), content: [1])
        },
        Row("the prefix without its end", "403 AccessDenied") {
            try await $0.send("PUT", "/bucket-1/a", $0.issuer.session($0.grant()), content: [1])
        },
        Row("the prefix in other letters", "403 AccessDenied") {
            try await $0.send("PUT", "/bucket-1/A/1", $0.issuer.session($0.grant()), content: [1])
        },
        Row("the prefix by way of another folder", "403 AccessDenied") {
            try await $0.send("PUT", "/bucket-1/b/../a/1", $0.issuer.session($0.grant()), content: [1])
        },
        Row("another bucket", "403 AccessDenied") {
            try await $0.send("PUT", "/bucket-2/a/1", $0.issuer.session($0.grant()), content: [1])
        },
        Row("another bucket by its host", "403 AccessDenied") {
            let host: HTTPFields = ["Host": "bucket-2.s3.example.org"]
            return try await $0.send("PUT", "/a/1", $0.issuer.session($0.grant()), host, content: [1])
        },
        Row("reading with a session that uploads", "403 AccessDenied") {
            try await $0.send("GET", "/bucket-1/a/there", $0.issuer.session($0.grant()))
        },
        Row("removing with a session that uploads", "403 AccessDenied") {
            try await $0.send("DELETE", "/bucket-1/a/there", $0.issuer.session($0.grant()))
        },
        Row("listing with a session that uploads", "403 AccessDenied") {
            try await $0.send("GET", "/bucket-1?prefix=a/", $0.issuer.session($0.grant()))
        },
        Row("listing beyond the prefix", "403 AccessDenied") {
            try await $0.send("GET", "/bucket-1", $0.issuer.session($0.grant(actions: all)))
        },
        Row("listing a shorter prefix", "403 AccessDenied") {
            try await $0.send("GET", "/bucket-1?list-type=2&prefix=a", $0.issuer.session($0.grant(actions: all)))
        },
        Row("uploads beyond the prefix", "403 AccessDenied") {
            try await $0.send("GET", "/bucket-1?uploads", $0.issuer.session($0.grant()))
        },
        Row("copying from another key", "403 AccessDenied") {
            let source: HTTPFields = ["x-amz-copy-source": "bucket-1/b/there"]
            return try await $0.send("PUT", "/bucket-1/a/1", $0.issuer.session($0.grant(actions: all)), source)
        },
        Row("copying with a session that only uploads", "403 AccessDenied") {
            let source: HTTPFields = ["x-amz-copy-source": "bucket-1/a/there"]
            return try await $0.send("PUT", "/bucket-1/a/1", $0.issuer.session($0.grant()), source)
        },
        Row("a part of another key's upload", "404 NoSuchUpload") {
            let id = try await $0.begin("b/1")
            let target = "/bucket-1/a/1?partNumber=1&uploadId=\(id)"
            return try await $0.send("PUT", target, $0.issuer.session($0.grant()), content: [1])
        },
        Row("a part under another key", "403 AccessDenied") {
            let id = try await $0.begin("b/1")
            let target = "/bucket-1/b/1?partNumber=1&uploadId=\(id)"
            return try await $0.send("PUT", target, $0.issuer.session($0.grant()), content: [1])
        },
        Row("ending another key's upload", "403 AccessDenied") {
            let id = try await $0.begin("b/1")
            return try await $0.send("DELETE", "/bucket-1/b/1?uploadId=\(id)", $0.issuer.session($0.grant()))
        },
        Row("a part copied from another key", "403 AccessDenied") {
            let credentials = try $0.issuer.session($0.grant(actions: all))
            let id = try await $0.begin("a/1", credentials)
            let source: HTTPFields = ["x-amz-copy-source": "bucket-1/b/there"]
            return try await $0.send("PUT", "/bucket-1/a/1?partNumber=1&uploadId=\(id)", credentials, source)
        },
        Row("tags of another key", "403 AccessDenied") {
            try await $0.send("PUT", "/bucket-1/b/there?tagging", $0.issuer.session($0.grant(actions: all)))
        },
        Row("all buckets", "403 AccessDenied") {
            try await $0.send("GET", "/", $0.issuer.session($0.grant(actions: all)))
        },
        Row("a bucket of one's own", "403 AccessDenied") {
            try await $0.send("PUT", "/bucket-3", $0.issuer.session($0.grant(actions: all)))
        },
        Row("removing the bucket", "403 AccessDenied") {
            try await $0.send("DELETE", "/bucket-1", $0.issuer.session($0.grant(actions: all)))
        },
        Row("rules for other origins", "403 AccessDenied") {
            try await $0.send("PUT", "/bucket-1?cors", $0.issuer.session($0.grant(actions: all)))
        },
    ]

    /// By policies and limits.
    static let limits: [Row] = [
        Row("an action that the policy does not allow", "403 AccessDenied") {
            let policy = try policy(#"{"Effect":"Allow","Action":"s3:GetObject","Resource":"*"}"#)
            return try await $0.send(
                "PUT",
                "/bucket-1/a/1",
                $0.issuer.session($0.grant().narrowed(by: policy)),
                content: [1]
            )
        },
        Row("an action that the policy denies", "403 AccessDenied") {
            let allow = #"{"Effect":"Allow","Action":"s3:*","Resource":"*"}"#
            let deny = #"{"Effect":"Deny","Action":"s3:PutObject","Resource":"arn:aws:s3:::bucket-1/a/secret/*"}"#
            let grant = $0.grant().narrowed(by: try policy("\(allow),\(deny)"))
            return try await $0.send("PUT", "/bucket-1/a/secret/1", $0.issuer.session(grant), content: [1])
        },
        Row("a key beyond the policy's", "403 AccessDenied") {
            let allow = #"{"Effect":"Allow","Action":"s3:PutObject","Resource":"arn:aws:s3:::bucket-1/a/x/*"}"#
            let grant = $0.grant().narrowed(by: try policy(allow))
            return try await $0.send("PUT", "/bucket-1/a/1", $0.issuer.session(grant), content: [1])
        },
        Row("a key that the policy allows, but not the grant", "403 AccessDenied") {
            let allow = #"{"Effect":"Allow","Action":"s3:PutObject","Resource":"arn:aws:s3:::bucket-1/b/*"}"#
            let grant = $0.grant().narrowed(by: try policy(allow))
            return try await $0.send("PUT", "/bucket-1/b/1", $0.issuer.session(grant), content: [1])
        },
        Row("more bytes than the grant allows", "400 EntityTooLarge") {
            let credentials = try $0.issuer.session($0.grant(maximumBytes: 3))
            return try await $0.send("PUT", "/bucket-1/a/1", credentials, content: [1, 2, 3, 4])
        },
        Row("a part of more bytes than the grant allows", "400 EntityTooLarge") {
            let credentials = try $0.issuer.session($0.grant(maximumBytes: 3))
            let id = try await $0.begin("a/1", credentials)
            let target = "/bucket-1/a/1?partNumber=1&uploadId=\(id)"
            return try await $0.send("PUT", target, credentials, content: [1, 2, 3, 4])
        },
        Row("parts of more bytes together", "400 EntityTooLarge") {
            let credentials = try $0.issuer.session($0.grant(maximumBytes: 3))
            let target = "/bucket-1/a/1?uploadId=\(try await $0.begin("a/1", credentials))"
            _ = try await $0.send("PUT", target + "&partNumber=1", credentials, content: [1, 2])
            return try await $0.send("PUT", target + "&partNumber=2", credentials, content: [1, 2])
        },
        Row("more bytes than the server takes", "400 EntityTooLarge") {
            let length: HTTPFields = ["Content-Length": String(200 << 20)]
            return await $0.send(try $0.signed("PUT", "/bucket-1/a/1", ObjectBench.administrator, length))
        },
        Row("a media type that the grant does not allow", "403 ContentTypeRefused") {
            let credentials = try $0.issuer.session($0.grant(contentTypes: ["video/*"]))
            return try await $0.send("PUT", "/bucket-1/a/1", credentials, ["Content-Type": "text/html"], content: [1])
        },
        Row("no media type where the grant asks for one", "403 ContentTypeRefused") {
            let credentials = try $0.issuer.session($0.grant(contentTypes: ["video/*"]))
            return try await $0.send("PUT", "/bucket-1/a/1", credentials, content: [1])
        },
        Row("parts of a media type that the grant does not allow", "403 ContentTypeRefused") {
            let credentials = try $0.issuer.session($0.grant(contentTypes: ["video/*"]))
            return try await $0.send("POST", "/bucket-1/a/1?uploads", credentials, ["Content-Type": "text/html"])
        },
        Row("a second object with a grant for one", "403 AccessDenied") {
            let credentials = try $0.issuer.session($0.grant(isOneTime: true))
            #expect(try await $0.send("PUT", "/bucket-1/a/1", credentials, content: [1]).outcome == "200")
            return try await $0.send("PUT", "/bucket-1/a/2", credentials, content: [1])
        },
        Row("a second upload in parts with a grant for one", "403 AccessDenied") {
            let credentials = try $0.issuer.session($0.grant(isOneTime: true))
            let id = try await $0.begin("a/1", credentials)
            let target = "/bucket-1/a/1?partNumber=1&uploadId=\(id)"
            #expect(try await $0.send("PUT", target, credentials, content: [1]).outcome == "200")
            return try await $0.send("POST", "/bucket-1/a/2?uploads", credentials)
        },
    ]

    /// By what was signed, and when.
    static let signatures: [Row] = [
        Row("nothing signed", "403 AccessDenied") { await $0.send(try s3Head("PUT", "/bucket-1/a/1")) },
        Row("a key that nobody knows", "403 InvalidAccessKeyId") {
            let unknown = SigningCredentials(accessKeyID: "SLAKOTHER", secretAccessKey: "secret")
            return try await $0.send("GET", "/bucket-1/a/there", unknown)
        },
        Row("another secret", "403 SignatureDoesNotMatch") {
            let wrong = SigningCredentials(accessKeyID: "SLAKKNOWN", secretAccessKey: "other")
            return try await $0.send("GET", "/bucket-1/a/there", wrong)
        },
        Row("a session that is over", "400 ExpiredToken") {
            let credentials = try $0.issuer.session($0.grant(lasting: 60))
            $0.clock.advance(by: 60)
            return try await $0.send("PUT", "/bucket-1/a/1", credentials, content: [1])
        },
        Row("a session without its token", "403 InvalidAccessKeyId") {
            let session = try $0.issuer.session($0.grant())
            let bare = SigningCredentials(accessKeyID: session.accessKeyID, secretAccessKey: session.secretAccessKey)
            return try await $0.send("PUT", "/bucket-1/a/1", bare, content: [1])
        },
        Row("a token that was changed", "400 InvalidToken") {
            let session = try $0.issuer.session($0.grant())
            let token = session.sessionToken.map { String($0.dropLast(4)) + "AAAA" }
            let changed = SigningCredentials(
                accessKeyID: session.accessKeyID,
                secretAccessKey: session.secretAccessKey,
                sessionToken: token
            )
            return try await $0.send("PUT", "/bucket-1/a/1", changed, content: [1])
        },
        Row("another session's token", "400 InvalidToken") {
            let (one, two) = (try $0.issuer.session($0.grant()), try $0.issuer.session($0.grant()))
            let mixed = SigningCredentials(
                accessKeyID: one.accessKeyID,
                secretAccessKey: one.secretAccessKey,
                sessionToken: two.sessionToken
            )
            return try await $0.send("PUT", "/bucket-1/a/1", mixed, content: [1])
        },
        Row("a session of another installation", "400 InvalidToken") {
            let foreign = try CredentialIssuer(master: master(2)).session($0.grant())
            return try await $0.send("PUT", "/bucket-1/a/1", foreign, content: [1])
        },
        Row("a request that was signed too long ago", "403 RequestTimeTooSkewed") {
            let head = try $0.signed("GET", "/bucket-1/a/there")
            $0.clock.advance(by: 901)
            return await $0.send(head)
        },
        Row("a request from the future", "403 RequestTimeTooSkewed") {
            let head = try s3Signed(
                "GET",
                "/bucket-1/a/there",
                ObjectBench.administrator,
                payload: .unsigned,
                at: noon.addingTimeInterval(1000)
            )
            return await $0.send(head)
        },
        Row("another method than was signed", "403 SignatureDoesNotMatch") {
            var head = try $0.signed("GET", "/bucket-1/a/there")
            head.method = .delete
            return await $0.send(head)
        },
        Row("another key than was signed", "403 SignatureDoesNotMatch") {
            var head = try $0.signed("GET", "/bucket-1/a/there")
            head.target = try RequestTarget(parsing: "/bucket-1/b/there")
            return await $0.send(head)
        },
        Row("a parameter more than was signed", "403 SignatureDoesNotMatch") {
            var head = try $0.signed("GET", "/bucket-1/a/there")
            head.target = try RequestTarget(parsing: "/bucket-1/a/there?response-content-type=text/html")
            return await $0.send(head)
        },
        Row("a header that was signed and changed", "403 SignatureDoesNotMatch") {
            var head = try $0.signed("PUT", "/bucket-1/a/1", ObjectBench.administrator, ["x-amz-meta-a": "1"])
            head.fields["x-amz-meta-a"] = "2"
            return await $0.send(head)
        },
        Row("a header that was not signed", "403 AccessDenied") {
            var head = try $0.signed("PUT", "/bucket-1/a/1")
            head.fields["x-amz-meta-a"] = "1"
            return await $0.send(head)
        },
        Row("a source of a copy that was not signed", "403 AccessDenied") {
            var head = try $0.signed("PUT", "/bucket-1/a/1")
            head.fields["x-amz-copy-source"] = "bucket-1/b/there"
            return await $0.send(head)
        },
        Row("another host than was signed", "403 SignatureDoesNotMatch") {
            var head = try $0.signed("GET", "/bucket-1/a/there")
            head.fields["Host"] = "other.example.org"
            return await $0.send(head)
        },
        Row("another region", "400 AuthorizationHeaderMalformed") {
            await $0.send(try s3Signed("GET", "/bucket-1/a/there", ObjectBench.administrator, region: "eu-west-1"))
        },
        Row("a URL that is over", "403 AccessDenied") {
            let head = try s3Signed("GET", "/bucket-1/a/there", ObjectBench.administrator, lifetime: 60)
            $0.clock.advance(by: 60)
            return await $0.send(head)
        },
        Row("a URL that lasts longer than was signed", "403 SignatureDoesNotMatch") {
            var head = try s3Signed("GET", "/bucket-1/a/there", ObjectBench.administrator, lifetime: 60)
            let target = "\(head.target.rawPath)?\(head.target.rawQuery ?? "")"
            head.target = try RequestTarget(
                parsing: target.replacing("X-Amz-Expires=60", with: "X-Amz-Expires=6000")
            )
            return await $0.send(head)
        },
        Row("a URL for reading that is used for writing", "403 SignatureDoesNotMatch") {
            var head = try s3Signed("GET", "/bucket-1/a/there", ObjectBench.administrator, lifetime: 60)
            head.method = .put
            head.fields["Content-Length"] = "1"
            return await $0.send(head, [1])
        },
        Row("a URL for another media type", "403 SignatureDoesNotMatch") {
            let type: HTTPFields = ["Content-Type": "video/mp4"]
            var head = try s3Signed("PUT", "/bucket-1/a/1", ObjectBench.administrator, fields: type, lifetime: 60)
            head.fields["Content-Type"] = "text/html"
            head.fields["Content-Length"] = "1"
            return await $0.send(head, [1])
        },
        Row("other content than was signed", "400 XAmzContentSHA256Mismatch") {
            let fields: HTTPFields = ["Content-Length": "1"]
            let payload = SigV4Payload(content: [1])
            let head = try s3Signed("PUT", "/bucket-1/a/1", ObjectBench.administrator, fields: fields, payload: payload)
            return await $0.send(head, [2])
        },
        Row("a signature of version 2", "400 InvalidRequest") {
            await $0.send(try s3Head("GET", "/bucket-1/a/there", ["Authorization": "AWS SLAKKNOWN:c2lnbmF0dXJl"]))
        },
    ]

    @Test("each request is refused with its code, and nothing changes", arguments: others + limits + signatures)
    func denied(_ row: Row) async throws {
        let bench = try await ObjectBench()
        for key in ["a/there", "b/there"] {
            #expect(try await bench.send("PUT", "/bucket-1/\(key)", content: [7]).outcome == "200")
        }
        #expect(try await bench.services.objects.createBucket("bucket-2"))
        let before = try await bench.services.objects.objects(ObjectQuery(bucket: "bucket-1", limit: 10)).map(\.id)
        let response = try await row.ask(bench)
        #expect(response.outcome == row.expected)
        let text = response.text ?? ""
        for secret in ["secret", "other"] { #expect(!text.contains(">\(secret)<")) }
        let after = try await bench.services.objects.objects(ObjectQuery(bucket: "bucket-1", limit: 10))
        #expect(after.filter { $0.key.hasSuffix("there") == true }.map(\.id) == before)
        // Only what a row was allowed before it was refused.
        #expect(after.count <= before.count + 1)
        #expect(try await bench.services.objects.objects(ObjectQuery(bucket: "bucket-2", limit: 10)).isEmpty)
    }

    @Test("an upload that began in time can be completed for a while after expiry, and nothing else")
    func grace() async throws {
        let bench = try await ObjectBench(grace: 600)
        let credentials = try bench.issuer.session(bench.grant(lasting: 60))
        let id = try await bench.begin("a/1", credentials)
        let part = try await bench.send("PUT", "/bucket-1/a/1?partNumber=1&uploadId=\(id)", credentials, content: [1])
        let tag = try #require(part.fields["ETag"])
        bench.clock.advance(by: 61)
        let late = try await bench.begin("a/1")
        let list = Array(
            "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>\(tag)</ETag></Part></CompleteMultipartUpload>"
                .utf8
        )
        func complete(_ id: String) async throws -> String {
            try await bench.send("POST", "/bucket-1/a/1?uploadId=\(id)", credentials, content: list).outcome
        }
        #expect(
            try await bench.send("PUT", "/bucket-1/a/1?partNumber=2&uploadId=\(id)", credentials, content: [2]).outcome
                == "400 ExpiredToken"
        )
        // Not what somebody began after the session was over.
        #expect(try await complete(late) == "400 ExpiredToken")
        #expect(try await complete(id) == "200")
        bench.clock.advance(by: 600)
        #expect(try await complete(id) == "400 ExpiredToken")
    }
}
