import Bytes
import Foundation
import HTTPWire
import Signing
import Testing
import XMLText

@testable import CloudCalls
@testable import ObjectGrants
@testable import TokenServices

@Suite("Security token services", .timeLimit(.minutes(10)))
struct TokenServiceTests {
    private typealias Parameters = [(name: String, value: String)]

    private static let ram =
        #"{"Version":"1","Statement":[{"Effect":"Allow","Action":"oss:PutObject","Resource":"*"}]}"#
    private static let iam =
        #"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:*","Resource":"*"}]}"#
    private static let cam = #"{"version":"2.0","statement":[{"effect":"allow","action":"cos:*","resource":"*"}]}"#

    private static let assumeRole: Parameters = [
        ("Action", "AssumeRole"), ("Version", "2011-06-15"), ("RoleArn", "arn:aws:iam::123456789012:role/app/uploader"),
        ("RoleSessionName", "user-1"),
    ]
    private static let webIdentity: Parameters = [
        ("Action", "AssumeRoleWithWebIdentity"), ("Version", "2011-06-15"),
        ("RoleArn", "arn:aws:iam::123456789012:role/uploader"), ("RoleSessionName", "user-1"),
        ("WebIdentityToken", "ey.ey.x"),
    ]
    private static let federation: Parameters = [
        ("Action", "GetFederationToken"), ("Version", "2011-06-15"), ("Name", "Bob"),
    ]
    private static let aliyun: Parameters = [
        ("Action", "AssumeRole"), ("Version", "2015-04-01"), ("Format", "JSON"), ("AccessKeyId", "x"),
        ("Signature", "y"), ("SignatureNonce", "z"), ("SignatureType", ""), ("RegionId", "cn-shanghai"),
        ("RoleArn", "acs:ram::1234567890123456:role/adminrole"), ("RoleSessionName", "alice"),
    ]
    private static let tencent: Parameters = [
        ("Action", "GetFederationToken"), ("Version", "2018-08-13"), ("Region", "ap-guangzhou"), ("Timestamp", "1"),
        ("Nonce", "2"), ("SecretId", "x"), ("Signature", "y"), ("Name", "cos-sts-python"),
        ("Policy", PercentEncoding.encode(cam)),
    ]

    private static let tencentRole: Parameters = [
        ("Action", "AssumeRole"), ("Version", "2018-08-13"),
        ("RoleArn", "qcs::cam::uin/100000000001:roleName/uploader"), ("RoleSessionName", "alice=1"),
    ]

    /// The parameters with some of them as given here, or without those of `nil`.
    private static func with(_ parameters: Parameters, _ changes: [String: String?]) -> Parameters {
        parameters.filter { changes[$0.name] == nil }
            + changes.compactMap { name, value in value.map { (name: name, value: $0) } }
    }

    private func credentials() throws -> SessionCredentials {
        try CredentialIssuer(master: master(1)).mint(grant(), for: .aliyun)
    }

    @Test("minimal requests get the vendors' defaults")
    func defaults() throws {
        let role = try AWSTokenService.request(Self.assumeRole)
        guard case .assumeRole(let named) = role.operation else {
            Issue.record("\(role)")
            return
        }
        #expect(named.account == "123456789012")
        #expect(named.name == "uploader")
        #expect(role.name == "user-1")
        #expect(role.seconds == 3600)
        #expect(role.policy == nil)
        let web = try AWSTokenService.request(Self.webIdentity)
        guard case .assumeRoleWithWebIdentity(_, "ey.ey.x") = web.operation else {
            Issue.record("\(web)")
            return
        }
        #expect(web.seconds == 3600)
        let user = try AWSTokenService.request(Self.federation)
        #expect(user.operation == .getFederationToken)
        #expect(user.seconds == 43_200)
        let alice = try AliyunTokenService.request(Self.aliyun)
        guard case .assumeRole(let adminRole) = alice.operation else {
            Issue.record("\(alice)")
            return
        }
        #expect(adminRole.account == "1234567890123456")
        #expect(adminRole.name == "adminrole")
        #expect(alice.seconds == 3600)
        let cos = try TencentTokenService.request(Self.tencent)
        #expect(cos.seconds == 1800)
        #expect(cos.name == "cos-sts-python")
        #expect(try cos.policy == SessionPolicy(Self.cam, vendor: .tencent))
        let session = try TencentTokenService.request(Self.tencentRole)
        guard case .assumeRole(let cosRole) = session.operation else {
            Issue.record("\(session)")
            return
        }
        #expect(cosRole.account == "100000000001")
        #expect(cosRole.name == "uploader")
        #expect(session.name == "alice=1")
        #expect(session.seconds == 7200)
        #expect(session.policy == nil)
    }

    @Test("roles of Tencent Cloud are named by name or id, also those of services")
    func rolesOfTencent() throws {
        for kind in ["role", "roleName", "role/tencentcloudServiceRole", "role/tencentcloudServiceRoleName"] {
            let name = "qcs::cam::uin/12:\(kind)/4611686018427397919"
            let request = try TencentTokenService.request(Self.with(Self.tencentRole, ["RoleArn": name]))
            #expect(
                request.operation
                    == .assumeRole(TokenRequest.Role(resourceName: name, account: "12", name: "4611686018427397919"))
            )
        }
    }

    @Test("a policy is read in the vendor's grammar, and Tencent's is percent-decoded once more")
    func policies() throws {
        let aws = try AWSTokenService.request(Self.with(Self.assumeRole, ["Policy": Self.iam, "ExternalId": "a/1"]))
        #expect(try aws.policy == SessionPolicy(Self.iam, vendor: .aws))
        #expect(aws.externalID == "a/1")
        let oss = try AliyunTokenService.request(Self.with(Self.aliyun, ["Policy": Self.ram]))
        #expect(try oss.policy == SessionPolicy(Self.ram, vendor: .aliyun))
        let narrowed = Self.with(Self.tencentRole, ["Policy": PercentEncoding.encode(Self.cam), "ExternalId": "a/1"])
        let role = try TencentTokenService.request(narrowed)
        #expect(try role.policy == SessionPolicy(Self.cam, vendor: .tencent))
        #expect(role.externalID == "a/1")
        let spaced = Self.cam.replacing(",", with: " , ")
        let encoded = PercentEncoding.encode(spaced)
        for policy in [spaced, encoded, encoded.replacing("%20", with: "+")] {
            let cos = try TencentTokenService.request(Self.with(Self.tencent, ["Policy": policy]))
            #expect(try cos.policy == SessionPolicy(Self.cam, vendor: .tencent))
        }
    }

    @Test("durations have the vendors' limits, to the second")
    func durations() {
        let limits: [(Parameters, (Parameters) throws(TokenRefusal) -> TokenRequest, Int, Int, String)] = [
            (Self.assumeRole, AWSTokenService.request, 900, 43_200, "ValidationError"),
            (Self.webIdentity, AWSTokenService.request, 900, 43_200, "ValidationError"),
            (Self.federation, AWSTokenService.request, 900, 129_600, "ValidationError"),
            (Self.aliyun, AliyunTokenService.request, 900, 43_200, "InvalidParameter.DurationSeconds"),
            (Self.tencent, TencentTokenService.request, 1, 129_600, "InvalidParameter.OverTimeError"),
            (Self.tencentRole, TencentTokenService.request, 1, 43_200, "InvalidParameter.OverTimeError"),
        ]
        for (parameters, parse, minimum, maximum, code) in limits {
            for seconds in [minimum, maximum] {
                let parsed = try? parse(Self.with(parameters, ["DurationSeconds": "\(seconds)"]))
                #expect(parsed?.seconds == seconds)
            }
            for seconds in [
                "\(minimum - 1)", "\(maximum + 1)", "", "-900", "+900", " 900", "1e3", "99999999999999999999",
            ] {
                let error = #expect(throws: TokenRefusal.self) {
                    try parse(Self.with(parameters, ["DurationSeconds": seconds]))
                }
                #expect(error?.code == code, "\(seconds)")
            }
        }
    }

    @Test("errors have the codes of AWS")
    func refusalsOfAWS() {
        let long = String(repeating: " ", count: 2049)
        let cases: [(Parameters, String)] = [
            (Self.with(Self.assumeRole, ["Action": "GetCallerIdentity"]), "InvalidAction"),
            (Self.with(Self.assumeRole, ["Action": nil]), "InvalidAction"),
            (Self.with(Self.assumeRole, ["Version": "2015-04-01"]), "InvalidAction"),
            (Self.with(Self.assumeRole, ["RoleArn": nil]), "ValidationError"),
            (Self.with(Self.assumeRole, ["RoleArn": "acs:ram::1234567890123456:role/a"]), "ValidationError"),
            (Self.with(Self.assumeRole, ["RoleArn": "arn:aws:iam::12345678901:role/abc"]), "ValidationError"),
            (Self.with(Self.assumeRole, ["RoleArn": "arn:aws:iam::123456789012:user/abc"]), "ValidationError"),
            (Self.with(Self.assumeRole, ["RoleArn": "arn:aws:iam::123456789012:role/abc/"]), "ValidationError"),
            (Self.with(Self.assumeRole, ["RoleSessionName": nil]), "ValidationError"),
            (Self.with(Self.assumeRole, ["RoleSessionName": "a"]), "ValidationError"),
            (Self.with(Self.assumeRole, ["RoleSessionName": "a b"]), "ValidationError"),
            (Self.with(Self.assumeRole, ["RoleSessionName": "aé"]), "ValidationError"),
            (Self.with(Self.assumeRole, ["RoleSessionName": String(repeating: "a", count: 65)]), "ValidationError"),
            (Self.with(Self.federation, ["Name": String(repeating: "a", count: 33)]), "ValidationError"),
            (Self.with(Self.assumeRole, ["Policy": ""]), "ValidationError"),
            (Self.with(Self.assumeRole, ["Policy": long]), "ValidationError"),
            (Self.with(Self.assumeRole, ["Policy": Self.ram]), "MalformedPolicyDocument"),
            (Self.with(Self.assumeRole, ["ExternalId": "a"]), "ValidationError"),
            (Self.with(Self.assumeRole, ["PolicyArns.member.1.arn": "x"]), "ValidationError"),
            (Self.with(Self.assumeRole, ["Tags.member.1.Key": "x"]), "ValidationError"),
            (Self.with(Self.assumeRole, ["SerialNumber": "x"]), "ValidationError"),
            (Self.with(Self.webIdentity, ["WebIdentityToken": nil]), "ValidationError"),
            (Self.with(Self.webIdentity, ["ExternalId": "abc"]), "ValidationError"),
            (Self.with(Self.webIdentity, ["ProviderId": "www.amazon.com"]), "ValidationError"),
            (Self.assumeRole + [("RoleSessionName", "user-2")], "ValidationError"),
        ]
        for (parameters, code) in cases {
            let error = #expect(throws: TokenRefusal.self) { try AWSTokenService.request(parameters) }
            #expect(error?.code == code, "\(parameters)")
            #expect(error?.status == 400)
        }
        // What signs a request in its query is no parameter of it.
        #expect(throws: Never.self) {
            try AWSTokenService.request(Self.with(Self.assumeRole, ["X-Amz-Signature": "x", "AWSAccessKeyId": "y"]))
        }
    }

    @Test("errors have the codes of Alibaba Cloud")
    func refusalsOfAliyun() {
        let cases: [(Parameters, Int, String)] = [
            (Self.with(Self.aliyun, ["Action": "GetCallerIdentity"]), 404, "InvalidAction.NotFound"),
            (Self.with(Self.aliyun, ["Version": "2017-03-21"]), 400, "InvalidVersion"),
            (Self.with(Self.aliyun, ["RoleArn": nil]), 400, "MissingParameter"),
            (Self.with(Self.aliyun, ["RoleArn": "acs:ram:x:12:role/a"]), 400, "InvalidParameter.RoleArn"),
            (Self.with(Self.aliyun, ["RoleArn": "acs:ram::12:role/"]), 400, "InvalidParameter.RoleArn"),
            (Self.with(Self.aliyun, ["RoleArn": "acs:ram::x:role/a"]), 400, "InvalidParameter.RoleArn"),
            (Self.with(Self.aliyun, ["RoleSessionName": nil]), 400, "MissingParameter"),
            (Self.with(Self.aliyun, ["RoleSessionName": "a"]), 400, "InvalidParameter.RoleSessionName"),
            (Self.with(Self.aliyun, ["RoleSessionName": "abc*abc"]), 400, "InvalidParameter.RoleSessionName"),
            (Self.with(Self.aliyun, ["Policy": Self.iam]), 400, "InvalidParameter.PolicyGrammar"),
            (
                Self.with(Self.aliyun, ["Policy": String(repeating: " ", count: 2049)]), 400,
                "InvalidParameter.PolicySize"
            ),
            (Self.with(Self.aliyun, ["SourceIdentity": "x"]), 400, "UnsupportedParameter"),
            (Self.aliyun + [("Policy", Self.ram), ("Policy", Self.ram)], 400, "InvalidParameter.Policy"),
        ]
        for (parameters, status, code) in cases {
            let error = #expect(throws: TokenRefusal.self) { try AliyunTokenService.request(parameters) }
            #expect(error?.code == code, "\(parameters)")
            #expect(error?.status == status)
        }
    }

    @Test("errors have the codes of Tencent Cloud")
    func refusalsOfTencent() {
        let cases: [(Parameters, String)] =
            [
                (Self.with(Self.tencent, ["Action": "GetCallerIdentity"]), "InvalidAction"),
                (Self.with(Self.tencent, ["Action": nil]), "InvalidAction"),
                (Self.with(Self.tencent, ["Action": "AssumeRole"]), "MissingParameter"),
                (Self.with(Self.tencent, ["Version": "2018-07-17"]), "NoSuchVersion"),
                (Self.with(Self.tencent, ["Name": nil]), "MissingParameter"),
                (Self.with(Self.tencent, ["Name": "a b"]), "InvalidParameter.ParamError"),
                (Self.with(Self.tencent, ["Policy": nil]), "MissingParameter"),
                (Self.with(Self.tencent, ["Policy": Self.ram]), "InvalidParameter.StrategyFormatError"),
                (Self.with(Self.tencent, ["Policy": "%FF"]), "InvalidParameter.StrategyFormatError"),
                (
                    Self.with(Self.tencent, ["Policy": String(repeating: "%20", count: 4097)]),
                    "InvalidParameter.PolicyTooLong"
                ),
                (Self.with(Self.tencent, ["Mode": "x"]), "UnknownParameter"),
                (Self.tencent + [("Name", "x")], "InvalidParameter.ParamError"),
                (Self.with(Self.tencentRole, ["RoleArn": nil]), "MissingParameter"),
                (Self.with(Self.tencentRole, ["RoleSessionName": nil]), "MissingParameter"),
                (Self.with(Self.tencentRole, ["RoleSessionName": "a"]), "InvalidParameter.ParamError"),
                (Self.with(Self.tencentRole, ["RoleSessionName": "a/b"]), "InvalidParameter.ParamError"),
                (Self.with(Self.tencentRole, ["ExternalId": "a"]), "InvalidParameter.ParamError"),
                (Self.with(Self.tencentRole, ["Policy": Self.ram]), "InvalidParameter.StrategyFormatError"),
                (Self.with(Self.tencentRole, ["Policy": ""]), "InvalidParameter.StrategyFormatError"),
                (Self.with(Self.tencentRole, ["Tags.0.Key": "a"]), "UnknownParameter"),
                (Self.with(Self.tencentRole, ["SerialNumber": "a"]), "UnknownParameter"),
                (Self.with(Self.tencentRole, ["SourceIdentity": "1"]), "UnknownParameter"),
            ]
            + [
                "", "qcs::cam::uin/1:user/a", "qcs::cam::uin/a:roleName/a", "qcs::cam::1:roleName/a",
                "qcs::cam:x:uin/1:roleName/a", "qcs::cam::uin/1:roleName/", "qcs::cam::uin/1:roleName/a b",
                "qcs::cam::uin/1:role/x/a", "qcs::cam::uin/1:uploader", "acs:ram::12:role/a",
            ]
            .map { (Self.with(Self.tencentRole, ["RoleArn": $0]), "InvalidParameter.ResouceError") }
        for (parameters, code) in cases {
            let error = #expect(throws: TokenRefusal.self) { try TencentTokenService.request(parameters) }
            #expect(error?.code == code, "\(parameters)")
            #expect(error?.status == 200)
        }
    }

    @Test("AWS's responses have the elements that its clients read")
    func responsesOfAWS() throws {
        let credentials = try credentials()
        func response(_ parameters: Parameters) throws -> XMLNode {
            let xml = AWSTokenService.response(
                to: try AWSTokenService.request(parameters),
                credentials,
                account: "123456789012",
                identity: WebIdentity(subject: "sub<1>", audience: "app", provider: "https://a", grant: grant()),
                requestID: "request-1"
            )
            #expect(xml.contains(#" xmlns="https://sts.amazonaws.com/doc/2011-06-15/">"#))
            return try #require(XMLNode.parse(Array(xml.utf8)))
        }
        for (name, parameters) in [
            ("AssumeRole", Self.with(Self.assumeRole, ["Policy": Self.iam])),
            ("AssumeRoleWithWebIdentity", Self.webIdentity),
            ("GetFederationToken", Self.federation),
        ] {
            let root = try response(parameters)
            #expect(root.name.text == name + "Response")
            #expect(root.all("ResponseMetadata").first?["RequestId"] == "request-1")
            let result = try #require(root.all(name + "Result").first)
            let members = try #require(result.all("Credentials").first)
            #expect(members["AccessKeyId"] == credentials.accessKeyID)
            #expect(members["SecretAccessKey"] == credentials.secretAccessKey.text)
            #expect(members["SessionToken"] == credentials.sessionToken)
            #expect(members["Expiration"] == "2026-01-02T04:04:05Z")
            let user = result.all("AssumedRoleUser").first
            switch name {
            case "GetFederationToken":
                let federated = try #require(result.all("FederatedUser").first)
                #expect(federated["Arn"] == "arn:aws:sts::123456789012:federated-user/Bob")
                #expect(federated["FederatedUserId"] == "123456789012:Bob")
                #expect(result["PackedPolicySize"] == nil)
            case "AssumeRole":
                #expect(user?["Arn"] == "arn:aws:sts::123456789012:assumed-role/uploader/user-1")
                let id = try #require(user?["AssumedRoleId"])
                #expect(id.hasPrefix("AROA") && id.hasSuffix(":user-1") && id.utf8.count == 27)
                #expect(result["PackedPolicySize"].flatMap { Int($0) }.map { (1...100).contains($0) } == true)
            default:
                #expect(user?["Arn"] == "arn:aws:sts::123456789012:assumed-role/uploader/user-1")
                #expect(result["SubjectFromWebIdentityToken"] == "sub<1>")
                #expect(result["Audience"] == "app")
                #expect(result["Provider"] == "https://a")
            }
        }
        let refusal = AWSTokenService.response(TokenRefusal(400, "ValidationError", "a < b"), requestID: "r")
        let root = try #require(XMLNode.parse(Array(refusal.utf8)))
        #expect(root.name == "ErrorResponse")
        #expect(root["RequestId"] == "r")
        #expect(root.all("Error").first?["Type"] == "Sender")
        #expect(root.all("Error").first?["Code"] == "ValidationError")
        #expect(root.all("Error").first?["Message"] == "a < b")
    }

    @Test("Alibaba Cloud's responses have the same names in JSON and XML")
    func responsesOfAliyun() throws {
        let credentials = try credentials()
        let request = try AliyunTokenService.request(Self.aliyun)
        let document = AliyunTokenService.document(to: request, credentials)
        guard let members = JSONValue(json: document.json)?.members,
            case .object(let user)? = members["AssumedRoleUser"], case .string(let roleID)? = user["AssumedRoleId"]
        else {
            Issue.record("\(document)")
            return
        }
        #expect(user["Arn"] == .string("acs:ram::1234567890123456:role/adminrole/alice"))
        #expect(roleID.hasSuffix(":alice"))
        #expect(
            members["Credentials"]
                == .object([
                    "AccessKeyId": .string(credentials.accessKeyID),
                    "AccessKeySecret": .string(credentials.secretAccessKey.text),
                    "SecurityToken": .string(credentials.sessionToken),
                    "Expiration": .string("2026-01-02T04:04:05Z"),
                ])
        )
        let root = try #require(XMLNode.parse(document.xml("AssumeRoleResponse")))
        #expect(root.name == "AssumeRoleResponse")
        #expect(root.all("AssumedRoleUser").first?["AssumedRoleId"] == roleID)
        #expect(root.all("Credentials").first?["AccessKeyId"] == credentials.accessKeyID)
        #expect(root.all("Credentials").first?["AccessKeySecret"] == credentials.secretAccessKey.text)
        #expect(root.all("Credentials").first?["SecurityToken"] == credentials.sessionToken)
        #expect(root.all("Credentials").first?["Expiration"] == "2026-01-02T04:04:05Z")
        let refusal = AliyunCallFailure(400, "InvalidParameter.RoleArn", "x & y").document(requestID: "R", host: "h")
        #expect(
            String(decoding: refusal.json, as: UTF8.self)
                == #"{"Code":"InvalidParameter.RoleArn","HostId":"h","Message":"x & y","RequestId":"R"}"#
        )
        let error = try #require(XMLNode.parse(refusal.xml("Error")))
        #expect(error.name == "Error")
        #expect(error["Code"] == "InvalidParameter.RoleArn")
        #expect(error["Message"] == "x & y")
        #expect(error["HostId"] == "h")
    }

    @Test("Tencent Cloud's responses are within `Response`")
    func responsesOfTencent() throws {
        let credentials = try credentials()
        let response = TencentTokenService.response(credentials, requestID: "r-1")
        // The Python SDK finds errors only with this media type without parameters.
        #expect(response.status == 200 && response.fields["Content-Type"] == "application/json")
        #expect(
            Self.text(response)
                == #"{"Response":{"Credentials":{"TmpSecretId":"\#(credentials.accessKeyID)","TmpSecretKey":"\#(credentials.secretAccessKey.text)","Token":"\#(credentials.sessionToken)"},"Expiration":"2026-01-02T04:04:05Z","ExpiredTime":1767326645,"RequestId":"r-1"}}"#
        )
        #expect(
            Self.text(TencentCalls.response(TencentCallFailure("InvalidAction", "x"), requestID: "r"))
                == #"{"Response":{"Error":{"Code":"InvalidAction","Message":"x"},"RequestId":"r"}}"#
        )
    }

    private static func text(_ response: Response) -> String {
        guard case .bytes(let bytes) = response.content else { return "" }
        return String(decoding: bytes, as: UTF8.self)
    }

    @Test("a grant that is too long for a token is refused with each vendor's code")
    func tooLong() {
        let problem = GrantTooLong(byteCount: 5000, maximumByteCount: 4096)
        #expect(AWSTokenService.refusal(problem).code == "PackedPolicyTooLarge")
        #expect(AliyunTokenService.refusal(problem).code == "InvalidParameter.PolicySize")
        #expect(TencentTokenService.refusal(problem).code == "InvalidParameter.PolicyTooLong")
        #expect(AWSTokenService.refusal(problem).message.contains("5000"))
    }
}
