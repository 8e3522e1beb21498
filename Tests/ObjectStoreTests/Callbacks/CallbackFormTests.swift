import Bytes
import Foundation
import HTTPWire
import ObjectGrants
import Signing
import SluiceTesting
import Testing
import UploadCore
import UploadModel

@testable import ObjectStore

@Suite("Callbacks in OSS forms", .timeLimit(.minutes(10)))
struct CallbackFormTests {
    private static let object = ObjectName(bucket: "bucket-1", key: "a/f")

    private func callback(_ body: String) throws -> String {
        Base64.encode([UInt8](try JSONEncoder().encode(["callbackUrl": "a.example/", "callbackBody": body])))
    }

    /// Sends a form with a file to the key `a/f`.
    ///
    /// - Parameters:
    ///   - bench: The test endpoint, which knows the signer.
    ///   - conditions: Conditions of the policy, besides the one for the key.
    ///   - fields: Fields besides the key and those of the signature.
    /// - Returns: The response.
    /// - Throws: If the form cannot be built.
    private func post(
        _ bench: ObjectBench,
        conditions: [String] = [],
        _ fields: [(name: String, value: String)]
    ) async throws -> Response {
        let all = ([#"["starts-with","$key","a/"]"#] + conditions).joined(separator: ",")
        let session = try bench.issuer.session(bench.grant(actions: [.postObject]), for: .aliyun)
        let signed = OSSSigner(credentials: session, scheme: .v1(formatDate: { HTTPDate.format($0) })).form(
            policy: { _ in Base64.encode(#"{"expiration":"2026-01-02T04:04:05.000Z","conditions":[\#(all)]}"#.utf8) },
            at: noon.unixSeconds
        )
        var text = ""
        for (name, value) in [("key", "a/${filename}")] + fields + signed.map({ ($0.name, $0.value) }) {
            text += "--x\r\nContent-Disposition: form-data; name=\"\(name)\"\r\n\r\n\(value)\r\n"
        }
        text += "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\nhello\r\n--x--\r\n"
        let type: HTTPFields = ["Content-Type": "multipart/form-data; boundary=x"]
        return await bench.send(try s3Head("POST", "/bucket-1", type), Array(text.utf8))
    }

    @Test("a form has the callback in a field, and variables in others", arguments: [true, false])
    func form(hasResponse: Bool) async throws {
        let sender = RecordingSender(hasResponse ? [:] : ["http://a.example/": .failure(.unreachable)])
        let bench = try await ObjectBench(callbacks: sender)
        func post(_ callback: String) async throws -> Response {
            try await self.post(
                bench,
                [
                    ("callback", callback), ("callback-var", Base64.encode(#"{"x:user":"4 4"}"#.utf8)),
                    ("x:place", "é"),
                    ("success_action_redirect", "http://c.example/"), ("success_action_status", "201"),
                ]
            )
        }
        let done = try await post(callback("${object} ${x:user} ${x:place} ${operation}"))
        #expect(done.outcome == (hasResponse ? "200" : "203 CallbackFailed"))
        #expect(hasResponse ? done.text == #"{"a":"b"}"# : done.element("Code") == "CallbackFailed")
        #expect(done.fields["Location"]?.hasPrefix("http://s3.example.org/") == true)
        #expect(sender.calls.map(\.content) == ["a%2Ff 4%204 %C3%A9 PostObject"])
        #expect(try await bench.services.objects.removeObject(Self.object))
        #expect(try await post("e30=").outcome == "400 InvalidArgument")
        #expect(try await !bench.services.objects.removeObject(Self.object))
    }

    @Test("a variable is a field with a case-insensitive name", arguments: ["x:user", "X:user", "x:USER"])
    func fieldCase(_ name: String) async throws {
        let sender = RecordingSender()
        let bench = try await ObjectBench(callbacks: sender)
        let done = try await post(
            bench,
            conditions: [#"["eq","$x:User","44"]"#],
            [("callback", try callback("${x:user} ${x:uSER}")), (name, "44")]
        )
        #expect(done.outcome == "200" && sender.calls.map(\.content) == ["44 44"])
    }

    @Test(
        "a variable that is a field, or that the policy names, cannot be set in another way",
        arguments: [
            (#"["eq","$x:user","44"]"#, "X:user", #"{"x:user":"1"}"#),
            (#"["eq","$x:user","44"]"#, "x:user", #"{"x:USER":"1"}"#),
            (#"["eq","$x:user","44"]"#, "x:user", #"{"x:user":"44"}"#),
            (#"["starts-with","$x:User",""]"#, "x:other", #"{"x:user":"1"}"#),
            (#"["not-in","$x:user",["1"]]"#, "x:other", #"{"x:user":"1"}"#),
            // A field cannot replace what the policy fixes either.
            (#"["starts-with","$callback-var",""]"#, "X:user", #"{"x:user":"1"}"#),
        ]
    )
    func pinned(_ condition: String, _ field: String, _ variables: String) async throws {
        let sender = RecordingSender()
        let bench = try await ObjectBench(callbacks: sender)
        let refused = try await post(
            bench,
            conditions: [condition],
            [
                ("callback", try callback("u=${x:user}")), (field, "44"),
                ("callback-var", Base64.encode(variables.utf8)),
            ]
        )
        #expect(refused.outcome == "400 InvalidArgument" && refused.element("ArgumentName") == "callback-var")
        #expect(refused.element("Message")?.contains("x:user") == true)
        #expect(try await !bench.services.objects.removeObject(Self.object) && sender.calls.isEmpty)
    }

    @Test("a small form cannot cause a large callback")
    func amplified() async throws {
        let sender = RecordingSender()
        let bench = try await ObjectBench(callbacks: sender)
        func post(_ repeats: Int, _ value: String) async throws -> Response {
            let callback = try callback(String(repeating: "${x:v}", count: repeats))
            return try await self.post(bench, [("callback", callback), ("x:v", value)])
        }
        // Each byte becomes three.
        let value = String(repeating: "/", count: 10 << 10)
        let refused = try await post(3, value)
        #expect(refused.outcome == "400 InvalidArgument" && refused.element("ArgumentName") == "callbackBody")
        #expect(refused.element("Message")?.contains("64 KiB") == true)
        #expect(try await !bench.services.objects.removeObject(Self.object) && sender.calls.isEmpty)
        #expect(try await post(2, value).outcome == "200")
        #expect(sender.calls.map(\.message.content.count) == [60 << 10])
    }
}
