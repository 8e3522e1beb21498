import HTTPWire
import SluiceTesting
import Testing

@testable import Clouds
import Signing

@Suite("Multipart uploads in real stores", .timeLimit(.minutes(10)))
struct CloudMultipartUploadTests {
    private func begin(_ server: TestServer) async throws(CloudFailure) -> String {
        try await CloudMultipartUpload.begin(
            server.url + "/b/k?uploads=",
            headers: [SigningField("Content-Type", "video/mp4")],
            signedWith: World.pair,
            by: World.caller(.aws)
        )
    }

    @Test("an upload is created with the presigned URL, and its id is returned")
    func begins() async throws {
        let response = """
            <?xml version="1.0"?><InitiateMultipartUploadResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
            <Bucket>b</Bucket><Key>k</Key><UploadId>an.id_~1</UploadId></InitiateMultipartUploadResult>
            """
        try await World.serving(TestServer.Reply(200, response)) { server in
            #expect(try await begin(server) == "an.id_~1")
            let call = try #require(server.calls.first)
            #expect((call.method, call.path, call.query) == ("POST", "/b/k", "uploads="))
            #expect(call.fields["Content-Type"] == "video/mp4")
            #expect(server.calls.count == 1)
        }
    }

    @Test("refusals of the store and malformed responses")
    func failures() async throws {
        let cases: [(Int, String, CloudFailure.Kind, String)] = [
            (403, "<Error><Code>AccessDenied</Code><Message>no</Message></Error>", .refused, "AccessDenied (no)"),
            (200, "<Error><Code>InternalError</Code></Error>", .refused, "InternalError"),
            (503, "<Error><Code>SlowDown</Code></Error>", .unavailable, "SlowDown"),
            (200, "<InitiateMultipartUploadResult/>", .malformed, "unexpected response"),
            (200, "nonsense", .malformed, "unexpected response"), (404, "", .malformed, "status 404"),
        ]
        for (status, body, kind, text) in cases {
            try await World.serving(TestServer.Reply(status, body)) { server in
                do throws(CloudFailure) {
                    _ = try await begin(server)
                    Issue.record("\(status) \(body) is no success")
                } catch {
                    #expect(error.kind == kind)
                    #expect(error.message.contains(text), "\(error.message)")
                }
            }
        }
    }
}
