import Bytes
import Foundation
import HTTPWire
import Signing
import SluiceTesting
import Testing
import UploadCore
import UploadModel

@testable import ObjectGrants

@Suite("The authorised size is enforced", .timeLimit(.minutes(10)))
struct ContentLengthTests {
    private static let coding = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"

    /// A session limited to 10 bytes by a COS policy.
    private func session(_ bench: ObjectBench, actions: Set<ObjectAction> = ObjectAction.upload) throws
        -> SigningCredentials
    {
        let policy = try SessionPolicy(
            #"{"version":"2.0","statement":[{"effect":"allow","action":"cos:*","resource":"*","condition":"#
                + #"{"numeric_less_than_equal":{"cos:content-length":10}}}]}"#,
            vendor: .tencent
        )
        return try bench.issuer.session(bench.grant(actions: actions).narrowed(by: policy), for: .tencent)
    }

    private func chunked(_ content: [UInt8], trailers: [SigningField]? = []) -> [UInt8] {
        var encoder = AWSChunkedEncoder(signer: nil)
        return encoder.chunk(content) + encoder.end(trailers: trailers)
    }

    private func send(
        _ bench: ObjectBench,
        _ method: String,
        _ target: String,
        _ fields: HTTPFields,
        _ payload: SigV4Payload,
        _ content: [UInt8]
    ) async throws -> Response {
        var fields = fields
        fields["x-amz-content-sha256"] = payload.text
        if fields["Content-Length"] == nil { fields["Content-Length"] = String(content.count) }
        let head = try s3Signed(method, target, session(bench), fields: fields, payload: payload, at: bench.clock.now)
        return await bench.send(head, content)
    }

    @Test("only the actual content length is authorised", arguments: ["PUT", "part"])
    func declared(_ kind: String) async throws {
        let bench = try await ObjectBench()
        var target = "/bucket-1/a/1"
        if kind == "part" { target += "?partNumber=1&uploadId=\(try await bench.begin("a/1", session(bench)))" }
        let large = [UInt8](repeating: 1, count: 1000)
        let lie: HTTPFields = ["x-amz-decoded-content-length": "1"]
        // Content without chunks has the length in Content-Length.
        for payload in [SigV4Payload.unsigned, SigV4Payload(content: large)] {
            let response = try await send(bench, "PUT", target, lie, payload, large)
            #expect(response.outcome == "403 AccessDenied")
        }
        // For chunks it is the decoded length, and not one more byte is accepted.
        for payload in [SigV4Payload.unsignedChunksAndTrailers] {
            var fields = lie
            let more = try await send(bench, "PUT", target, fields, payload, chunked(large)).outcome
            #expect(more == "400 IncompleteBody", "\(more)")
            fields["x-amz-decoded-content-length"] = "1000"
            #expect(try await send(bench, "PUT", target, fields, payload, chunked(large)).outcome == "403 AccessDenied")
            fields["x-amz-decoded-content-length"] = nil
            #expect(try await send(bench, "PUT", target, fields, payload, chunked(large)).outcome == "403 AccessDenied")
            fields["x-amz-decoded-content-length"] = "+3"
            #expect(
                try await send(bench, "PUT", target, fields, payload, chunked([1, 2, 3])).outcome == "403 AccessDenied"
            )
            fields["x-amz-decoded-content-length"] = "3"
            #expect(try await send(bench, "PUT", target, fields, payload, chunked([1, 2, 3])).outcome == "200")
        }
        #expect(try await send(bench, "PUT", target, [:], .unsigned, [1, 2, 3]).outcome == "200")
    }

    @Test("more bytes than announced are refused, in any coding", arguments: [false, true])
    func more(_ isPart: Bool) async throws {
        for signature in [Signature.cos, .ossV4] {
            let bench = try await ObjectBench()
            let session = try session(bench)
            var target = "/bucket-1/a/1"
            if isPart { target += "?partNumber=1&uploadId=\(try await bench.begin(target, session, by: signature))" }
            let head = try bench.signed("PUT", target, session, by: signature, ["Content-Length": "5"])
            let more = await bench.send(head, [UInt8](repeating: 1, count: 100))
            #expect(more.outcome == "400 InvalidArgument", "\(more.text ?? "")")
            let lie = try bench.signed(
                "PUT",
                target,
                session,
                by: signature,
                ["Content-Length": "100", "x-amz-decoded-content-length": "1"]
            )
            #expect(await bench.send(lie, [UInt8](repeating: 1, count: 100)).outcome == "403 AccessDenied")
            #expect(try await bench.services.objects.object(ObjectName(bucket: "bucket-1", key: "a/1")) == nil)
        }
    }

    @Test(
        "content without a known length meets no size condition",
        arguments: [Signature.cos, .ossV1, .ossV4]
    )
    func unknown(_ signature: Signature) async throws {
        let bench = try await ObjectBench()
        let id = try await bench.begin("/bucket-1/a/1", session(bench), by: signature)
        let part = "/bucket-1/a/1?partNumber=1&uploadId=\(id)"
        for target in ["/bucket-1/a/1", part, "/bucket-1/a/1?append&position=0"] {
            let method = target.hasSuffix("=0") ? "POST" : "PUT"
            if method == "POST", signature == .cos { continue }
            var head = try bench.signed(method, target, session(bench), by: signature)
            head.fields["Content-Length"] = nil
            head.fields["Transfer-Encoding"] = "chunked"
            if signature == .cos {
                // What is signed is there.
                var fields: HTTPFields = ["Transfer-Encoding": "chunked"]
                fields["Host"] = head.fields["Host"]
                let request = try SigningRequest(s3Head("PUT", target))
                let now = bench.clock.now.unixSeconds
                let window = COSWindow(start: now - 60, end: now + 600)
                for field in COSSigner(credentials: try session(bench)).sign(request, window: window) {
                    fields[try #require(FieldName(field.name))] = field.value
                }
                head.fields = fields
            }
            #expect(await bench.send(head, [1]).outcome == "403 AccessDenied", "\(method)")
        }
    }

    @Test("appended bytes must be authorised")
    func append() async throws {
        let bench = try await ObjectBench()
        let target = "/bucket-1/a/1?append&position=0"
        let session = try session(bench)
        let large = [UInt8](repeating: 1, count: 11)
        #expect(try await bench.send("POST", target, session, by: .ossV4, content: large).outcome == "403 AccessDenied")
        #expect(try await bench.send("POST", target, session, by: .ossV4, content: [1]).outcome == "200")
    }

    @Test("the size and media type of a copy are checked too")
    func copies() async throws {
        let bench = try await ObjectBench()
        let type: HTTPFields = ["Content-Type": "text/html"]
        for (name, size) in [("small", 10), ("large", 11)] {
            let content = [UInt8](repeating: 1, count: size)
            let stored = try await bench.send(
                "PUT",
                "/bucket-1/a/\(name)",
                ObjectBench.administrator,
                type,
                content: content
            )
            #expect(stored.outcome == "200")
        }
        let session = try session(bench, actions: Set(ObjectAction.allCases))
        let id = try await bench.begin("a/1", session)
        for target in ["/bucket-1/a/1", "/bucket-1/a/1?partNumber=1&uploadId=\(id)"] {
            let small = try await bench.send("PUT", target, session, ["x-amz-copy-source": "bucket-1/a/small"])
            #expect(small.outcome == "200")
            let large = try await bench.send("PUT", target, session, ["x-amz-copy-source": "bucket-1/a/large"])
            #expect(large.outcome == "403 AccessDenied")
        }
        let range: HTTPFields = ["x-amz-copy-source": "bucket-1/a/large", "x-amz-copy-source-range": "bytes=0-9"]
        let part = "/bucket-1/a/1?partNumber=1&uploadId=\(id)"
        #expect(try await bench.send("PUT", part, session, range).outcome == "200")
        let videos = try SessionPolicy(
            #"{"version":"2.0","statement":[{"effect":"allow","action":"cos:*","resource":"*","condition":"#
                + #"{"string_equal":{"cos:content-type":"video/mp4"}}},{"effect":"allow","action":"cos:GetObject","resource":"*"}]}"#,
            vendor: .tencent
        )
        let typed = try bench.issuer.session(
            bench.grant(actions: Set(ObjectAction.allCases)).narrowed(by: videos),
            for: .tencent
        )
        let claim: HTTPFields = ["x-amz-copy-source": "bucket-1/a/small", "Content-Type": "video/mp4"]
        #expect(try await bench.send("PUT", "/bucket-1/a/2", typed, claim).outcome == "403 AccessDenied")
        var replacing = claim
        replacing["x-amz-metadata-directive"] = "REPLACE"
        #expect(try await bench.send("PUT", "/bucket-1/a/2", typed, replacing).outcome == "200")
    }
}
