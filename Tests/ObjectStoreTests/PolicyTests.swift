import Signing
import SluiceTesting
import Testing

@testable import ObjectGrants

@Suite("Session policies", .timeLimit(.minutes(10)))
struct PolicyTests {
    private func policy(_ json: String, _ vendor: Vendor) throws -> SessionPolicy {
        try SessionPolicy(json, vendor: vendor)
    }

    private func access(_ action: ObjectAction, _ key: String = "", _ bucket: String = "b") -> ObjectAccess {
        ObjectAccess(action, bucket: bucket, key: key)
    }

    @Test("an IAM policy allows what it says, and denials take precedence")
    func iam() throws {
        let policy = try policy(
            #"""
            {"Version":"2012-10-17","Id":"x","Statement":[
              {"Sid":"a","Effect":"Allow","Action":["s3:PutObject","S3:getobject"],"Resource":"arn:aws:s3:::b/in/*"},
              {"Effect":"Allow","Action":"s3:List*","Resource":["arn:aws:s3:::b","arn:aws:s3:::b/*"]},
              {"Effect":"Deny","Action":"*","Resource":"arn:aws:s3:::b/in/secret?.txt"}]}
            """#,
            .aws
        )
        let allowed: [ObjectAccess] = [
            access(.putObject, "in/a"), access(.createMultipartUpload, "in/a/b"), access(.uploadPart, "in/"),
            access(.completeMultipartUpload, "in/x"), access(.postObject, "in/x"), access(.appendObject, "in/x"),
            access(.getObject, "in/a"), access(.headObject, "in/a"), access(.copySource, "in/a"),
            access(.listObjects), access(.listMultipartUploads, "any"), access(.headBucket), access(.listParts, "k"),
            access(.putObject, "in/secret.txt"), access(.putObject, "in/secret12.txt"),
        ]
        for access in allowed { #expect(policy.allows(access), "\(access)") }
        let denied: [ObjectAccess] = [
            access(.putObject, "out/a"), access(.putObject, "in"), access(.putObject, "IN/a"),
            access(.deleteObject, "in/a"), access(.abortMultipartUpload, "in/a"), access(.putObject, "in/a", "c"),
            access(.putObject, "in/secret1.txt"), access(.getObject, "in/secret1.txt"),
            access(.getBucketLocation), access(.listObjects, "", "bb"),
        ]
        for access in denied { #expect(!policy.allows(access), "\(access)") }
    }

    @Test("a bucket pattern of AWS matches slashes, as in AWS")
    func wholeResource() throws {
        let policy = try policy(
            #"{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"s3:*","Resource":"arn:aws:s3:::b*"}}"#,
            .aws
        )
        #expect(policy.allows(access(.putObject, "a/b")))
        #expect(policy.allows(access(.putObject, "a/b", "bucket")))
        #expect(!policy.allows(access(.putObject, "b", "a")))
    }

    @Test("the RAM policy for one object allows its multipart upload, and nothing else")
    func ram() throws {
        let policy = try policy(
            #"""
            {"Version":"1","Statement":[{"Effect":"Allow","Action":["oss:PutObject","oss:AbortMultipartUpload",
            "oss:ListParts"],"Resource":["acs:oss:*:*:b/sv/1.mp4"]}]}
            """#,
            .aliyun
        )
        let allowed: Set<ObjectAction> = [
            .putObject, .postObject, .appendObject, .createMultipartUpload, .uploadPart, .completeMultipartUpload,
            .abortMultipartUpload, .listParts,
        ]
        for action in ObjectAction.allCases {
            #expect(policy.allows(access(action, "sv/1.mp4")) == allowed.contains(action), "\(action)")
            #expect(!policy.allows(access(action, "sv/1.mp4x")))
            #expect(!policy.allows(access(action, "sv/1.mp4", "c")))
        }
    }

    @Test("a RAM policy names calls of ApsaraVideo VOD, alone or besides objects")
    func videoCalls() throws {
        let mixed = try policy(
            #"""
            {"Version":"1","Statement":[
              {"Effect":"Allow","Action":["vod:CreateUploadVideo","vod:refreshuploadvideo"],"Resource":"acs:vod:*:*:*"},
              {"Effect":"Allow","Action":"oss:PutObject","Resource":"acs:oss:*:*:b/sv/*"},
              {"Effect":"Allow","Action":["vod:Delete*"],"Resource":"*"},
              {"Effect":"Deny","Action":"vod:DeleteImage","Resource":"*"}]}
            """#,
            .aliyun
        )
        let calls: Set<ObjectAction> = [.createUploadVideo, .refreshUploadVideo, .deleteVideo, .deleteMultipartUpload]
        for action in ObjectAction.allCases where action.isVideoCall {
            #expect(mixed.allows(access(action, "app-1/")) == calls.contains(action), "\(action)")
        }
        #expect(mixed.allows(access(.putObject, "sv/1.mp4")) && !mixed.allows(access(.putObject, "x")))
        #expect(!mixed.allows(access(.getObject, "sv/1.mp4")) && !mixed.allows(access(.listObjects)))
        // Calls concern the objects of their application, too.
        let objects = try policy(
            #"{"Version":"1","Statement":[{"Effect":"Allow","Action":"vod:*","Resource":"acs:oss:*:*:b/app-1/*"}]}"#,
            .aliyun
        )
        #expect(objects.allows(access(.getVideoInfo, "app-1/")) && !objects.allows(access(.getVideoInfo, "app-2/")))
        #expect(!objects.allows(access(.getObject, "app-1/x")))
        for vendor in [Vendor.aws, .tencent] {
            let name = vendor == .aws ? "s3:*" : "cos:*"
            let json =
                vendor == .aws
                ? #"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"\#(name)","Resource":"*"}]}"#
                : #"{"version":"2.0","statement":[{"effect":"allow","action":"\#(name)","resource":"*"}]}"#
            let policy = try policy(json, vendor)
            for action in ObjectAction.allCases where action.isVideoCall {
                #expect(!policy.allows(access(action, "app-1/")))
            }
        }
    }

    @Test("the numbers of calls in tokens, and their names in policies, stay the same")
    func videoNumbers() {
        let names = [
            "CreateUploadVideo", "CreateUploadImage", "CreateUploadAttachedMedia", "RefreshUploadVideo",
            "UploadMediaByURL", "GetURLUploadInfos", "GetUploadDetails", "DeleteMultipartUpload", "GetVideoInfo",
            "GetVideoInfos", "UpdateVideoInfo", "DeleteVideo", "GetMezzanineInfo", "GetPlayInfo", "GetImageInfo",
            "DeleteImage", "SearchMedia", "SetMessageCallback", "GetMessageCallback",
        ]
        for (index, name) in names.enumerated() { #expect(ObjectAction(rawValue: 16 + index)?.videoCall == name) }
        #expect(ObjectAction.allCases.count == 16 + names.count)
        #expect(ObjectAction.allCases.filter { $0.videoCall == nil }.count == 16)
        #expect(ObjectAction.upload.union(ObjectAction.read).allSatisfy { !$0.isVideoCall })
    }

    @Test("the CAM policy of qcloud-python-sts allows multipart uploads below its prefix, including their listings")
    func cam() throws {
        let bucket = "vodtest-1250000000"
        let policy = try policy(
            #"""
            {"version":"2.0","statement":[{"effect":"allow","action":["name/cos:PutObject",
            "name/cos:InitiateMultipartUpload","name/cos:ListMultipartUploads","name/cos:ListParts","name/cos:UploadPart",
            "name/cos:CompleteMultipartUpload","name/cos:AbortMultipartUpload","name/cos:HeadObject"],
            "resource":["qcs::cos:ap-chongqing:uid/1250000000:vodtest-1250000000/vodtest/dir/*"]}]}
            """#,
            .tencent
        )
        let allowed: Set<ObjectAction> = [
            .putObject, .createMultipartUpload, .listMultipartUploads, .listParts, .uploadPart,
            .completeMultipartUpload, .abortMultipartUpload, .headObject,
        ]
        for action in ObjectAction.allCases {
            #expect(policy.allows(access(action, "vodtest/dir/f0.mp4", bucket)) == allowed.contains(action))
            #expect(!policy.allows(access(action, "vodtest/f0.mp4", bucket)))
            #expect(!policy.allows(access(action, "", bucket)))
        }
    }

    @Test("COS conditions on size and media type are evaluated")
    func conditions() throws {
        let policy = try policy(
            #"""
            {"version":"2.0","statement":[
              {"effect":"allow","action":"cos:*","resource":"*","condition":{
                "numeric_less_than_equal":{"cos:content-length":"1000"},
                "string_like":{"cos:content-type":["video/*","image/png"]}}},
              {"effect":"allow","action":["name/cos:UploadPart"],"resource":"*"},
              {"effect":"deny","action":"*","resource":"*","condition":{
                "numeric_greater_than":{"cos:content-length":2000}}},
              {"effect":"deny","action":"*","resource":"*","condition":{
                "string_equal":{"cos:content-type":"video/bad"}}}]}
            """#,
            .tencent
        )
        func put(_ length: Int64?, _ type: String?, _ action: ObjectAction = .putObject) -> Bool {
            policy.allows(ObjectAccess(action, bucket: "b", key: "k", contentLength: length, contentType: type))
        }
        #expect(put(1000, "video/mp4"))
        #expect(put(0, "image/png"))
        #expect(!put(1001, "video/mp4"))
        #expect(!put(10, "image/jpeg"))
        #expect(!put(10, "video/bad"))
        // A missing property is not enough to allow, but enough to deny.
        #expect(!put(nil, "video/mp4"))
        #expect(!put(10, nil))
        #expect(put(2000, nil, .uploadPart))
        #expect(!put(2001, nil, .uploadPart))
        #expect(!put(nil, nil, .uploadPart))
        // A multipart upload has a type and no content when it is created.
        #expect(put(nil, "video/mp4", .createMultipartUpload))
        #expect(!put(nil, "video/mp4", .getObject))
    }

    @Test("prefix conditions apply to listings only")
    func prefix() throws {
        let s3 = try policy(
            #"""
            {"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:*","Resource":"*",
            "Condition":{"StringLike":{"s3:prefix":["home/*"]},"StringNotEquals":{"S3:PREFIX":"home/root"}}}]}
            """#,
            .aws
        )
        #expect(s3.allows(access(.listObjects, "home/a")))
        #expect(!s3.allows(access(.listObjects, "home/root")))
        #expect(!s3.allows(access(.listObjects, "etc/")))
        #expect(!s3.allows(access(.listObjects)))
        #expect(!s3.allows(access(.putObject, "home/a")))
        let oss = try policy(
            #"""
            {"Version":"1","Statement":[{"Effect":"Allow","Action":"oss:*","Resource":"*"},
            {"Effect":"Deny","Action":"oss:ListObjects","Resource":"*","Condition":{"StringLike":{"oss:Prefix":"x*"}}}]}
            """#,
            .aliyun
        )
        #expect(oss.allows(access(.listObjects, "a")))
        #expect(!oss.allows(access(.listObjects, "xa")))
        // It might list keys that must not be listed.
        #expect(!oss.allows(access(.listObjects)))
        #expect(oss.allows(access(.putObject, "xa")))
    }

    struct Refused: Sendable, CustomTestStringConvertible {
        let vendor: Vendor
        let json: String
        let kind: PolicyProblem.Kind
        let element: String

        var testDescription: String { element + " of " + json }

        init(_ vendor: Vendor, _ kind: PolicyProblem.Kind, _ element: String, _ json: String) {
            self.vendor = vendor
            self.json = json
            self.kind = kind
            self.element = element
        }
    }

    private static func s3(_ kind: PolicyProblem.Kind, _ element: String, _ statement: String) -> Refused {
        Refused(.aws, kind, element, #"{"Version":"2012-10-17","Statement":[{"# + statement + "}]}")
    }

    private static func oss(_ kind: PolicyProblem.Kind, _ element: String, _ statement: String) -> Refused {
        Refused(.aliyun, kind, element, #"{"Version":"1","Statement":[{"# + statement + "}]}")
    }

    private static func cos(_ kind: PolicyProblem.Kind, _ element: String, _ statement: String) -> Refused {
        Refused(.tencent, kind, element, #"{"version":"2.0","statement":[{"# + statement + "}]}")
    }

    private static let plain = #""Effect":"Allow","Action":"s3:PutObject","Resource":"*""#

    static let refused: [Refused] = [
        Refused(.aws, .malformed, "", ""),
        Refused(.aws, .malformed, "", "[]"),
        Refused(.aws, .malformed, "", #"{"Version":"2012-10-17","Version":"2012-10-17","Statement":[{}]}"#),
        Refused(.aws, .malformed, "", #"{"Version":"2012-10-17","Statement":[{\#(plain),"Effect":"Deny"}]}"#),
        Refused(.aws, .malformed, "", #"{"Version":"2012-10-17","Statement":[{\#(plain)},]}"#),
        Refused(.aws, .malformed, "Version", #"{"Statement":[{\#(plain)}]}"#),
        Refused(.aws, .malformed, "Version", #"{"Version":"2008-10-17","Statement":[{\#(plain)}]}"#),
        Refused(.aliyun, .malformed, "Version", #"{"Version":1,"Statement":[{\#(plain)}]}"#),
        Refused(.aws, .malformed, "Statement", #"{"Version":"2012-10-17","Statement":[]}"#),
        Refused(.aws, .malformed, "Statement[1]", #"{"Version":"2012-10-17","Statement":[{\#(plain)},"x"]}"#),
        Refused(.aws, .unsupported, "Extra", #"{"Version":"2012-10-17","Statement":[{\#(plain)}],"Extra":1}"#),
        Refused(.aws, .malformed, "Id", #"{"Version":"2012-10-17","Statement":[{\#(plain)}],"Id":1}"#),
        Refused(.aliyun, .unsupported, "Id", #"{"Version":"1","Statement":[{\#(plain)}],"Id":"x"}"#),
        Refused(.tencent, .unsupported, "Version", #"{"Version":"2.0","statement":[]}"#),
        Refused(.aws, .tooLong, "", String(repeating: " ", count: SessionPolicy.maximumByteCount + 1)),
        s3(.unsupported, "Statement[0].Principal", plain + #","Principal":"*""#),
        s3(.unsupported, "Statement[0].NotAction", #""Effect":"Allow","NotAction":"s3:GetObject","Resource":"*""#),
        s3(.unsupported, "Statement[0].NotResource", #""Effect":"Allow","Action":"s3:GetObject","NotResource":"*""#),
        s3(.malformed, "Statement[0].Effect", #""Effect":"allow","Action":"s3:GetObject","Resource":"*""#),
        s3(.malformed, "Statement[0].Effect", #""Action":"s3:GetObject","Resource":"*""#),
        s3(.malformed, "Statement[0].Action", #""Effect":"Allow","Resource":"*""#),
        s3(.malformed, "Statement[0].Action", #""Effect":"Allow","Action":[],"Resource":"*""#),
        s3(.malformed, "Statement[0].Action", #""Effect":"Allow","Action":["s3:*",1],"Resource":"*""#),
        s3(.unsupported, "Statement[0].Action", #""Effect":"Allow","Action":"s3:PutObjectAcl","Resource":"*""#),
        s3(.unsupported, "Statement[0].Action", #""Effect":"Deny","Action":["s3:*","s3:Restore*"],"Resource":"*""#),
        s3(.unsupported, "Statement[0].Action", #""Effect":"Allow","Action":"oss:PutObject","Resource":"*""#),
        s3(.unsupported, "Statement[0].Action", #""Effect":"Allow","Action":"PutObject","Resource":"*""#),
        s3(.unsupported, "Statement[0].Action", #""Effect":"Allow","Action":"s*:PutObject","Resource":"*""#),
        s3(.malformed, "Statement[0].Resource", #""Effect":"Allow","Action":"s3:*""#),
        s3(.unsupported, "Statement[0].Resource", #""Effect":"Allow","Action":"s3:*","Resource":"arn:aws:s3:*:*:b/*""#),
        s3(.unsupported, "Statement[0].Resource", #""Effect":"Allow","Action":"s3:*","Resource":"arn:*:s3:::b/*""#),
        s3(.unsupported, "Statement[0].Resource", #""Effect":"Allow","Action":"s3:*","Resource":"arn:aws:s3:::""#),
        s3(.unsupported, "Statement[0].Resource", #""Effect":"Allow","Action":"s3:*","Resource":"arn:aws:s3:::/k""#),
        s3(.unsupported, "Statement[0].Resource", #""Effect":"Allow","Action":"s3:*","Resource":"b/*""#),
        s3(
            .unsupported,
            "Statement[0].Resource",
            #""Effect":"Allow","Action":"s3:*","Resource":"arn:aws:s3:::b/${aws:username}/*""#
        ),
        s3(.malformed, "Statement[0].Condition", plain + #","Condition":[]"#),
        s3(
            .unsupported,
            "Statement[0].Condition.IpAddress",
            plain + #","Condition":{"IpAddress":{"aws:SourceIp":"10.0.0.0/8"}}"#
        ),
        s3(
            .unsupported,
            "Statement[0].Condition.StringLikeIfExists",
            plain + #","Condition":{"StringLikeIfExists":{"s3:prefix":"a"}}"#
        ),
        s3(
            .unsupported,
            "Statement[0].Condition.StringEquals.aws:username",
            plain + #","Condition":{"StringEquals":{"aws:username":"a"}}"#
        ),
        s3(
            .unsupported,
            "Statement[0].Condition.StringEquals.s3:prefix",
            plain + #","Condition":{"StringEquals":{"s3:prefix":"${aws:username}"}}"#
        ),
        s3(.malformed, "Statement[0].Condition.StringEquals", plain + #","Condition":{"StringEquals":{}}"#),
        s3(
            .malformed,
            "Statement[0].Condition.StringEquals.s3:prefix",
            plain + #","Condition":{"StringEquals":{"s3:prefix":[]}}"#
        ),
        oss(.unsupported, "Statement[0].Sid", #""Sid":"a","Effect":"Allow","Action":"oss:*","Resource":"*""#),
        oss(.unsupported, "Statement[0].Action", #""Effect":"Allow","Action":"s3:*","Resource":"*""#),
        oss(.unsupported, "Statement[0].Resource", #""Effect":"Allow","Action":"oss:*","Resource":"acs:oss:*:b/*""#),
        oss(.unsupported, "Statement[0].Resource", #""Effect":"Allow","Action":"oss:*","Resource":"acs:*:*:*:b/*""#),
        oss(.unsupported, "Statement[0].Resource", #""Effect":"Allow","Action":"oss:*","Resource":"acs:oss:*:a*:b""#),
        oss(.unsupported, "Statement[0].Action", #""Effect":"Allow","Action":"vod:Nothing","Resource":"*""#),
        oss(.unsupported, "Statement[0].Action", #""Effect":"Allow","Action":"vod:PutObject","Resource":"*""#),
        oss(.unsupported, "Statement[0].Action", #""Effect":"Allow","Action":"vod:ReportUpload*","Resource":"*""#),
        oss(.unsupported, "Statement[0].Action", #""Effect":"Allow","Action":"v*:GetVideoInfo","Resource":"*""#),
        oss(.unsupported, "Statement[0].Action", #""Effect":"Allow","Action":"oss:GetVideoInfo","Resource":"*""#),
        oss(.unsupported, "Statement[0].Resource", #""Effect":"Allow","Action":"vod:*","Resource":"acs:vod:*:*:v/*""#),
        oss(.unsupported, "Statement[0].Resource", #""Effect":"Allow","Action":"vod:*","Resource":"acs:vod:*:*:""#),
        oss(.unsupported, "Statement[0].Resource", #""Effect":"Allow","Action":"vod:*","Resource":"acs:vod:*:x:*""#),
        s3(.unsupported, "Statement[0].Action", #""Effect":"Allow","Action":"vod:*","Resource":"*""#),
        cos(.unsupported, "statement[0].action", #""effect":"allow","action":"vod:*","resource":"*""#),
        cos(.malformed, "statement[0].effect", #""effect":"Allow","action":"cos:*","resource":"*""#),
        cos(.unsupported, "statement[0].principal", #""principal":{"qcs":["*"]},"effect":"allow""#),
        cos(.unsupported, "statement[0].action", #""effect":"allow","action":"name/cvm:*","resource":"*""#),
        cos(
            .unsupported,
            "statement[0].resource",
            #""effect":"allow","action":"cos:*","resource":"qcs::cos:ap-x:uid/125:b-126/*""#
        ),
        cos(
            .unsupported,
            "statement[0].resource",
            #""effect":"allow","action":"cos:*","resource":"qcs::cos:ap-*:uid/125:b-125/*""#
        ),
        cos(
            .unsupported,
            "statement[0].resource",
            #""effect":"allow","action":"cos:*","resource":"qcs::cos:ap-x:prefix//125/b/*""#
        ),
        cos(
            .unsupported,
            "statement[0].condition.ip_equal",
            #""effect":"allow","action":"cos:*","resource":"*","condition":{"ip_equal":{"qcs:ip":"10.0.0.1"}}"#
        ),
        cos(
            .unsupported,
            "statement[0].condition.string_equal.cos:content-length",
            #""effect":"allow","action":"cos:*","resource":"*","condition":{"string_equal":{"cos:content-length":"1"}}"#
        ),
        cos(
            .malformed,
            "statement[0].condition.numeric_equal.cos:content-length",
            #""effect":"allow","action":"cos:*","resource":"*","condition":{"numeric_equal":{"cos:content-length":1.5}}"#
        ),
        cos(
            .malformed,
            "statement[0].condition.numeric_equal.cos:content-length",
            #""effect":"allow","action":"cos:*","resource":"*","condition":{"numeric_equal":{"cos:content-length":"-1"}}"#
        ),
    ]

    @Test("unknown elements are refused by name", arguments: refused)
    func notUnderstood(_ refused: Refused) {
        let error = #expect(throws: PolicyProblem.self) { try SessionPolicy(refused.json, vendor: refused.vendor) }
        #expect(error?.kind == refused.kind)
        #expect(error?.element == refused.element)
        if !refused.element.isEmpty { #expect(error?.message.contains(refused.element) == true) }
    }

    @Test(
        "resources in the form of each vendor are understood",
        arguments: [
            (Vendor.aws, "arn:aws-cn:s3:::b/a:b/*", "b/a:b/*"), (.aliyun, "acs:oss:oss-cn-x:123:b/a:b", "b/a:b"),
            (.aliyun, "acs:oss:*:*:b", "b"), (.aliyun, "acs:vod:*:*:*", "vod:"),
            (.aliyun, "acs:vod:cn-shanghai:123:*", "vod:"), (.aws, "acs:vod:*:*:*", nil),
            (.tencent, "qcs::cos:*:uid/1:b-1/a:b*", "b-1/a:b*"),
            (.tencent, "qcs::cos:ap-x:uid/1:*", "*"), (.tencent, "qcs::cos::uid/1:b-1/*", nil), (.aws, "*", "*"),
        ] as [(Vendor, String, String?)]
    )
    func resources(_ vendor: Vendor, _ name: String, _ pattern: String?) {
        #expect(ResourceNames.pattern(of: name, in: vendor)?.text == pattern)
    }

    @Test(
        "wildcards match as they are read",
        arguments: [
            ("", "", true), ("", "a", false), ("*", "", true), ("*", "a/b", true), ("?", "", false), ("?", "é", true),
            ("?", "e\u{301}", false), ("a*b", "ab", true), ("a*b", "axxb", true), ("a*b", "axxbc", false),
            ("*a*b*", "xaybz", true), ("*.mp4", "a.mp4.mp4", true), ("a**?", "ab", true), ("a**?", "a", false),
            ("*ab", "aab", true), ("é", "e\u{301}", false), ("a?c*", "abcabc", true), ("[a]", "a", false),
        ]
    )
    func wildcards(_ pattern: String, _ text: String, _ matches: Bool) {
        #expect(WildcardPattern(pattern).matches(text) == matches)
    }

    /// By the definition, in time that can grow beyond all bounds.
    private static func slowly(_ pattern: ArraySlice<Unicode.Scalar>, _ text: ArraySlice<Unicode.Scalar>) -> Bool {
        guard let first = pattern.first else { return text.isEmpty }
        if first == "*" {
            return slowly(pattern.dropFirst(), text) || !text.isEmpty && slowly(pattern, text.dropFirst())
        }
        guard let character = text.first, first == "?" || first == character else { return false }
        return slowly(pattern.dropFirst(), text.dropFirst())
    }

    @Test("wildcards match by their definition, whatever the characters")
    func anyWildcards() {
        var random = SeededGenerator(seed: 38)
        let letters: [Unicode.Scalar] = ["a", "b", "é", "\u{301}", "日", "😀", "è"]
        for round in 0..<20_000 {
            let some = Array(letters.prefix(1 + round % letters.count))
            func text(_ choices: [Unicode.Scalar], upTo most: Int) -> [Unicode.Scalar] {
                (0..<Int.random(in: 0...most, using: &random)).compactMap { _ in choices.randomElement(using: &random) }
            }
            // Some are longer than a word of the automaton.
            let filler = [Unicode.Scalar](repeating: "a", count: round % 10 == 0 ? 61 : 0)
            var pattern: [Unicode.Scalar] = round % 2 == 0 ? [] : ["*"]
            pattern += filler
            pattern += text(some + ["*", "*", "?"], upTo: 7)
            let subject = filler + text(some, upTo: 9)
            let texts = [pattern, subject].map { scalars in
                var text = String.UnicodeScalarView()
                text.append(contentsOf: scalars)
                return String(text)
            }
            let expected = Self.slowly(pattern[...], subject[...])
            #expect(WildcardPattern(texts[0]).matches(texts[1]) == expected, "\(texts)")
        }
    }

    @Test("no pattern of the longest policy costs more than a few thousand steps for the longest key")
    func hostilePattern() {
        let key = String(repeating: "a", count: 1024)
        let patterns = [
            "*" + String(repeating: "a", count: 500) + "b", "*" + String(repeating: "a", count: 2000) + "*",
            String(repeating: "a*", count: 1000) + "b", String(repeating: "*?", count: 1000) + "b",
            "*" + String(repeating: "a?", count: 256) + "b*", String(repeating: "?", count: 1000) + "*b",
            String(repeating: "*" + String(repeating: "a", count: 100) + "b", count: 20),
        ]
        for pattern in patterns {
            var steps = 0
            #expect(!WildcardPattern(pattern).matches(key, counting: &steps))
            #expect(steps <= 1024 * (pattern.utf8.count / 64 + 2), "\(pattern.prefix(20))")
        }
    }
}
