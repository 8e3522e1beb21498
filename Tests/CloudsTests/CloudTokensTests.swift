import Bytes
import CloudCredentials
import Foundation
import HTTPWire
import Signing
import SluiceTesting
import Synchronization
import Testing
import UploadModel

@testable import Clouds

/// The token services cannot run here: a local HTTP server plays them, with the responses from their documentation.
@Suite("Token services", .timeLimit(.minutes(10)))
struct CloudTokensTests {
    /// The received request in the form that a verifier takes.
    private func signed(_ call: TestServer.Call, payload: SigV4Payload) throws -> SigningRequest {
        SigningRequest(
            method: call.method,
            path: call.path,
            query: try QueryItems(call.query).items.map { SigningField($0.name, $0.value) },
            headers: call.fields.entries.indices.map { index in
                SigningField(call.fields.name(at: index), call.fields.value(at: index))
            },
            payload: payload
        )
    }

    private func form(_ text: String) throws -> [String: String] {
        try Dictionary(uniqueKeysWithValues: QueryItems(text).items.map { ($0.name, $0.value) })
    }

    private func check(_ found: TemporaryCredentials, _ id: String) {
        #expect(found.value.accessKeyID == id)
        #expect(found.value.secretAccessKey == "s1")
        #expect(found.value.sessionToken == "t1")
        #expect(found.expiresAt == World.noon.addingTimeInterval(3600))
    }

    @Test("AWS receives AssumeRole, signed for its service")
    func assumeRole() async throws {
        try await World.serving(TestServer.Reply(200, World.awsResponse)) { server in
            check(try await World.aws(server.url).mint(World.request), "ASIA1")
            let call = try #require(server.calls.first)
            #expect(call.method == "POST" && call.path == "/" && call.query == "")
            #expect(
                try form(call.body) == [
                    "Action": "AssumeRole", "Version": "2011-06-15", "RoleArn": "arn:aws:iam::123456789012:role/up",
                    "RoleSessionName": "user-42", "ExternalId": "ext 1", "DurationSeconds": "3600",
                    "Policy": #"{"a b":"*"}"#,
                ]
            )
            let verifier = SigV4Verifier(region: "eu-west-1", service: "sts", rules: .general)
            let payload = SigV4Payload(content: Array(call.body.utf8))
            let claim = try verifier.claim(try signed(call, payload: payload), at: World.noon.unixSeconds)
            _ = try verifier.verify(claim, credentials: World.pair)
        }
    }

    @Test("without a role the user is federated, with a longer lifetime")
    func federation() async throws {
        let response = World.awsResponse.replacing("AssumeRole", with: "GetFederationToken")
        try await World.serving(TestServer.Reply(200, response)) { server in
            let tokens = World.aws(server.url, role: nil)
            #expect(tokens.lifetimes == 900...129_600)
            check(try await tokens.mint(World.request), "ASIA1")
            let form = try form(try #require(server.calls.first).body)
            #expect(form["Action"] == "GetFederationToken")
            #expect(form["Name"] == "user-42")
            #expect(form["RoleArn"] == nil && form["RoleSessionName"] == nil)
        }
    }

    @Test("calls for ApsaraVideo VOD are signed in the header, or among the parameters", arguments: [false, true])
    func apsara(isVersion1: Bool) async throws {
        try await World.serving(TestServer.Reply(200, "{}")) { server in
            let cloud = AliyunVODCloud(
                caller: World.caller(.aliyun),
                credentials: World.pair,
                endpoint: CloudEndpoint(origin: server.url),
                signature: isVersion1 ? .parameters : .header,
                clock: ManualClock(World.noon)
            )
            let parameters = [SigningField("Title", "a b+c~é"), SigningField("FileName", "a.mp4")]
            #expect(try await cloud.perform("CreateUploadVideo", parameters, isXML: false).status == 200)
            let call = try #require(server.calls.first)
            #expect(call.method == "POST" && call.path == "/")
            let request = try signed(call, payload: .empty)
            func value(_ name: String) -> String? { request.query.first { $0.name == name }?.value }
            #expect(value("Title") == "a b+c~é" && value("Format") == "JSON")
            if isVersion1 {
                #expect(value("Action") == "CreateUploadVideo" && value("Version") == "2017-03-21")
                let claim = try AliyunRPCSignature.claim(request, at: World.noon.unixSeconds)
                try AliyunRPCSignature.verify(claim, credentials: World.pair)
            } else {
                #expect(call.fields["x-acs-action"] == "CreateUploadVideo" && value("Action") == nil)
                let claim = try ACS3Signature.claim(request, at: World.noon.unixSeconds)
                try ACS3Signature.verify(claim, credentials: World.pair)
            }
        }
    }

    @Test("Alibaba Cloud receives AssumeRole, signed in the header")
    func aliyun() async throws {
        try await World.serving(TestServer.Reply(200, World.aliyunResponse)) { server in
            check(try await World.aliyun(server.url).mint(World.request), "STS.1")
            let call = try #require(server.calls.first)
            #expect(call.method == "POST" && call.path == "/" && call.body == "")
            #expect(call.fields["x-acs-action"] == "AssumeRole")
            #expect(call.fields["x-acs-version"] == "2015-04-01")
            #expect(
                try form(call.query) == [
                    "RoleArn": "acs:ram::1234567890123456:role/up", "RoleSessionName": "user-42",
                    "DurationSeconds": "3600", "Policy": #"{"a b":"*"}"#,
                ]
            )
            let claim = try ACS3Signature.claim(try signed(call, payload: .empty), at: World.noon.unixSeconds)
            try ACS3Signature.verify(claim, credentials: World.pair)
        }
    }

    @Test("Tencent Cloud receives GetFederationToken, with the policy escaped")
    func tencent() async throws {
        try await World.serving(TestServer.Reply(200, World.tencentResponse)) { server in
            check(try await World.tencent(server.url).mint(World.request), "AKID1")
            let call = try #require(server.calls.first)
            #expect(call.method == "POST" && call.path == "/")
            #expect(call.fields["X-TC-Action"] == "GetFederationToken")
            #expect(call.fields["X-TC-Version"] == "2018-08-13")
            #expect(call.fields["X-TC-Region"] == "ap-guangzhou")
            let members = try #require(JSONValue(json: Array(call.body.utf8))?.members)
            #expect(members["Policy"] == .string("%7B%22a%20b%22%3A%22%2A%22%7D"))
            #expect(members["DurationSeconds"] == .integer(3600))
            // Session names there contain letters only.
            guard case .string(let name)? = members["Name"] else { return #expect(Bool(false), "no name") }
            #expect(name.hasPrefix("user") && name.utf8.count == 20)
            #expect(name.utf8.allSatisfy { CloudTokenRequest.isLetter($0) })
            let verifier = TC3Verifier(service: "sts")
            let payload = SigV4Payload(content: Array(call.body.utf8))
            let claim = try verifier.claim(try signed(call, payload: payload), at: World.noon.unixSeconds)
            try verifier.verify(claim, credentials: World.pair)
        }
    }

    // MARK: Failures

    private static let services: [(name: String, make: @Sendable (String) -> any CloudTokens)] = [
        ("AWS", { World.aws($0) }), ("Alibaba Cloud", { World.aliyun($0) }), ("Tencent Cloud", { World.tencent($0) }),
    ]

    private func failure(_ tokens: any CloudTokens) async -> CloudFailure? {
        do throws(CloudFailure) {
            _ = try await tokens.mint(World.request)
            return nil
        } catch {
            return error
        }
    }

    private static func error(_ code: String, _ message: String, of cloud: String) -> String {
        switch cloud {
        case "AWS":
            "<ErrorResponse><Error><Type>Sender</Type><Code>\(code)</Code><Message>\(message)</Message></Error></ErrorResponse>"
        case "Alibaba Cloud": #"{"RequestId":"1","Code":"\#(code)","Message":"\#(message)"}"#
        default: #"{"Response":{"Error":{"Code":"\#(code)","Message":"\#(message)"},"RequestId":"1"}}"#
        }
    }

    private static func status(_ status: Int, of cloud: String) -> Int { cloud == "Tencent Cloud" ? 200 : status }

    @Test("a cloud's refusal is reported in one line, without secrets")
    func refusals() async throws {
        for (name, make) in Self.services {
            let message = "not you: the-secret-key" + String(repeating: "x", count: 400)
            let response = TestServer.Reply(
                Self.status(403, of: name),
                Self.error("AccessDenied", message, of: name)
            )
            try await World.serving(response) { server in
                let found = await failure(make(server.url))
                #expect(found?.kind == .refused)
                let text = found?.message ?? ""
                #expect(text.hasPrefix("\(name) refused "))
                #expect(text.contains("AccessDenied (not you: <redacted>xxx"))
                #expect(text.hasSuffix("…)") && text.utf8.count < 400)
            }
        }
    }

    @Test("for a refused signature only the code is reported, because the signed text contains the token")
    func wrongSignatures() async throws {
        for (name, make) in Self.services {
            let response = TestServer.Reply(
                Self.status(400, of: name),
                Self.error("SignatureDoesNotMatch", "server string to sign is: hush", of: name)
            )
            try await World.serving(response) { server in
                let found = await failure(make(server.url))
                #expect(found?.kind == .refused)
                #expect(found?.message.contains("hush") == false)
                #expect(found?.message.hasSuffix(": SignatureDoesNotMatch") == true)
            }
        }
    }

    @Test("the session token of the server's own credentials appears in no message")
    func tokens() async throws {
        let pair = SigningCredentials(accessKeyID: "ASIA", secretAccessKey: "s", sessionToken: "the-token")
        let response = TestServer.Reply(403, Self.error("ExpiredToken", "the-token is over", of: "AWS"))
        try await World.serving(response) { server in
            let found = await failure(World.aws(server.url, pair: pair))
            #expect(found?.message.contains("the-token") == false)
            #expect(server.calls.first?.fields["x-amz-security-token"] == "the-token")
        }
    }

    @Test("an error of Ceph's token service is understood too")
    func errorOfCeph() async throws {
        let body = "<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code><RequestId>1</RequestId></Error>"
        try await World.serving(TestServer.Reply(403, body)) { server in
            let found = await failure(World.aws(server.url))
            #expect(found?.kind == .refused)
            #expect(found?.message == "AWS refused AssumeRole: AccessDenied")
        }
    }

    @Test("credentials that AWS no longer accepts are fetched again the next time")
    func invalidation() async throws {
        final class Counting: AWSCredentialsProvider {
            let count = Mutex(0)
            func credentials() async throws(CredentialsError) -> SigningCredentials { World.pair }
            func invalidate() async { count.withLock { $0 += 1 } }
        }
        for (code, expected) in [("ExpiredToken", 1), ("InvalidClientTokenId", 1), ("AccessDenied", 0)] {
            try await World.serving(TestServer.Reply(403, Self.error(code, "no", of: "AWS"))) { server in
                let credentials = Counting()
                let tokens = AWSTokens(
                    caller: World.caller(.aws),
                    credentials: credentials,
                    endpoint: CloudEndpoint(origin: server.url),
                    region: "eu-west-1",
                    role: nil,
                    clock: ManualClock(World.noon)
                )
                #expect(await failure(tokens)?.kind == .refused)
                #expect(credentials.count.withLock { $0 } == expected)
            }
        }
    }

    @Test("an overloaded cloud is reported as unavailable, and requested only once")
    func throttling() async throws {
        for (name, make) in Self.services {
            let code = ["AWS": "Throttling", "Alibaba Cloud": "Throttling.User"][name] ?? "RequestLimitExceeded.Uin"
            for status in Set([400, 429, 503].map { Self.status($0, of: name) }) {
                try await World.serving(TestServer.Reply(status, Self.error(code, "slow down", of: name))) { server in
                    let found = await failure(make(server.url))
                    #expect(found?.kind == .unavailable)
                    #expect(server.calls.count == 1)
                }
            }
        }
    }

    @Test("a malformed response is reported as such, and not quoted")
    func nonsense() async throws {
        let responses: [(Int, String, CloudFailure.Kind)] = [
            (200, "<html>hush</html>", .malformed), (200, "", .malformed), (200, "{\"Credentials\": {}}", .malformed),
            (200, "{\"Response\": {\"Credentials\": {\"Token\": \"hush\"}}}", .malformed),
            (200, World.awsResponse.replacing("<SecretAccessKey>s1</SecretAccessKey>", with: ""), .malformed),
            (200, String(repeating: "x", count: 70_000), .malformed), (302, "", .malformed), (404, "hush", .malformed),
            (500, "hush", .unavailable), (503, "<Error><Code>\u{1}hush</Code></Error>", .unavailable),
        ]
        for (name, make) in Self.services {
            for (status, body, kind) in responses {
                try await World.serving(TestServer.Reply(status, body)) { server in
                    let found = await failure(make(server.url))
                    #expect(found?.kind == kind, "\(name) \(status) \(body.prefix(40))")
                    #expect(found?.message.contains("hush") == false)
                }
            }
        }
    }

    @Test("a cloud that does not respond is unavailable")
    func silence() async throws {
        let (gone, hold) = AsyncStream<Void>.makeStream()
        let server = try TestServer { _, _ in
            for await _ in gone {}
            return TestServer.Reply(200, World.awsResponse)
        }
        let slow = await failure(World.aws(server.url, timeout: .milliseconds(50)))
        #expect(slow?.kind == .unavailable)
        #expect(slow?.message == "AssumeRole of AWS did not respond: the response did not arrive in time")
        hold.finish()
        await server.shutDown()
        // Nothing listens there any more.
        let down = await failure(World.aws(server.url))
        #expect(down?.kind == .unavailable)
    }

    @Test("without credentials the client gets an error, and the log the reason")
    func noCredentials() async {
        struct None: AWSCredentialsProvider {
            func credentials() async throws(CredentialsError) -> SigningCredentials {
                throw CredentialsError("/a/path")
            }
            func invalidate() async {}
        }
        let tokens = AWSTokens(
            caller: World.caller(.aws),
            credentials: None(),
            endpoint: CloudEndpoint(origin: "http://127.0.0.1:1"),
            region: "eu-west-1",
            role: nil,
            clock: ManualClock(World.noon)
        )
        let found = await failure(tokens)
        #expect(found?.kind == .unavailable)
        #expect(found?.cause == "/a/path")
        #expect(found?.message.contains("/a/path") == false)
    }

    @Test("the number of concurrent requests is limited")
    func manyCalls() async throws {
        let (gone, hold) = AsyncStream<Void>.makeStream()
        let server = try TestServer { _, _ in
            for await _ in gone {}
            return TestServer.Reply(200, World.awsResponse)
        }
        let tokens = World.aws(server.url)
        let failures = await withTaskGroup(of: CloudFailure?.self) { group in
            for _ in 0..<CloudCaller.maximumCalls + 3 { group.addTask { await failure(tokens) } }
            var found: [CloudFailure?] = []
            for await failure in group {
                found.append(failure)
                // The excess ones return at once, the others later.
                if found.count == 3 { hold.finish() }
            }
            return found
        }
        #expect(failures.prefix(3).allSatisfy { $0?.kind == .unavailable })
        #expect(failures.dropFirst(3).allSatisfy { $0 == nil })
        await server.shutDown()
    }
}
