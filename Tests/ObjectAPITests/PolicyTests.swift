import Testing

@testable import ObjectAPI

@Suite("Session policies")
struct PolicyTests {
    private func policy(_ json: String, _ dialect: ObjectDialect) throws -> SessionPolicy {
        try SessionPolicy(json, dialect: dialect)
    }

    private func access(_ action: ObjectAction, _ key: String = "", _ bucket: String = "b") -> ObjectAccess {
        ObjectAccess(action, bucket: bucket, key: key)
    }

    @Test("an IAM policy allows what it says, and denies go before")
    func iam() throws {
        let policy = try policy(
            #"""
            {"Version":"2012-10-17","Id":"x","Statement":[
              {"Sid":"a","Effect":"Allow","Action":["s3:PutObject","S3:getobject"],"Resource":"arn:aws:s3:::b/in/*"},
              {"Effect":"Allow","Action":"s3:List*","Resource":["arn:aws:s3:::b","arn:aws:s3:::b/*"]},
              {"Effect":"Deny","Action":"*","Resource":"arn:aws:s3:::b/in/secret?.txt"}]}
            """#,
            .s3
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

    @Test("a bucket's pattern of AWS goes over the slash, as AWS has it")
    func wholeResource() throws {
        let policy = try policy(
            #"{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"s3:*","Resource":"arn:aws:s3:::b*"}}"#,
            .s3
        )
        #expect(policy.allows(access(.putObject, "a/b")))
        #expect(policy.allows(access(.putObject, "a/b", "bucket")))
        #expect(!policy.allows(access(.putObject, "b", "a")))
    }

    @Test("the RAM policy for one object allows its upload by parts, and nothing else")
    func ram() throws {
        let policy = try policy(
            #"""
            {"Version":"1","Statement":[{"Effect":"Allow","Action":["oss:PutObject","oss:AbortMultipartUpload",
            "oss:ListParts"],"Resource":["acs:oss:*:*:b/sv/1.mp4"]}]}
            """#,
            .oss
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

    @Test("the CAM policy of qcloud-python-sts allows an upload by parts below its prefix, listings of it among them")
    func cam() throws {
        let bucket = "vodtest-1250000000"
        let policy = try policy(
            #"""
            {"version":"2.0","statement":[{"effect":"allow","action":["name/cos:PutObject",
            "name/cos:InitiateMultipartUpload","name/cos:ListMultipartUploads","name/cos:ListParts","name/cos:UploadPart",
            "name/cos:CompleteMultipartUpload","name/cos:AbortMultipartUpload","name/cos:HeadObject"],
            "resource":["qcs::cos:ap-chongqing:uid/1250000000:vodtest-1250000000/vodtest/dir/*"]}]}
            """#,
            .cos
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

    @Test("size and media type are compared where COS has them")
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
            .cos
        )
        func put(_ length: Int64?, _ type: String?, _ action: ObjectAction = .putObject) -> Bool {
            policy.allows(ObjectAccess(action, bucket: "b", key: "k", contentLength: length, contentType: type))
        }
        #expect(put(1000, "video/mp4"))
        #expect(put(0, "image/png"))
        #expect(!put(1001, "video/mp4"))
        #expect(!put(10, "image/jpeg"))
        #expect(!put(10, "video/bad"))
        // What the request does not tell is not enough to allow it, but to deny it.
        #expect(!put(nil, "video/mp4"))
        #expect(!put(10, nil))
        #expect(put(2000, nil, .uploadPart))
        #expect(!put(2001, nil, .uploadPart))
        #expect(!put(nil, nil, .uploadPart))
        // An upload by parts has a type and no content when it begins.
        #expect(put(nil, "video/mp4", .createMultipartUpload))
        #expect(!put(nil, "video/mp4", .getObject))
    }

    @Test("a prefix is compared in listings only")
    func prefix() throws {
        let s3 = try policy(
            #"""
            {"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:*","Resource":"*",
            "Condition":{"StringLike":{"s3:prefix":["home/*"]},"StringNotEquals":{"S3:PREFIX":"home/root"}}}]}
            """#,
            .s3
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
            .oss
        )
        #expect(oss.allows(access(.listObjects, "a")))
        #expect(!oss.allows(access(.listObjects, "xa")))
        // It might list what must not be listed.
        #expect(!oss.allows(access(.listObjects)))
        #expect(oss.allows(access(.putObject, "xa")))
    }

    struct Refused: Sendable, CustomTestStringConvertible {
        let dialect: ObjectDialect
        let json: String
        let kind: PolicyProblem.Kind
        let element: String

        var testDescription: String { element + " of " + json }

        init(_ dialect: ObjectDialect, _ kind: PolicyProblem.Kind, _ element: String, _ json: String) {
            self.dialect = dialect
            self.json = json
            self.kind = kind
            self.element = element
        }
    }

    private static func s3(_ kind: PolicyProblem.Kind, _ element: String, _ statement: String) -> Refused {
        Refused(.s3, kind, element, #"{"Version":"2012-10-17","Statement":[{"# + statement + "}]}")
    }

    private static func oss(_ kind: PolicyProblem.Kind, _ element: String, _ statement: String) -> Refused {
        Refused(.oss, kind, element, #"{"Version":"1","Statement":[{"# + statement + "}]}")
    }

    private static func cos(_ kind: PolicyProblem.Kind, _ element: String, _ statement: String) -> Refused {
        Refused(.cos, kind, element, #"{"version":"2.0","statement":[{"# + statement + "}]}")
    }

    private static let plain = #""Effect":"Allow","Action":"s3:PutObject","Resource":"*""#

    static let refused: [Refused] = [
        Refused(.s3, .malformed, "", ""),
        Refused(.s3, .malformed, "", "[]"),
        Refused(.s3, .malformed, "", #"{"Version":"2012-10-17","Version":"2012-10-17","Statement":[{}]}"#),
        Refused(.s3, .malformed, "", #"{"Version":"2012-10-17","Statement":[{\#(plain),"Effect":"Deny"}]}"#),
        Refused(.s3, .malformed, "", #"{"Version":"2012-10-17","Statement":[{\#(plain)},]}"#),
        Refused(.s3, .malformed, "Version", #"{"Statement":[{\#(plain)}]}"#),
        Refused(.s3, .malformed, "Version", #"{"Version":"2008-10-17","Statement":[{\#(plain)}]}"#),
        Refused(.oss, .malformed, "Version", #"{"Version":1,"Statement":[{\#(plain)}]}"#),
        Refused(.s3, .malformed, "Statement", #"{"Version":"2012-10-17","Statement":[]}"#),
        Refused(.s3, .malformed, "Statement[1]", #"{"Version":"2012-10-17","Statement":[{\#(plain)},"x"]}"#),
        Refused(.s3, .unsupported, "Extra", #"{"Version":"2012-10-17","Statement":[{\#(plain)}],"Extra":1}"#),
        Refused(.s3, .malformed, "Id", #"{"Version":"2012-10-17","Statement":[{\#(plain)}],"Id":1}"#),
        Refused(.oss, .unsupported, "Id", #"{"Version":"1","Statement":[{\#(plain)}],"Id":"x"}"#),
        Refused(.cos, .unsupported, "Version", #"{"Version":"2.0","statement":[]}"#),
        Refused(.s3, .tooLong, "", String(repeating: " ", count: SessionPolicy.maximumByteCount + 1)),
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

    @Test("what is not understood is refused by its name", arguments: refused)
    func notUnderstood(_ refused: Refused) {
        let error = #expect(throws: PolicyProblem.self) { try SessionPolicy(refused.json, dialect: refused.dialect) }
        #expect(error?.kind == refused.kind)
        #expect(error?.element == refused.element)
        if !refused.element.isEmpty { #expect(error?.message.contains(refused.element) == true) }
    }

    @Test(
        "resources in the form of each vendor are understood",
        arguments: [
            (ObjectDialect.s3, "arn:aws-cn:s3:::b/a:b/*", "b/a:b/*"), (.oss, "acs:oss:oss-cn-x:123:b/a:b", "b/a:b"),
            (.oss, "acs:oss:*:*:b", "b"), (.cos, "qcs::cos:*:uid/1:b-1/a:b*", "b-1/a:b*"),
            (.cos, "qcs::cos:ap-x:uid/1:*", "*"), (.cos, "qcs::cos::uid/1:b-1/*", nil), (.s3, "*", "*"),
        ] as [(ObjectDialect, String, String?)]
    )
    func resources(_ dialect: ObjectDialect, _ name: String, _ pattern: String?) {
        #expect(ResourceNames.pattern(of: name, in: dialect)?.text == pattern)
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

    @Test("patterns made to be slow are not")
    func hostilePattern() {
        // By trying all ways, this would take longer than anybody lives.
        #expect(
            !WildcardPattern(String(repeating: "a*", count: 500) + "b").matches(String(repeating: "a", count: 1000))
        )
    }
}
