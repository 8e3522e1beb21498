import Bytes
import Foundation
import HTTPWire
import Signing
import Synchronization
import Testing
import UploadCore
import UploadModel

@testable import ObjectStore

@Suite("Callbacks for OSS clients", .timeLimit(.minutes(10)))
struct CallbackEndpointTests {
    /// Base64 of a callback.
    private static func callback(_ url: String = "http://a.example/", _ body: String = "k=${object}") throws -> String {
        Base64.encode([UInt8](try JSONEncoder().encode(["callbackUrl": url, "callbackBody": body])))
    }

    private static let variables = Base64.encode(#"{"x:user":"4 4"}"#.utf8)

    /// A request that puts an object; its callback is in the query if its signature is.
    private func put(
        _ bench: ObjectBench,
        _ callback: String,
        _ signature: Signature = .ossV4,
        variables: String? = nil,
        content: String = "hello"
    ) async throws -> Response {
        var fields: HTTPFields = ["Content-Type": "video/mp4"]
        var target = "/bucket-1/a%20b"
        if signature.isQuery {
            target += "?callback=\(PercentEncoding.encode(callback))"
            if let variables { target += "&callback-var=\(PercentEncoding.encode(variables))" }
        } else {
            fields["x-oss-callback"] = callback
            fields["x-oss-callback-var"] = variables
        }
        return try await bench.send("PUT", target, by: signature, fields, content: Array(content.utf8))
    }

    private func isThere(_ bench: ObjectBench) async throws -> Bool {
        try await bench.services.objects.object(ObjectName(bucket: "bucket-1", key: "a b")) != nil
    }

    @Test("the app is notified of an object, and its response becomes the client's", arguments: Signature.oss)
    func notified(_ signature: Signature) async throws {
        let sender = RecordingSender()
        let bench = try await ObjectBench(callbacks: sender)
        let body =
            "b=${bucket}&k=${object}&e=${etag}&s=${size}&m=${mimeType}&c=${crc64}&d=${contentMd5}&v=${vpcId}&i=${clientIp}"
            + "&r=${reqId}&o=${operation}&h=${imageInfo.height}&u=${x:user}&n=${x:none}"
        let response = try await put(bench, Self.callback("a.example/x", body), signature, variables: Self.variables)
        #expect(response.outcome == "200" && response.text == #"{"a":"b"}"#)
        #expect(response.fields["Content-Type"] == "application/json")
        #expect(response.fields["ETag"] == "\"5D41402ABC4B2A76B9719D911017C592\"")
        #expect(response.fields["x-oss-hash-crc64ecma"] == "11177612005948864433")
        let call = try #require(sender.calls.first)
        #expect(sender.calls.count == 1 && call.url == "http://a.example/x" && sender.ends == [nil])
        #expect(call.message.contentType == "application/x-www-form-urlencoded" && call.message.host == nil)
        #expect(
            call.content
                == "b=bucket-1&k=a%20b&e=5D41402ABC4B2A76B9719D911017C592&s=5&m=video%2Fmp4&c=11177612005948864433"
                + "&d=XUFAKrxLKna5cZ2REBfFkg%3D%3D&v=&i=%3A%3A1&r=request-1&o=PutObject&h=&u=4%204&n="
        )
        let object = try #require(try await bench.services.objects.object(ObjectName(bucket: "bucket-1", key: "a b")))
        #expect(call.message.id == "msg_\(object.id.text)")
    }

    @Test("a callback is in the turn of the user whose object it reports")
    func user() async throws {
        let sender = RecordingSender()
        let bench = try await ObjectBench(callbacks: sender)
        let session = try bench.issuer.session(bench.grant(), for: .aliyun)
        let fields: HTTPFields = ["x-oss-callback": try Self.callback()]
        let response = try await bench.send("PUT", "/bucket-1/a/f", session, by: .ossV4, fields, content: [1])
        #expect(response.outcome == "200")
        #expect(sender.calls.map(\.message.subject) == ["user-1"])
    }

    @Test("the size of an image is reported")
    func image() async throws {
        let sender = RecordingSender()
        let bench = try await ObjectBench(callbacks: sender)
        let body = "${imageInfo.format} ${imageInfo.width} ${imageInfo.height}"
        let gif = "GIF89a\u{3}\u{0}\u{5}\u{0}\u{0}\u{0}\u{0};"
        #expect(try await put(bench, Self.callback("a.example", body), content: gif).outcome == "200")
        #expect(sender.calls.first?.content == "gif 3 5")
    }

    @Test("neither the object nor its key is locked while the app responds", .timeLimit(.minutes(10)))
    func nothingIsHeld() async throws {
        let sender = RecordingSender()
        let bench = try await ObjectBench(callbacks: sender)
        let outcomes = Mutex<[String?]>([])
        sender.meanwhile.withLock {
            $0 = {
                // A lock held for the app would block these forever.
                for (method, content) in [("GET", ""), ("PUT", "newer"), ("DELETE", ""), ("GET", "")] {
                    let target = "/bucket-1/a%20b"
                    let response = try? await bench.send(method, target, by: .ossV1, content: Array(content.utf8))
                    outcomes.withLock { $0.append(response?.outcome) }
                }
            }
        }
        #expect(try await put(bench, Self.callback()).outcome == "200")
        #expect(outcomes.withLock { $0 } == ["200", "200", "204", "404 NoSuchKey"])
    }

    @Test("URLs are tried in order until one responds as required")
    func order() async throws {
        let sender = RecordingSender([
            "http://a.example/1": .failure(.timedOut),
            "http://a.example/2": .success(CallbackResponse(status: 500, length: 2, body: Array("{}".utf8))),
        ])
        let bench = try await ObjectBench(callbacks: sender)
        let urls = "a.example/1;a.example/2;b.example/3;b.example/4"
        #expect(try await put(bench, Self.callback(urls)).text == #"{"a":"b"}"#)
        #expect(sender.calls.map(\.url) == ["http://a.example/1", "http://a.example/2", "http://b.example/3"])
        #expect(Set(sender.calls.map(\.message.id)).count == 1 && sender.ends == [nil])
    }

    @Test(
        "without a valid response the status is 203, and the object is stored",
        arguments: [
            (.failure(.timedOut), "Error status : -1."), (.failure(.unreachable), "Error status : -1."),
            (.failure(.noResponse("why")), "Error status : -1. The server of the callbackUrl did not respond: why."),
            (.failure(.tooLarge), "Error status : 400."),
            (.success(CallbackResponse(status: 301, length: 2, body: Array("{}".utf8))), "Error status : 301."),
            (.success(CallbackResponse(status: 201, length: 2, body: Array("{}".utf8))), "Error status : 201."),
            (.success(CallbackResponse(status: 200, length: nil, body: Array("{}".utf8))), "Error status : 400."),
            (.success(CallbackResponse(status: 200, length: 0, body: [])), "Response body is not valid json format."),
            (
                .success(CallbackResponse(status: 200, length: 5, body: [0xEF, 0xBB, 0xBF, 0x7B, 0x7D])),
                "Response body is not valid json format."
            ),
        ] as [(Result<CallbackResponse, CallbackFailure>, String)]
    )
    func failed(_ response: Result<CallbackResponse, CallbackFailure>, _ message: String) async throws {
        let sender = RecordingSender(["http://a.example/": response])
        let bench = try await ObjectBench(callbacks: sender)
        let response = try await put(bench, Self.callback())
        #expect(response.outcome == "203 CallbackFailed" && response.fields["Content-Type"] == "application/xml")
        #expect(response.element("Code") == "CallbackFailed" && response.element("RequestId") == "request-1")
        #expect(response.element("Message")?.hasPrefix(message) == true)
        #expect(response.fields["ETag"] == "\"5D41402ABC4B2A76B9719D911017C592\"")
        #expect(try await isThere(bench) && sender.ends.count == 1 && sender.ends != [nil])
    }

    @Test(
        "a completed upload is reported, and reported again if it is completed again",
        arguments: [Signature.ossV1, .ossV4Query]
    )
    func completed(_ signature: Signature) async throws {
        let sender = RecordingSender()
        let bench = try await ObjectBench(callbacks: sender)
        let callback = try Self.callback("a.example", "${object} ${size} ${operation} ${etag} ${contentMd5}")
        let field: HTTPFields = ["x-oss-callback": callback]
        // Some clients send it with every request.
        let id = try await bench.begin("/bucket-1/k", by: signature, field)
        let target = "/bucket-1/k?partNumber=1&uploadId=\(id)"
        let part = try await bench.send("PUT", target, by: signature, field, content: Array("hello".utf8))
        let tag = try #require(part.fields["ETag"])
        #expect(sender.calls.isEmpty)
        let document = Array(
            "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>\(tag)</ETag></Part></CompleteMultipartUpload>"
                .utf8
        )
        for count in 1...2 {
            var complete = "/bucket-1/k?uploadId=\(id)"
            if signature.isQuery { complete += "&callback=\(PercentEncoding.encode(callback))" }
            let fields = signature.isQuery ? HTTPFields() : field
            let done = try await bench.send("POST", complete, by: signature, fields, content: document)
            #expect(
                done.outcome == "200" && done.text == #"{"a":"b"}"# && done.fields["ETag"]?.hasSuffix("-1\"") == true
            )
            #expect(done.fields["Content-Type"] == "application/json" && sender.calls.count == count)
        }
        let repeated = try #require(done(sender))
        #expect(repeated.hasPrefix("k 5 CompleteMultipartUpload ") && repeated.hasSuffix("-1 "))
    }

    /// What was sent twice.
    private func done(_ sender: RecordingSender) -> String? {
        sender.calls.first == sender.calls.last ? sender.calls.first?.content : nil
    }

    @Test("nothing is stored if the callback is invalid or not allowed", arguments: [Signature.ossV1, .ossV4Query])
    func refused(_ signature: Signature) async throws {
        let sender = RecordingSender()
        let bench = try await ObjectBench(callbacks: sender)
        for (callback, argument) in [
            ("e30", "callback"), ("e30=", "callback"), (try Self.callback("c.example"), "callbackUrl"),
            (try Self.callback("a.example;c.example"), "callbackUrl"),
            (try Self.callback("ftp://a.example"), "callbackUrl"),
            (try Self.callback("a.example", "$"), "callbackBody"),
            (
                Base64.encode(#"{"callbackUrl":"a.example","callbackBody":"b","callbackHost":"c.example"}"#.utf8),
                "callbackHost"
            ),
        ] {
            let response = try await put(bench, callback, signature)
            #expect(response.outcome == "400 InvalidArgument" && response.element("ArgumentName") == argument)
        }
        let wrong = try await put(bench, Self.callback(), signature, variables: "e30")
        #expect(wrong.outcome == "400 InvalidArgument" && wrong.element("ArgumentName") == "callback-var")
        #expect(try await !isThere(bench) && sender.calls.isEmpty)
    }

    @Test("values not known before the object is stored count with their maximum length")
    func longest() async throws {
        let sender = RecordingSender()
        let bench = try await ObjectBench(callbacks: sender)
        // Each could be a media type of 1024 bytes, percent-encoded.
        let most = CallbackTemplate.maximumBytes / (3 * 1024)
        func put(_ count: Int) async throws -> Response {
            try await self.put(bench, Self.callback("a.example", String(repeating: "${mimeType}", count: count)))
        }
        let refused = try await put(most + 1)
        #expect(refused.outcome == "400 InvalidArgument" && refused.element("ArgumentName") == "callbackBody")
        #expect(try await !isThere(bench) && sender.calls.isEmpty)
        #expect(try await put(most).outcome == "200")
        #expect(sender.calls.first?.content == String(repeating: "video%2Fmp4", count: most))
    }

    @Test("a callback in both header and query is refused")
    func twice() async throws {
        let bench = try await ObjectBench(callbacks: RecordingSender())
        let callback = try Self.callback()
        let target = "/bucket-1/k?callback=\(PercentEncoding.encode(callback))"
        let response = try await bench.send("PUT", target, by: .ossV1, ["x-oss-callback": callback], content: [1])
        #expect(response.outcome == "400 InvalidArgument")
    }

    @Test("a callback is refused if callbacks are disabled, or where an object would be stored without one")
    func notOffered() async throws {
        let callback = try Self.callback()
        let field: HTTPFields = ["x-oss-callback": callback, "x-cos-callback": callback]
        let bench = try await ObjectBench()
        for signature in Signature.oss {
            let response = try await put(bench, callback, signature)
            #expect(response.outcome == "400 NotImplemented")
            #expect(response.element("Message")?.contains("object.callbackHosts") == true)
        }
        #expect(try await bench.send("POST", "/bucket-1/k?uploads", by: .ossV4, field).outcome == "400 NotImplemented")
        #expect(try await !isThere(bench))
        let other = try await ObjectBench(callbacks: RecordingSender())
        let append = try await other.send("POST", "/bucket-1/k?append&position=0", by: .ossV1, field, content: [1])
        #expect(append.outcome == "400 NotImplemented")
        let cos = try await other.send("PUT", "/bucket-1/k", by: .cos, field, content: [1])
        #expect(cos.outcome == "501 NotImplemented")
        // It has no meaning for an S3 client.
        #expect(try await other.send("PUT", "/bucket-1/k?callback=e30", content: [1]).outcome == "200")
    }
}
