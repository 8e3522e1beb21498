import Bytes
import Foundation
import HTTPWire
import Signing
import SluiceTesting
import Testing
import UploadCore
import UploadModel

@testable import ObjectStore

/// A holder of a signed request must not be able to derive another one from it.
@Suite("Anything a signature does not cover has no effect", .timeLimit(.minutes(10)))
struct CoverageTests {
    /// Something that is added to a request after it was signed.
    struct Addition: Sendable, CustomTestStringConvertible {
        let method: String
        /// Without the prefix of the vendor; a parameter begins with `?`.
        let name: String
        let value: String

        init(_ method: String, _ name: String, _ value: String = "") {
            self.method = method
            self.name = name
            self.value = value
        }

        var testDescription: String { "\(method) \(name)" }
    }

    private static let additions = [
        Addition("PUT", "copy-source", "/bucket-1/a/there"), Addition("PUT", "copy-source-if-match", "x"),
        Addition("PUT", "meta-a", "1"), Addition("PUT", "tagging", "a=1"),
        Addition("PUT", "metadata-directive", "REPLACE"),
        Addition("PUT", "tagging-directive", "REPLACE"), Addition("PUT", "?tagging"), Addition("PUT", "?uploads"),
        Addition("PUT", "?uploadId", "x"), Addition("PUT", "?partNumber", "1"), Addition("PUT", "?acl"),
        Addition("POST", "?uploads"), Addition("POST", "?delete"), Addition("GET", "?uploadId", "x"),
        Addition("GET", "?tagging"), Addition("GET", "?versionId", "1"), Addition("GET", "?versionId", "null"),
        Addition("GET", "?response-content-type", "text/html"), Addition("GET", "?response-content-disposition", "x"),
        Addition("GET", "?response-content-encoding", "gzip"), Addition("GET", "?response-expires", "x"),
        Addition("GET", "?response-cache-control", "x"), Addition("GET", "?response-content-language", "x"),
        Addition("DELETE", "?tagging"), Addition("DELETE", "?uploadId", "x"),
    ]

    static let cos = additions + [Addition("PUT", "forbid-overwrite", "true")]
    static let oss =
        additions + [
            Addition("PUT", "forbid-overwrite", "true"), Addition("PUT", "callback", "e30="),
            Addition("PUT", "callback-var", "e30="), Addition("PUT", "?callback", "e30="),
            Addition("PUT", "?callback-var", "e30="), Addition("POST", "?append"),
            Addition("GET", "range-behavior", "standard"), Addition("GET", "?symlink"),
        ]
    static let s3 = additions + [Addition("GET", "?attributes"), Addition("GET", "checksum-mode", "ENABLED")]

    private func added(_ addition: Addition, to head: RequestHead, _ prefix: String) throws -> RequestHead {
        var head = head
        if addition.name.hasPrefix("?") {
            let query = head.target.rawQuery.map { "\($0)&" } ?? ""
            let value = PercentEncoding.encode(addition.value)
            let target = "\(head.target.rawPath)?\(query)\(addition.name.dropFirst())=\(value)"
            head.target = try RequestTarget(parsing: target)
        } else {
            head.fields[try #require(FieldName(prefix + addition.name))] = addition.value
        }
        return head
    }

    private func bench() async throws -> ObjectBench {
        let bench = try await ObjectBench()
        let type: HTTPFields = ["Content-Type": "video/mp4"]
        #expect(
            try await bench.send("PUT", "/bucket-1/a/there", ObjectBench.administrator, type, content: [1]).outcome
                == "200"
        )
        return bench
    }

    /// What there is, to see that nothing was changed.
    private func objects(_ bench: ObjectBench) async throws -> [String] {
        try await bench.services.objects.objects(ObjectQuery(bucket: "bucket-1", limit: 10)).map {
            "\($0.id) \($0.size)"
        }
    }

    @Test("COS", arguments: Signature.cosBoth, cos)
    func ofCOS(_ signature: Signature, _ addition: Addition) async throws {
        let bench = try await bench()
        let before = try await objects(bench)
        let head = try bench.signed(addition.method, "/bucket-1/a/there", by: signature, content: [2])
        var outcome = await bench.send(try added(addition, to: head, "x-cos-"), [2]).outcome
        #expect(outcome == "403 AccessDenied")
        // Of those of S3 nobody knows anything.
        if !addition.name.hasPrefix("?"), addition.name != "meta-a" {
            let read = try bench.signed("GET", "/bucket-1/a/there", by: signature)
            outcome = await bench.send(try added(addition, to: read, "x-amz-")).outcome
            #expect(outcome == "200")
        }
        #expect(try await objects(bench) == before)
    }

    @Test("OSS", arguments: Signature.oss, oss)
    func ofOSS(_ signature: Signature, _ addition: Addition) async throws {
        let bench = try await bench()
        let before = try await objects(bench)
        let head = try bench.signed(addition.method, "/bucket-1/a/there", by: signature, content: [2])
        let outcome = await bench.send(try added(addition, to: head, "x-oss-"), [2]).outcome
        #expect(outcome == "403 SignatureDoesNotMatch")
        #expect(try await objects(bench) == before)
    }

    @Test("S3", arguments: [false, true], s3)
    func ofS3(_ isQuery: Bool, _ addition: Addition) async throws {
        let bench = try await bench()
        let before = try await objects(bench)
        let head = try s3Signed(
            addition.method,
            "/bucket-1/a/there",
            ObjectBench.administrator,
            fields: ["Content-Length": "1"],
            lifetime: isQuery ? 60 : nil,
            payload: .unsigned
        )
        let outcome = await bench.send(try added(addition, to: head, "x-amz-"), [2]).outcome
        // Before the signature is looked at some are seen to make no sense.
        let refusals = [
            "400 AccessControlListNotSupported", "400 InvalidRequest", "403 AccessDenied", "403 SignatureDoesNotMatch",
            "405 MethodNotAllowed", "501 NotImplemented",
        ]
        #expect(refusals.contains(outcome), "\(outcome)")
        #expect(try await objects(bench) == before)
    }

    @Test("a COS parameter in different case is refused", arguments: Signature.cosBoth)
    func letters(_ signature: Signature) async throws {
        let bench = try await bench()
        let id = try await bench.begin("/bucket-1/a/there", by: signature)
        for (method, target, name) in [
            ("PUT", "/bucket-1/a/there?partNumber=1&uploadId=\(id)", "uploadId"),
            ("DELETE", "/bucket-1/a/there?uploadId=\(id)", "uploadId"), ("PUT", "/bucket-1/a/there?tagging", "tagging"),
            ("GET", "/bucket-1/?prefix=b/", "prefix"),
        ] {
            var head = try bench.signed(method, target, by: signature, content: [2])
            let query = try #require(head.target.rawQuery)
            let changed = query.split(separator: "&").map {
                $0 == name || $0.hasPrefix(name + "=") ? name.uppercased() + $0.dropFirst(name.count) : String($0)
            }
            head.target = try RequestTarget(parsing: "\(head.target.rawPath)?\(changed.joined(separator: "&"))")
            #expect(await bench.send(head, [2]).outcome == "400 InvalidArgument", "\(method) \(target)")
        }
        #expect(try await bench.services.objects.object(ObjectName(bucket: "bucket-1", key: "a/there"))?.size == 1)
    }

    @Test("the signed host names the bucket", arguments: Signature.cosBoth)
    func hosts(_ signature: Signature) async throws {
        let bench = try await bench()
        #expect(try await bench.services.objects.createBucket("bucket-2"))
        let name = ObjectName(bucket: "bucket-1", key: "k")
        // Signed for a bucket, sent to another one.
        let own: HTTPFields = ["Host": "bucket-2.s3.example.org"]
        for fields: HTTPFields in [
            ["Host": "bucket-1.s3.example.org", "Vod-Forward-Cos": "bucket-2.s3.example.org"],
            ["Host": "bucket-2.s3.example.org", "Vod-Forward-Cos": "bucket-1.s3.example.org"],
            ["Host": "s3.example.org", "Vod-Forward-Cos": "bucket-1.s3.example.org"],
            ["Host": "bucket-1.s3.example.org"],
        ] {
            var head = try bench.signed("PUT", "/k", by: signature, own, content: [2])
            for name: FieldName in ["Host", "Vod-Forward-Cos"] { head.fields[name] = fields[name] }
            let outcome = await bench.send(head, [2]).outcome
            let object = try await bench.services.objects.object(name)
            #expect(object == nil, "\(fields)")
            // Where the name of the proxy is the one that was signed, the bucket is the one that was signed, too.
            let isSame = fields["Vod-Forward-Cos"] == own["Host"]
            #expect(outcome == (isSame ? "200" : "403 SignatureDoesNotMatch"), "\(fields)")
        }
        var twice = try bench.signed("PUT", "/k", by: signature, own, content: [2])
        for bucket in ["bucket-2", "bucket-1"] { twice.fields.append("Vod-Forward-Cos", "\(bucket).aws.example.org") }
        #expect(await bench.send(twice, [2]).outcome == "400 InvalidArgument")
    }

    /// As clients of Tencent VOD do, which sign neither host nor token.
    private func withoutHost(
        _ bench: ObjectBench,
        _ target: String,
        _ credentials: SigningCredentials,
        _ host: HTTPFields,
        isQuery: Bool
    ) throws -> RequestHead {
        var head = try s3Head("PUT", target, ["Content-Length": "1"])
        let request = SigningRequest(method: "PUT", path: head.target.rawPath)
        let now = bench.clock.now.unixSeconds
        let window = COSWindow(start: now - 60, end: now + 600)
        let signer = COSSigner(credentials: credentials)
        if isQuery {
            let query = SigningRequest.query(of: signer.presign(request, window: window))
            head.target = try RequestTarget(parsing: "\(head.target.rawPath)?\(query)")
        } else {
            for field in signer.sign(request, window: window) {
                head.fields[try #require(FieldName(field.name))] = field.value
            }
        }
        for name: FieldName in ["Host", "Vod-Forward-Cos"] {
            if let value = host[name] { head.fields[name] = value }
        }
        return head
    }

    @Test("an unsigned host names no other bucket", arguments: [false, true])
    func unsignedHosts(_ isQuery: Bool) async throws {
        let bench = try await bench()
        #expect(try await bench.services.objects.createBucket("bucket-2"))
        let session = try bench.issuer.session(bench.grant(.prefix("")), for: .tencent)
        let hosts: [HTTPFields] = [
            ["Host": "bucket-1.s3.example.org"], ["Host": "127.0.0.1:8080"],
            ["Host": "vod.example.org", "Vod-Forward-Cos": "bucket-1.cos.ap-x.myqcloud.com"],
        ]
        for host in hosts {
            let head = try withoutHost(bench, "/a/1", session, host, isQuery: isQuery)
            #expect(await bench.send(head, [2]).outcome == "200", "\(host)")
            #expect(try await bench.services.objects.removeObject(ObjectName(bucket: "bucket-1", key: "a/1")))
            // Is the first of the path the bucket, or a part of the key?
            let doubtful = try withoutHost(bench, "/bucket-1/1", session, host, isQuery: isQuery)
            #expect(await bench.send(doubtful, [2]).outcome == "403 AccessDenied", "\(host)")
        }
        for host: HTTPFields in [
            ["Host": "bucket-2.s3.example.org"],
            ["Host": "bucket-1.s3.example.org", "Vod-Forward-Cos": "bucket-2.cos.ap-x.myqcloud.com"],
        ] {
            for credentials in [session, ObjectBench.administrator] {
                let head = try withoutHost(bench, "/a/1", credentials, host, isQuery: isQuery)
                #expect(await bench.send(head, [2]).outcome == "403 AccessDenied", "\(host)")
            }
        }
        // In the path the bucket is signed.
        let path = try withoutHost(bench, "/bucket-2/k", ObjectBench.administrator, [:], isQuery: isQuery)
        #expect(await bench.send(path, [2]).outcome == "200")
    }
}
