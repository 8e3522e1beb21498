import Signing
import Testing
import UploadModel

@testable import ObjectGrants
@testable import TokenServices

/// What must not mint is refused with the code that clients of the vendor know, and mints nothing.
@Suite("What is denied by the vendors' token services", .timeLimit(.minutes(10)))
struct TokenDenialTests {
    /// One row: a call, and what the response is.
    struct Row: Sendable, CustomTestStringConvertible {
        let what: String
        let expected: String
        let message: @Sendable () throws -> TokenMessage

        init(_ what: String, _ expected: String, _ message: @escaping @Sendable () throws -> TokenMessage) {
            self.what = what
            self.expected = expected
            self.message = message
        }

        var testDescription: String { what }
    }

    private static let unknown = SigningCredentials(accessKeyID: "SLAKUNKNOWN", secretAccessKey: "examplesecret")
    private static let wrong = SigningCredentials(
        accessKeyID: TokenBench.administrator.accessKeyID,
        secretAccessKey: "examplesecreT"
    )
    private static let session = SigningCredentials(
        accessKeyID: TokenBench.administrator.accessKeyID,
        secretAccessKey: "examplesecret",
        sessionToken: "token"
    )
    private static let long = String(repeating: "x", count: 70_000)

    static let aws: [Row] = [
        Row("an unknown key", "403 InvalidClientTokenId") { try .signed(.aws, by: unknown) },
        Row("another secret", "403 SignatureDoesNotMatch") { try .signed(.aws, by: wrong) },
        Row("a session", "403 InvalidClientTokenId") { try .signed(.aws, by: session) },
        Row("the state is away", "503 ServiceUnavailable") { try .signed(.aws, by: TokenBench.unavailable) },
        Row("signed too long ago", "403 RequestExpired") { try .signed(.aws, shift: -901) },
        Row("signed too early", "403 RequestExpired") { try .signed(.aws, shift: 901) },
        Row("not signed", "403 MissingAuthenticationToken") { try .signed(.aws).with("Authorization", nil) },
        Row("another scheme", "400 IncompleteSignature") { try .signed(.aws).with("Authorization", "AWS x:y") },
        Row("for another service", "403 SignatureDoesNotMatch") { try .signed(.aws, service: "s3") },
        Row("another form", "403 SignatureDoesNotMatch") { try .signed(.aws).replacing("alice", with: "bob") },
        Row("another form than that of the hash", "403 SignatureDoesNotMatch") {
            var message = try TokenMessage.signed(.aws, rules: .s3)
            message.content += "&DurationSeconds=43200"
            return message
        },
        Row("a form that is none", "400 MalformedQueryString") {
            try .signed(.aws, ["A": "b"]).replacing("b", with: "%")
        },
        Row("a large form", "400 MalformedQueryString") { try .signed(.aws, ["Policy": long]) },
        Row("an identity provider", "400 InvalidIdentityToken") {
            try .signed(.aws, ["Action": "AssumeRoleWithWebIdentity", "WebIdentityToken": "a.b.c"])
        },
        Row("a policy that nobody understands", "400 MalformedPolicyDocument") {
            try .signed(.aws, ["Policy": TokenMessage.iam.replacing("\"Resource\"", with: "\"NotResource\"")])
        },
        Row("a duration", "400 ValidationError") { try .signed(.aws, ["DurationSeconds": "43201"]) },
        Row("a parameter", "400 ValidationError") { try .signed(.aws, ["TokenCode": "1"]) },
        Row("an action", "400 InvalidAction") { try .signed(.aws, ["Action": "GetCallerIdentity"]) },
    ]

    static let aliyun: [Row] = [
        Row("an unknown key", "404 InvalidAccessKeyId.NotFound") { try .signed(.rpcQuery, by: unknown) },
        Row("an unknown key in the header", "404 InvalidAccessKeyId.NotFound") { try .signed(.acs3, by: unknown) },
        Row("another secret", "400 SignatureDoesNotMatch") { try .signed(.rpcForm, by: wrong) },
        Row("another secret in the header", "400 SignatureDoesNotMatch") { try .signed(.acs3, by: wrong) },
        Row("a session", "403 NoPermission") { try .signed(.rpcForm, by: session) },
        Row("a session in the header", "403 NoPermission") { try .signed(.acs3, by: session) },
        Row("the state is away", "503 ServiceUnavailable") { try .signed(.rpcForm, by: TokenBench.unavailable) },
        Row("signed too long ago", "400 InvalidTimeStamp.Expired") { try .signed(.rpcForm, shift: -901) },
        Row("signed too early, in the header", "400 InvalidTimeStamp.Expired") { try .signed(.acs3, shift: 901) },
        Row("a time that is none", "400 InvalidTimeStamp.Format") {
            try .signed(.rpcForm).replacing("2026-01-02T", with: "2026-01-02U")
        },
        Row("not signed", "400 MissingParameter") { try .signed(.rpcQuery).replacing("&Signature=", with: "&Sign=") },
        Row("without access key", "400 MissingParameter") {
            try .signed(.rpcQuery).replacing("AccessKeyId=", with: "AccessKey=")
        },
        Row("another algorithm", "400 IncompleteSignature") {
            try .signed(.rpcForm).replacing("HMAC-SHA1", with: "HMAC-SHA256")
        },
        Row("the action in the header only, and no signature", "400 MissingParameter") {
            try .signed(.acs3).with("Authorization", nil)
        },
        Row("a header that is not signed", "400 IncompleteSignature") {
            try .signed(.acs3).with("x-acs-security-token", "x")
        },
        Row("without nonce, in the header", "400 MissingParameter") {
            try .signed(.acs3).with("x-acs-signature-nonce", nil)
        },
        Row("content that is not signed", "400 IncompleteSignature") {
            var message = try TokenMessage.signed(.acs3).with("Content-Type", "application/x-www-form-urlencoded")
            message.content = "DurationSeconds=43200"
            return message
        },
        Row("content that is no form", "400 InvalidParameter") {
            try .signed(.acs3, content: "DurationSeconds=900")
        },
        Row("another method", "400 SignatureDoesNotMatch") {
            var message = try TokenMessage.signed(.rpcQuery)
            message.method = "POST"
            return message
        },
        Row("a parameter twice", "400 IncompleteSignature") {
            var message = try TokenMessage.signed(.rpcQuery)
            message.target += "&RoleSessionName=bob"
            return message
        },
        Row("a parameter in query and form", "400 IncompleteSignature") {
            var message = try TokenMessage.signed(.rpcForm)
            message.target += "?RoleSessionName=bob"
            return message
        },
        Row("a large form", "400 InvalidParameter") {
            try .signed(.rpcForm, ["Policy": long]).with("x-acs-action", "AssumeRole")
        },
        Row("another action", "404 InvalidAction.NotFound") { try .signed(.rpcForm, ["Action": "CreateUploadVideo"]) },
        Row("another version", "400 InvalidVersion") { try .signed(.acs3, ["Version": "2017-03-21"]) },
        Row("another format", "400 InvalidParameter.Format") { try .signed(.rpcForm, ["Format": "YAML"]) },
        Row("a role", "400 InvalidParameter.RoleArn") { try .signed(.acs3, ["RoleArn": "uploader"]) },
        Row("a duration", "400 InvalidParameter.DurationSeconds") { try .signed(.rpcForm, ["DurationSeconds": "899"]) },
        Row("a policy that nobody understands", "400 InvalidParameter.PolicyGrammar") {
            try .signed(.rpcForm, ["Policy": TokenMessage.ram.replacing("\"Resource\"", with: "\"NotResource\"")])
        },
        Row("a parameter", "400 UnsupportedParameter") { try .signed(.acs3, ["SourceIdentity": "x"]) },
    ]

    static let tencent: [Row] = [
        Row("an unknown key", "200 AuthFailure.SecretIdNotFound") { try .signed(.tc3, by: unknown) },
        Row("an unknown key in the form", "200 AuthFailure.SecretIdNotFound") { try .signed(.tc1, by: unknown) },
        Row("another secret", "200 AuthFailure.SignatureFailure") { try .signed(.tc3, by: wrong) },
        Row("another secret in the form", "200 AuthFailure.SignatureFailure") { try .signed(.tc1, by: wrong) },
        Row("a session", "200 AuthFailure.TokenFailure") { try .signed(.tc3, by: session) },
        Row("a session in the form", "200 AuthFailure.TokenFailure") { try .signed(.tc1, by: session) },
        Row("the state is away", "200 InternalError") { try .signed(.tc3, by: TokenBench.unavailable) },
        Row("signed too long ago", "200 AuthFailure.SignatureExpire") { try .signed(.tc3, shift: -301) },
        Row("signed too early, in the form", "200 AuthFailure.SignatureExpire") { try .signed(.tc1, shift: 301) },
        Row("not signed", "200 AuthFailure.InvalidAuthorization") { try .signed(.tc3).with("Authorization", nil) },
        Row("another scheme", "200 AuthFailure.InvalidAuthorization") {
            try .signed(.tc3).with("Authorization", "TC4 x")
        },
        Row("for another service", "200 AuthFailure.InvalidAuthorization") { try .signed(.tc3, service: "vod") },
        Row("another host", "200 AuthFailure.SignatureFailure") {
            try .signed(.tc3).with("Host", "vod.example.org")
        },
        Row("another host, in the form", "200 AuthFailure.SignatureFailure") {
            try .signed(.tc1).with("Host", "vod.example.org")
        },
        Row("other content", "200 AuthFailure.SignatureFailure") { try .signed(.tc3).replacing("alice", with: "bob") },
        Row("without time", "200 MissingParameter") { try .signed(.tc3).with("X-TC-Timestamp", nil) },
        Row("without nonce", "200 MissingParameter") { try .signed(.tc1).replacing("Nonce=", with: "Nnce=") },
        // Signed as if it were Nonce=1001 and the policy.
        Row("a nonce that hides a parameter", "200 AuthFailure.InvalidAuthorization") {
            try .signed(.tc1).replacing("1001&Policy=", with: "1001%26Policy%3D")
        },
        Row("another algorithm", "200 AuthFailure.InvalidAuthorization") {
            try .signed(.tc1).replacing("HmacSHA256", with: "HmacMD5")
        },
        Row("a parameter twice", "200 AuthFailure.InvalidAuthorization") {
            var message = try TokenMessage.signed(.tc1)
            message.content += "&Name=bob"
            return message
        },
        Row("large content", "200 InvalidParameter") { try .signed(.tc3, ["Policy": long]) },
        Row("another action", "200 InvalidAction") { try .signed(.tc3).with("X-TC-Action", "GetCallerIdentity") },
        // The SDKs do not sign its name.
        Row("the action of other parameters", "200 MissingParameter") {
            try .signed(.tc3).with("X-TC-Action", "AssumeRole")
        },
        Row("another version", "200 NoSuchVersion") { try .signed(.tc1, ["Version": "2017-03-12"]) },
        Row("a duration", "200 InvalidParameter.OverTimeError") { try .signed(.tc1, ["DurationSeconds": "129601"]) },
        Row("no policy", "200 MissingParameter") { try .signed(.tc3, ["Policy": nil]) },
        Row("a policy that nobody understands", "200 InvalidParameter.StrategyFormatError") {
            try .signed(.tc3, ["Policy": TokenMessage.cam.replacing("\"resource\"", with: "\"principal\"")])
        },
        Row("a parameter", "200 UnknownParameter") { try .signed(.tc3, ["Mode": "x"]) },
    ]

    @Test("AWS's calls are refused with its codes", arguments: aws)
    func ofAWS(_ row: Row) async throws { try await check(row) }

    @Test("Alibaba Cloud's calls are refused with its codes", arguments: aliyun)
    func ofAliyun(_ row: Row) async throws { try await check(row) }

    @Test("Tencent Cloud's calls are refused with its codes", arguments: tencent)
    func ofTencent(_ row: Row) async throws { try await check(row) }

    private func check(_ row: Row) async throws {
        let bench = TokenBench()
        let response = try await bench.send(try row.message())
        #expect(response.outcome == row.expected)
        #expect(bench.mintedCount == 0)
        let text = try #require(response.text)
        #expect(!text.contains("examplesecret"))
        // The code is where the vendor's clients look for it.
        let code = row.expected.split(separator: " ").last ?? ""
        #expect(text.contains("<Code>\(code)</Code>") || text.contains("\"Code\":\"\(code)\""))
    }
}
