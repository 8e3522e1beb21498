import Bytes
import Foundation
import Signing
import Testing

@testable import ObjectGrants

@Suite("Form policies", .timeLimit(.minutes(10)))
struct PostPolicyTests {
    private func policy(_ json: String, _ vendor: Vendor = .aws) throws(PostPolicyProblem) -> PostPolicy {
        try PostPolicy(base64: Base64.encode(json.utf8), vendor: vendor)
    }

    private func form(
        _ fields: [(String, String)],
        file: String = "",
        _ vendor: Vendor = .aws
    ) throws(PostPolicyProblem) -> PostForm {
        try PostForm(fields.map { (name: $0.0, value: $0.1) }, fileName: file, vendor: vendor)
    }

    private func conditions(_ list: String, expiration: String = "2026-01-02T04:04:05.000Z") -> String {
        #"{"expiration":"\#(expiration)","conditions":[\#(list)]}"#
    }

    /// What `check` throws; `nil` if nothing.
    private func problem(
        _ policy: PostPolicy,
        _ form: PostForm,
        bucket: String = "b",
        at now: Date = noon
    ) -> PostPolicyProblem? {
        do throws(PostPolicyProblem) {
            try policy.check(form, bucket: bucket, at: now)
            return nil
        } catch {
            return error
        }
    }

    @Test("a form satisfies the OSS policy that ali-oss signed for it, and no other form does")
    func aliOSS() throws {
        let bucket = "outin-0123456789abcdef0123456789abcdef"
        let json = #"""
            {"expiration":"2026-01-02T04:04:05.000Z","conditions":[{"bucket":"outin-0123456789abcdef0123456789abcdef"},["starts-with","$key","sv/"],["content-length-range",0,1048576],{"x-oss-signature-version":"OSS4-HMAC-SHA256"},{"x-oss-credential":"STS.NUexample/20260102/cn-shanghai/oss/aliyun_v4_request"},{"x-oss-date":"20260102T030405Z"},{"x-oss-security-token":"CAIStoken+/="}]}
            """#
        let policy = try policy(json, .aliyun)
        let signed = [
            ("x-oss-signature-version", "OSS4-HMAC-SHA256"),
            ("x-oss-credential", "STS.NUexample/20260102/cn-shanghai/oss/aliyun_v4_request"),
            ("x-oss-date", "20260102T030405Z"), ("x-oss-security-token", "CAIStoken+/="), ("policy", "…"),
            ("x-oss-signature", "…"),
        ]
        // OSS accepts fields that the policy does not mention.
        let fields = [("key", "sv/${filename}"), ("success_action_status", "201"), ("x-oss-meta-a", "b")]
        #expect(problem(policy, try form(fields + signed, file: "a.mp4", .aliyun), bucket: bucket) == nil)
        #expect(
            problem(policy, try form(fields + signed, .aliyun), bucket: "other")
                == .conditionFailed(#"["eq", "$bucket", "outin-0123456789abcdef0123456789abcdef"]"#)
        )
        #expect(
            problem(policy, try form([("key", "sw/a")] + signed, .aliyun), bucket: bucket)
                == .conditionFailed(#"["starts-with", "$key", "sv/"]"#)
        )
        // A session token must not appear in messages.
        let withoutToken = signed.filter { $0.0 != "x-oss-security-token" }
        #expect(
            problem(policy, try form([("key", "sv/a")] + withoutToken, .aliyun), bucket: bucket)
                == .conditionFailed(#"["eq", "$x-oss-security-token", "…"]"#)
        )
        #expect(policy.contentLengths == 0...1_048_576)
    }

    @Test("a form satisfies the policy that boto3 made for it, and no other form does")
    func boto() throws {
        let text =
            "eyJleHBpcmF0aW9uIjogIjIwMjYtMTEtMjJUMDE6NDI6MjZaIiwgImNvbmRpdGlvbnMiOiBbWyJzdGFydHMtd2l0aCIsICIkQ29u"
            + "dGVudC1UeXBlIiwgImltYWdlLyJdLCB7IngtYW16LW1ldGEtYSI6ICIxIn0sIFsiY29udGVudC1sZW5ndGgtcmFuZ2UiLCAxLCAx"
            + "MDBdLCB7ImJ1Y2tldCI6ICJidWNrZXQtMSJ9LCBbInN0YXJ0cy13aXRoIiwgIiRrZXkiLCAidXNlci8iXSwgeyJ4LWFtei1hbGdv"
            + "cml0aG0iOiAiQVdTNC1ITUFDLVNIQTI1NiJ9LCB7IngtYW16LWNyZWRlbnRpYWwiOiAiQVNJQUVYQU1QTEUvMjAyNjExMjIvdXMt"
            + "ZWFzdC0xL3MzL2F3czRfcmVxdWVzdCJ9LCB7IngtYW16LWRhdGUiOiAiMjAyNjExMjJUMDA0MjI2WiJ9LCB7IngtYW16LXNlY3Vy"
            + "aXR5LXRva2VuIjogInRvayJ9XX0="
        let policy = try PostPolicy(base64: text, vendor: .aws)
        let fields = [
            ("Content-Type", "image/png"), ("x-amz-meta-a", "1"), ("key", "user/${filename}"),
            ("x-amz-algorithm", "AWS4-HMAC-SHA256"),
            ("x-amz-credential", "ASIAEXAMPLE/20261122/us-east-1/s3/aws4_request"),
            ("x-amz-date", "20261122T004226Z"), ("x-amz-security-token", "tok"), ("policy", text),
            ("x-amz-signature", "b75920fc0dc1a8b000628d45d54d8b7e1900f3d7a64c9b6d030bd145d45487f5"),
        ]
        #expect(policy.contentLengths == 1...100)
        #expect(problem(policy, try form(fields, file: "a.png"), bucket: "bucket-1") == nil)
        #expect(problem(policy, try form(fields, file: "a.png"), bucket: "bucket-2") != nil)
        #expect(
            problem(policy, try form(fields + [("acl", "public-read")]), bucket: "bucket-1") == .fieldNotCovered("acl")
        )
        for index in fields.indices where !["policy", "x-amz-signature"].contains(fields[index].0) {
            var changed = fields
            changed[index].1 = "x"
            #expect(problem(policy, try form(changed), bucket: "bucket-1") != nil, "\(fields[index].0)")
        }
    }

    @Test("the fields of a newer OSS signature must be in the policy, those of the older need not")
    func signatureOfOSS() throws {
        let policy = try policy(conditions(#"["starts-with","$key",""]"#), .aliyun)
        let older = [("key", "k"), ("OSSAccessKeyId", "id"), ("Signature", "s"), ("policy", "p")]
        #expect(problem(policy, try form(older + [("x-oss-security-token", "t")], .aliyun)) == nil)
        let newer = [("key", "k"), ("x-oss-date", "20260102T030405Z"), ("x-oss-signature-version", "OSS4-HMAC-SHA256")]
        #expect(problem(policy, try form(newer, .aliyun)) == .fieldNotCovered("x-oss-date"))
    }

    @Test("names of fields are compared by their bytes, without the case of ASCII")
    func bytes() throws {
        let policy = try policy(conditions(#"{"bucket":"b"},["eq","$KEY","k"],["eq","$x-amz-meta-\u00e9","1"]"#))
        #expect(problem(policy, try form([("Key", "k"), ("X-Amz-Meta-\u{E9}", "1")])) == nil)
        #expect(problem(policy, try form([("\u{212A}ey", "k"), ("x-amz-meta-\u{E9}", "1")])) != nil)
        #expect(problem(policy, try form([("key", "k"), ("x-amz-meta-e\u{301}", "1")])) != nil)
        let both = try form([("key", "k"), ("\u{212A}ey", "other"), ("a", "1"), ("a\u{301}", "2")])
        #expect(both["KEY"] == "k" && both["\u{212A}ey"] == "other" && both["a\u{301}"] == "2")
        #expect(throws: PostPolicyProblem.self) { try form([("key", "k"), ("KEY", "other")]) }
        #expect(both.vendor == .aws && Vendor(ofForm: ["OSSAccess\u{212A}eyId"]) == .aws)
        #expect(Vendor(ofForm: ["OSSAccessKeyId"]) == .aliyun)
    }

    @Test("value lists of OSS allow and forbid; the effective media type is compared")
    func lists() throws {
        let policy = try policy(
            conditions(#"["in","$content-type",["image/jpg","image/png"]],["not-in","$cache-control",["no-cache"]]"#),
            .aliyun
        )
        #expect(problem(policy, try form([("Content-Type", "image/png")], .aliyun)) == nil)
        #expect(
            problem(policy, try form([("Content-Type", "text/html")], .aliyun))
                == .conditionFailed(#"["in", "$content-type", ["image/jpg", "image/png"]]"#)
        )
        #expect(
            problem(policy, try form([("Content-Type", "image/png"), ("x-oss-content-type", "a/b")], .aliyun)) != nil
        )
        #expect(
            problem(policy, try form([("Content-Type", "image/png"), ("Cache-Control", "no-cache")], .aliyun)) != nil
        )
        #expect(problem(policy, try form([], .aliyun)) != nil)
    }

    @Test("S3 requires each field in the policy, except those that cannot be there")
    func coverage() throws {
        let policy = try policy(
            conditions(
                #"{"bucket":"b"},["starts-with","$key","user/"],{"acl":"private"},["starts-with","$Content-Type","image/"]"#
            )
        )
        let fields = [
            ("key", "user/x"), ("ACL", "private"), ("content-type", "image/png"), ("policy", "p"),
            ("X-Amz-Signature", "s"), ("x-ignore-me", "1"),
        ]
        #expect(problem(policy, try form(fields)) == nil)
        #expect(problem(policy, try form(fields + [("x-amz-meta-a", "1")])) == .fieldNotCovered("x-amz-meta-a"))
        #expect(problem(policy, try form(fields + [("x-amz-credential", "1")])) == .fieldNotCovered("x-amz-credential"))
        // A field with a condition must be present.
        #expect(
            problem(policy, try form(Array(fields.dropFirst())))
                == .conditionFailed(#"["starts-with", "$key", "user/"]"#)
        )
        #expect(problem(policy, try form([("key", "user/x")])) == .conditionFailed(#"["eq", "$acl", "private"]"#))
        #expect(problem(policy, try form(fields), bucket: "c") == .conditionFailed(#"["eq", "$bucket", "b"]"#))
        // A policy without the bucket would be valid for all buckets.
        let anywhere = try self.policy(conditions(#"["starts-with","$key","user/"]"#))
        #expect(problem(anywhere, try form([("key", "user/x")])) == .fieldNotCovered("bucket"))
        // The field differs from the bucket of the request.
        #expect(problem(policy, try form(fields + [("bucket", "b")]), bucket: "c") != nil)
    }

    @Test("each of a list of media types must match S3's policy")
    func mediaTypes() throws {
        let policy = try policy(conditions(#"{"bucket":"b"},["starts-with","$Content-Type","image/"]"#))
        #expect(problem(policy, try form([("Content-Type", "image/png, image/gif")])) == nil)
        #expect(problem(policy, try form([("Content-Type", "image/png,text/html")])) != nil)
        let any = try self.policy(conditions(#"{"bucket":"b"},["starts-with","$Content-Type",""]"#))
        #expect(problem(any, try form([])) == nil)
    }

    @Test("a policy expires exactly in the second that it names")
    func expiry() throws {
        let end = Date(timeIntervalSince1970: 1_767_326_645)
        for expiration in ["2026-01-02T04:04:05.000Z", "2026-01-02T04:04:05Z"] {
            let policy = try policy(conditions(#"{"bucket":"b"}"#, expiration: expiration))
            #expect(policy.expiresAt == end)
            #expect(problem(policy, try form([]), at: end.addingTimeInterval(-1)) == nil)
            #expect(problem(policy, try form([]), at: end) == .expired)
            #expect(problem(policy, try form([]), at: end.addingTimeInterval(1)) == .expired)
        }
    }

    @Test("the size of the file must be in all ranges")
    func sizes() throws {
        let policy = try policy(conditions(#"["content-length-range",5,"100"],["content-length-range",0,50]"#))
        #expect(policy.contentLengths == 5...50)
        #expect(throws: PostPolicyProblem.tooSmall(minimum: 5)) { try policy.check(length: 4, isComplete: true) }
        #expect(throws: Never.self) { try policy.check(length: 4, isComplete: false) }
        #expect(throws: Never.self) { try policy.check(length: 50, isComplete: true) }
        #expect(throws: PostPolicyProblem.tooLarge(maximum: 50)) { try policy.check(length: 51, isComplete: false) }
        let any = try self.policy(conditions(""))
        #expect(throws: Never.self) { try any.check(length: .max, isComplete: true) }
    }

    @Test("the file name replaces its variable, without a path")
    func fileName() throws {
        let fields = [("key", "u/${filename}"), ("x-amz-meta-name", "${filename}"), ("policy", "${filename}")]
        for name in ["a b.txt", "C:\\x\\a b.txt", "/home/a b.txt", "..\\/a b.txt"] {
            let s3 = try form(fields, file: name)
            #expect(s3["Key"] == "u/a b.txt")
            #expect(s3["x-amz-meta-name"] == "a b.txt")
            #expect(s3["policy"] == "${filename}")
            let oss = try form(fields, file: name, .aliyun)
            #expect(oss["key"] == "u/a b.txt")
            #expect(oss["x-amz-meta-name"] == "${filename}")
        }
        #expect(try form(fields)["key"] == "u/")
        // The policy applies to the resulting name.
        let policy = try policy(conditions(#"{"bucket":"b"},["eq","$key","u/a"]"#))
        #expect(problem(policy, try form([("key", "u/${filename}")], file: "a")) == nil)
        #expect(problem(policy, try form([("key", "u/${filename}")], file: "b")) != nil)
    }

    @Test("a repeated field is refused, in any spelling")
    func repeated() {
        #expect(throws: PostPolicyProblem.repeatedField("KEY")) { try form([("key", "a"), ("KEY", "b")]) }
    }

    @Test("keys that look the same are different")
    func byBytes() throws {
        let policy = try policy(conditions("{\"bucket\":\"b\"},[\"eq\",\"$key\",\"caf\u{E9}\"]"))
        #expect(problem(policy, try form([("key", "caf\u{E9}")])) == nil)
        #expect(problem(policy, try form([("key", "cafe\u{301}")])) != nil)
    }

    static let malformed: [(String, String)] =
        [
            ("a JSON object", "[]"), ("a JSON object", "{"), ("`expiration`", #"{"conditions":[]}"#),
            ("`expiration`", #"{"expiration":"tomorrow","conditions":[]}"#),
            ("`expiration`", #"{"expiration":1767326645,"conditions":[]}"#),
            ("`conditions`", #"{"expiration":"2026-01-02T04:04:05Z"}"#),
            ("`conditions`", #"{"expiration":"2026-01-02T04:04:05Z","conditions":{}}"#),
            ("`more`", #"{"expiration":"2026-01-02T04:04:05Z","conditions":[],"more":1}"#),
            (
                "`expiration` twice",
                #"{"expiration":"2026-01-02T04:04:05Z","expiration":"2027-01-02T04:04:05Z","conditions":[]}"#
            ),
        ]
        + [
            "1", "{}", #"{"key":1}"#, #"["eq","$key"]"#, #"["eq","key","a"]"#, #"["eq","$","a"]"#, #"["eq","$key",1]"#,
            #"["ends-with","$key","a"]"#, #"["content-length-range",1]"#, #"["content-length-range",2,1]"#,
            #"["content-length-range",-1,1]"#, #"["content-length-range",1.5,2]"#, #"["in","$key",["a"]]"#,
            #"["content-length-range","01","2"]"#,
        ].map { ("`conditions[0]`", #"{"expiration":"2026-01-02T04:04:05Z","conditions":[\#($0)]}"#) }

    @Test("unknown conditions are refused", arguments: malformed)
    func notUnderstood(_ part: String, _ json: String) {
        let error = #expect(throws: PostPolicyProblem.self) { try policy(json) }
        guard case .malformed(let message)? = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(message.contains(part))
    }

    @Test("a policy that is invalid Base64, too long, or has elements of another vendor is refused")
    func notBase64() throws {
        for text in ["", "e30", "e30=\n", "*"] {
            #expect(throws: PostPolicyProblem.self) { try PostPolicy(base64: text, vendor: .aws) }
        }
        let long = conditions(String(repeating: " ", count: 65_536))
        #expect(throws: PostPolicyProblem.malformed("The policy must have at most 65536 bytes.")) { try policy(long) }
        // Lists are supported for OSS only.
        #expect(throws: PostPolicyProblem.self) { try policy(conditions(#"["in","$cache-control",["x"]]"#), .tencent) }
        #expect(throws: PostPolicyProblem.self) {
            try policy(conditions(#"["content-length-range",5,6],["content-length-range",7,8]"#))
        }
        // The list is required.
        #expect(throws: PostPolicyProblem.self) { try policy(conditions(#"["not-in","$cache-control","x"]"#), .aliyun) }
    }
}
