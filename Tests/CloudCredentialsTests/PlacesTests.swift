import Foundation
import HTTPClient
import HTTPWire
import SluiceTesting
import Testing

@testable import CloudCredentials

/// The services of AWS are not available here: HTTP servers replace them, with responses from their documentation.
@Suite("Places of credentials", .timeLimit(.minutes(10)))
struct PlacesTests {
    private let end = Date(timeIntervalSince1970: 1_900_000_000)

    // MARK: Environment

    @Test("the environment has a key pair and optionally a token")
    func environment() async {
        func look(_ variables: [String: String]) async -> Look {
            await Look(EnvironmentPlace(environment: CredentialsEnvironment(variables)))
        }
        var variables = ["AWS_ACCESS_KEY_ID": "AK", "AWS_SECRET_ACCESS_KEY": "s"]
        #expect(await look(variables) == .found("AK", secret: "s", token: nil, .constant))
        variables["AWS_SESSION_TOKEN"] = "t"
        #expect(await look(variables) == .found("AK", secret: "s", token: "t", .constant))
        for variables in [[:], ["AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "s"]] {
            #expect(await look(variables) == .nothing("AWS_ACCESS_KEY_ID is not set"))
        }
        for secret in ["", "hush hush", "hush\n", "hüsh"] {
            variables["AWS_SECRET_ACCESS_KEY"] = secret
            guard case .wrong(let message) = await look(variables) else {
                Issue.record("\(secret) was taken")
                continue
            }
            #expect(!message.contains("hush") && !message.contains("hüsh"))
        }
    }

    // MARK: File

    private static let file = """
        # comment
        [ default ]
        aws_access_key_id = AKD   ; comment
        aws_secret_access_key=a/b+c==
        AWS_Session_Token = t#t
        nested =
          aws_access_key_id = AKX
        [profile other]
        aws_access_key_id = AKP
        [other]\r
          aws_access_key_id = AKO\r
          aws_secret_access_key = so\r
        [half]
        aws_access_key_id = AKH
        [none]
        region = eu-west-1
        [role]
        role_arn = arn:aws:iam::1:role/x
        aws_access_key_id = AKR
        aws_secret_access_key = sr
        [odd]
        aws_access_key_id = AK ODD
        aws_secret_access_key = sodd
        [empty]
        aws_access_key_id = AKE
        aws_secret_access_key =
        """

    @Test("the file has profiles; an incomplete or unsupported profile is an error")
    func sharedFile() async throws {
        let directory = try TemporaryDirectory()
        let path = directory.path("credentials")
        try Self.file.write(toFile: path, atomically: true, encoding: .utf8)
        func look(_ profile: String?) async -> Look {
            var variables = ["AWS_SHARED_CREDENTIALS_FILE": path]
            variables["AWS_PROFILE"] = profile
            return await Look(World.sharedFile(variables))
        }
        #expect(await look(nil) == .found("AKD", secret: "a/b+c==", token: "t#t", .untilReplaced))
        #expect(await look("other") == .found("AKO", secret: "so", token: nil, .untilReplaced))
        #expect(await look("none") == .nothing("profile none has no aws_access_key_id"))
        for (profile, words) in [
            ("half", "no aws_secret_access_key"), ("empty", "no aws_secret_access_key"),
            ("missing", "no profile missing"),
            ("role", "role_arn, which is not supported"), ("odd", "visible ASCII"),
        ] {
            guard case .wrong(let message) = await look(profile) else {
                Issue.record("\(profile) was taken")
                continue
            }
            #expect(message.contains(words) && !message.contains("sodd") && !message.contains("AKR"))
        }
    }

    @Test("the file is in the home directory; a missing file or default profile is not an error")
    func fileOfHome() async throws {
        let directory = try TemporaryDirectory()
        let place = World.sharedFile(home: directory.path)
        #expect(place.name == "the file \(directory.path)/.aws/credentials")
        #expect(await Look(place) == .nothing("there is none"))
        let wanted = World.sharedFile(["AWS_PROFILE": "x"], home: directory.path)
        #expect(await Look(wanted) == .wrong("AWS_PROFILE names x, but there is none"))
        try FileManager.default.createDirectory(atPath: directory.path(".aws"), withIntermediateDirectories: false)
        try "[x]\n".write(toFile: directory.path(".aws/credentials"), atomically: true, encoding: .utf8)
        #expect(await Look(place) == .nothing("it has no profile default"))
        try "\u{FEFF}[default]".data(using: .utf16)?.write(to: URL(filePath: directory.path(".aws/credentials")))
        #expect(await Look(place) == .nothing("it is not UTF-8"))
        try FileManager.default.removeItem(atPath: directory.path(".aws/credentials"))
        try FileManager.default.createDirectory(
            atPath: directory.path(".aws/credentials"),
            withIntermediateDirectories: false
        )
        #expect(await Look(place) == .nothing("it cannot be read"))
    }

    // MARK: Container

    @Test("the container's agent gets the token, read from its file each time")
    func container() async throws {
        let end = end
        let server = try TestServer { _, number in World.response("AK\(number)", until: end) }
        let directory = try TemporaryDirectory()
        var variables = ["AWS_CONTAINER_CREDENTIALS_FULL_URI": server.url + "/v1/credentials?id=1"]
        #expect(
            await Look(World.container(variables))
                == .found("AK0", secret: "secret-AK0", token: "token-AK0", .until(end))
        )
        variables["AWS_CONTAINER_AUTHORIZATION_TOKEN"] = "Basic abc"
        _ = await Look(World.container(variables))
        variables["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] = directory.path("token")
        let place = World.container(variables)
        for token in ["one", "two"] {
            try "\(token)\n".write(toFile: directory.path("token"), atomically: true, encoding: .utf8)
            _ = await Look(place)
        }
        #expect(server.calls.map { $0.fields["Authorization"] } == [nil, "Basic abc", "one", "two"])
        #expect(server.calls.allSatisfy { $0.method == "GET" && $0.path == "/v1/credentials" })
        try FileManager.default.removeItem(atPath: directory.path("token"))
        #expect(await Look(place) == .wrong("there is no file \(directory.path("token"))"))
        await server.shutDown()
    }

    @Test("a token is not sent to another machine over http")
    func containerHosts() async throws {
        for (text, isFine) in [
            ("http://127.0.0.1:80/x", true), ("http://127.9.9.9/", true), ("http://[::1]:1/", true),
            ("http://localhost/x", true), ("http://169.254.170.2/x", true), ("http://169.254.170.23/v1", true),
            ("http://[fd00:ec2::23]/v1", true), ("https://example.com/x", true), ("http://example.com/x", false),
            ("http://169.254.169.254/", false), ("http://10.0.0.1/", false), ("http://localhost.example.com/", false),
            ("http://127.0.0.1.example.com/", false), ("http://127.0.0.1@example.com/", false),
            ("http://[fd00::1]/", false),
        ] {
            let url = try #require(WebAddress(text))
            #expect(ContainerPlace.isAllowed(url) == isFine, "\(text)")
        }
        let refused = await Look(World.container(["AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://example.com/x"]))
        guard case .wrong(let message) = refused else {
            Issue.record("it was asked")
            return
        }
        #expect(message.contains("AWS_CONTAINER_CREDENTIALS_FULL_URI must use https"))
        for (name, value) in [
            ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "@example.com/x"), ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "/x"),
        ] {
            guard case .wrong = await Look(World.container([name: value])) else {
                Issue.record("\(value) was asked")
                continue
            }
        }
    }

    @Test("an unexpected response of the agent is an error that does not quote it")
    func containerFailures() async throws {
        for (response, words) in [
            (TestServer.Reply(404, "hush"), "responded with status 404"),
            (TestServer.Reply(200, "hush"), "not the expected JSON"),
            (TestServer.Reply(200, "{\"Code\": \"hush\"}"), "does not report success"),
            (TestServer.Reply(200, "{\"AccessKeyId\": \"hush\"}"), "contains no credentials"),
            (
                TestServer.Reply(200, "{\"AccessKeyId\": \"A\", \"SecretAccessKey\": \"hush\\n\"}"),
                "contains no credentials"
            ),
            (
                TestServer.Reply(
                    200,
                    "{\"AccessKeyId\": \"A\", \"SecretAccessKey\": \"b\", \"Expiration\": \"hush\"}"
                ),
                "is not a time"
            ),
            (TestServer.Reply(200, String(repeating: "x", count: 300 << 10)), "more than"),
        ] {
            let server = try TestServer { _, _ in response }
            let variables = ["AWS_CONTAINER_CREDENTIALS_FULL_URI": server.url + "/x"]
            guard case .wrong(let message) = await Look(World.container(variables)) else {
                Issue.record("\(words) was taken")
                continue
            }
            #expect(message.contains(words) && !message.contains("hush"))
            await server.shutDown()
        }
    }

    @Test("a failing service is called three times in all")
    func trouble() async throws {
        let end = end
        let server = try TestServer { _, number in
            number < 2 ? TestServer.Reply(number == 0 ? 500 : 429) : World.response("AK", until: end)
        }
        let variables = ["AWS_CONTAINER_CREDENTIALS_FULL_URI": server.url + "/x"]
        guard case .found = await Look(World.container(variables)) else {
            Issue.record("it was given up")
            return
        }
        #expect(server.calls.count == 3)
        await server.shutDown()
        let broken = try TestServer { _, _ in TestServer.Reply(503) }
        let uri = ["AWS_CONTAINER_CREDENTIALS_FULL_URI": broken.url + "/x"]
        #expect(await Look(World.container(uri)) == .wrong("\(broken.url)/x responded with status 503"))
        #expect(broken.calls.count == 3)
        await broken.shutDown()
    }

    // MARK: Instance

    @Test("instance metadata are requested with a token, first the role and then its credentials")
    func instance() async throws {
        let end = end
        let server = try TestServer { call, _ in
            switch (call.method, call.path) {
            case ("PUT", "/latest/api/token"): return TestServer.Reply(200, "TOKEN==")
            case ("GET", "/latest/meta-data/iam/security-credentials/"): return TestServer.Reply(200, "a role\n")
            case ("GET", "/latest/meta-data/iam/security-credentials/a%20role"): return World.response("AK", until: end)
            default: return TestServer.Reply(404)
            }
        }
        let place = World.instance(["AWS_EC2_METADATA_SERVICE_ENDPOINT": server.url + "/"])
        #expect(await Look(place) == .found("AK", secret: "secret-AK", token: "token-AK", .until(end)))
        #expect(server.calls.map { $0.fields["X-aws-ec2-metadata-token"] } == [nil, "TOKEN==", "TOKEN=="])
        #expect(server.calls.first?.fields["X-aws-ec2-metadata-token-ttl-seconds"] == "300")
        await server.shutDown()
    }

    @Test("a missing service, token or role is not an error: another place may have credentials")
    func noInstance() async throws {
        let disabled = World.instance(["AWS_EC2_METADATA_DISABLED": "True"])
        #expect(await Look(disabled) == .nothing("AWS_EC2_METADATA_DISABLED is set"))
        for status in [403, 404, 405] {
            let server = try TestServer { _, _ in TestServer.Reply(status) }
            let place = World.instance(["AWS_EC2_METADATA_SERVICE_ENDPOINT": server.url])
            #expect(await Look(place) == .nothing("\(server.url)/ gave no token: status \(status)"))
            #expect(server.calls.map(\.method) == ["PUT"])
            await server.shutDown()
        }
        for list in [TestServer.Reply(404), TestServer.Reply(200)] {
            let server = try TestServer { call, _ in call.method == "PUT" ? TestServer.Reply(200, "T") : list }
            let place = World.instance(["AWS_EC2_METADATA_SERVICE_ENDPOINT": server.url])
            #expect(await Look(place) == .nothing("the instance has no role"))
            await server.shutDown()
        }
        let gone = try TestServer { _, _ in TestServer.Reply(200) }
        await gone.shutDown()
        guard
            case .nothing(let reason) = await Look(World.instance(["AWS_EC2_METADATA_SERVICE_ENDPOINT": gone.url]))
        else {
            Issue.record("that nobody answers is an error")
            return
        }
        #expect(reason == "no response from \(gone.url)/: the host cannot be reached")
    }

    @Test("a service that does not respond times out")
    func silentInstance() async throws {
        let (forever, end) = AsyncStream<Never>.makeStream()
        let server = try TestServer { _, _ in
            for await _ in forever {}
            return TestServer.Reply(200)
        }
        let place = InstancePlace(
            environment: CredentialsEnvironment(["AWS_EC2_METADATA_SERVICE_ENDPOINT": server.url]),
            client: World.client
        )
        #expect(await Look(place) == .nothing("no response from \(server.url)/: the response did not arrive in time"))
        end.finish()
        await server.shutDown()
    }

    // MARK: Web identity

    private static let sts = """
        <AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
          <AssumeRoleWithWebIdentityResult>
            <SubjectFromWebIdentityToken>x</SubjectFromWebIdentityToken>
            <Credentials>
              <SessionToken>tok/en==</SessionToken><SecretAccessKey>se/cret</SecretAccessKey>
              <Expiration>2030-03-17T17:46:40Z</Expiration><AccessKeyId>ASIA1</AccessKeyId>
            </Credentials>
          </AssumeRoleWithWebIdentityResult>
        </AssumeRoleWithWebIdentityResponse>
        """

    @Test("a role is assumed with the current token in the file")
    func webIdentity() async throws {
        let server = try TestServer { _, _ in TestServer.Reply(200, Self.sts) }
        let directory = try TemporaryDirectory()
        let place = World.webIdentity([
            "AWS_WEB_IDENTITY_TOKEN_FILE": directory.path("token"), "AWS_ROLE_ARN": "arn:aws:iam::1:role/a b",
            "AWS_ROLE_SESSION_NAME": "pod", "AWS_ENDPOINT_URL_STS": server.url,
        ])
        for token in ["one", "two"] {
            try "\(token)\n".write(toFile: directory.path("token"), atomically: true, encoding: .utf8)
            #expect(await Look(place) == .found("ASIA1", secret: "se/cret", token: "tok/en==", .until(end)))
        }
        #expect(
            server.calls.map(\.body)
                == ["one", "two"].map {
                    "Action=AssumeRoleWithWebIdentity&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fa%20b&RoleSessionName=pod"
                        + "&Version=2011-06-15&WebIdentityToken=\($0)"
                }
        )
        #expect(server.calls.allSatisfy { $0.method == "POST" && $0.path == "/" })
        await server.shutDown()
    }

    @Test("missing settings and refusals are errors that do not contain the token")
    func webIdentityFailures() async throws {
        #expect(await Look(World.webIdentity([:])) == .nothing("AWS_WEB_IDENTITY_TOKEN_FILE is not set"))
        let directory = try TemporaryDirectory()
        let path = directory.path("token")
        try "hush".write(toFile: path, atomically: true, encoding: .utf8)
        let noRole = await Look(World.webIdentity(["AWS_WEB_IDENTITY_TOKEN_FILE": path]))
        #expect(noRole == .wrong("AWS_WEB_IDENTITY_TOKEN_FILE is set, but AWS_ROLE_ARN is not"))
        let variables = ["AWS_WEB_IDENTITY_TOKEN_FILE": path, "AWS_ROLE_ARN": "arn"]
        for region in ["", "x.example.com/", "EU"] {
            guard case .wrong(let message) = await Look(World.webIdentity(variables, region: region)) else {
                Issue.record("\(region) was asked")
                continue
            }
            #expect(message.contains("not a valid AWS region name"))
        }
        for (response, words) in [
            (
                TestServer.Reply(
                    400,
                    "<ErrorResponse><Error><Code>InvalidIdentityToken</Code><Message>hush</Message></Error></ErrorResponse>"
                ), "responded with status 400 InvalidIdentityToken"
            ),
            (
                TestServer.Reply(403, "<ErrorResponse><Error><Code>hush.hush</Code></Error></ErrorResponse>"),
                "responded with status 403"
            ),
            (TestServer.Reply(200, "<hush/>"), "contains no credentials"),
            (TestServer.Reply(200, Self.sts.replacing("2030-", with: "hush")), "contains no credentials"),
            (TestServer.Reply(200, Self.sts.replacing("se/cret", with: "hu sh")), "contains no credentials"),
        ] {
            let server = try TestServer { _, _ in response }
            let place = World.webIdentity(variables.merging(["AWS_ENDPOINT_URL_STS": server.url]) { $1 })
            guard case .wrong(let message) = await Look(place) else {
                Issue.record("\(words) was taken")
                continue
            }
            #expect(message.contains(words) && !message.contains("hush") && !message.contains("hu sh"))
            await server.shutDown()
        }
    }
}
