import HTTPWire
import Signing
import Testing

@testable import ObjectStore

@Suite("Requests that no handler of the object endpoint gets", .timeLimit(.minutes(10)))
struct RefusalTests {
    private func refused(_ status: Status, _ received: String = "", head: RequestHead? = nil) -> Response {
        ObjectError.response(
            refusing: status,
            "a \"reason\" <&>",
            head: head,
            received: Array(received.utf8),
            requestID: "request-1"
        )
    }

    @Test(
        "are answered in the form of the vendor whose client seems to send them",
        arguments: [
            ("", Vendor.aws), ("GET / HTTP/9\r\n", .aws), ("PUT /b.oss-1 HTTP/1.1\r\nX-Amz-Date: x\r\n", .aws),
            ("PUT /k HTTP/1.1\r\nAuthorization: AWS4-HMAC-SHA256 Credential=x", .aws),
            ("PUT /k HTTP/1.1\r\nAuthorization: OSS a:b\r\n", .aliyun), ("GET /k?OSSAccessKeyId=a HTTP/9", .aliyun),
            ("GET /k?x-oss-signature=a HTTP/9", .aliyun),
            ("PUT / HTTP/1.1\r\nHost: b.oss-cn-x.aliyuncs.com\r\n", .aliyun),
            ("PUT /k HTTP/1.1\r\nauthorization: q-sign-algorithm=sha1&q-ak=x", .tencent),
            ("PUT /k HTTP/1.1\r\nX-COS-ACL: private", .tencent),
            ("PUT / HTTP/1.1\r\nHost: b.cos.ap-x.myqcloud.com\r\n", .tencent),
        ]
    )
    func vendors(_ received: String, _ vendor: Vendor) throws {
        let response = refused(400, received)
        #expect(response.status == 400 && response.fields["Content-Type"] == "application/xml")
        #expect(response.element("Code") == "BadRequest" && response.element("RequestId") == "request-1")
        #expect(response.element("Message")?.contains("a &quot;reason&quot; &lt;&amp;&gt;") == true)
        #expect(response.element("HostId") != nil ? vendor == .aliyun : vendor != .aliyun)
        #expect(response.element("TraceId") != nil ? vendor == .tencent : vendor != .tencent)
        let field = try #require(FieldName(vendor.fieldPrefix + "request-id"))
        #expect(response.fields[field] == "request-1")
    }

    @Test(
        "have the codes of the vendors",
        arguments: [
            (400, "400 BadRequest"), (408, "400 RequestTimeout"), (413, "400 EntityTooLarge"), (414, "414 InvalidURI"),
            (417, "417 BadRequest"), (431, "400 RequestHeaderSectionTooLarge"), (500, "500 InternalError"),
            (501, "501 NotImplemented"), (503, "503 ServiceUnavailable"), (505, "505 BadRequest"),
        ] as [(Status, String)]
    )
    func codes(_ status: Status, _ outcome: String) {
        #expect(refused(status).outcome == outcome)
    }

    @Test("a head that could be read shows the vendor itself, and HEAD gets no document")
    func known() throws {
        let fields: HTTPFields = ["Authorization": "OSS a:b", "Host": "b.example.org", "Content-Length": "9"]
        let response = refused(413, "x-cos-", head: try s3Head("PUT", "/k", fields))
        #expect(response.outcome == "400 EntityTooLarge" && response.element("HostId") == "b.example.org")
        let bare = refused(413, head: try s3Head("HEAD", "/k", fields))
        #expect(bare.text?.isEmpty != false && bare.fields["x-oss-err"] != nil)
    }
}
