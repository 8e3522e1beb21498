import ObjectGateway
import Signing
import Testing

@testable import TencentVOD

@Suite("Calls that direct mode forwards", .timeLimit(.minutes(10)))
struct DirectUGCTests {
    @Test(
        "metrics have a bounded number of codes, whatever the cloud answers",
        arguments: [
            (200, #"{"code":0,"data":{}}"#, "0"), (200, #"{"code":10001}"#, "10001"),
            (200, #"{"message":"x","code":10004}"#, "10004"), (200, #"{"code":10010}"#, "10010"),
            (200, #"{"code":10021}"#, "other"), (200, #"{"code":20055}"#, "other"), (200, #"{"code":"0"}"#, "other"),
            (200, #"{"code":1e99}"#, "other"), (200, "[]", "other"), (200, "", "other"), (200, "<html>", "other"),
            (500, #"{"code":0}"#, "other"), (302, "", "other"),
        ]
    )
    func labels(status: Int, content: String, label: String) {
        let reply = CloudForwarder.Reply(status: status, content: Array(content.utf8))
        #expect(DirectUGCHandler.label(of: reply) == label)
    }

    @Test("the user is the sourceContext, unless that cannot be a name of a user")
    func subjects() async throws {
        let bench = try VODBench()
        func subject(_ context: String?) async throws -> String? {
            DirectUGCHandler.subject(
                of: try await bench.signer { request in
                    request.subject = nil
                    request.sourceContext = context
                }
            )
        }
        #expect(try await subject("dora") == "dora")
        #expect(try await subject(#"{"user":1}"#) == #"{"user":1}"#)
        #expect(try await subject(nil) == nil)
        #expect(try await subject("a\nb") == nil)
        #expect(try await subject(String(repeating: "\u{e4}", count: 250)) == nil)
    }
}
