import Foundation
import HTTPClient
import HTTPWire
import SluiceTesting
import Testing

@testable import CloudCredentials

/// The services of AWS can not be run here: real HTTP servers play them, with the answers of their documentation.
@Suite("Places of credentials")
struct PlacesTests {
    private let end = Date(timeIntervalSince1970: 1_900_000_000)

    // MARK: Environment

    @Test("the environment has a pair, and perhaps a token")
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

    @Test("the file has profiles; one that is half or asks for more than keys is an error")
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

    @Test("the file is in the home directory; that there is none, or no profile default, is no error")
    func fileOfHome() async throws {
        let directory = try TemporaryDirectory()
        let place = World.sharedFile(home: directory.path)
        #expect(place.name == "the file \(directory.path)/.aws/credentials")
        #expect(await Look(place) == .nothing("there is none"))
        let wanted = World.sharedFile(["AWS_PROFILE": "x"], home: directory.path)
        #expect(await Look(wanted) == .wrong("AWS_PROFILE asks for x, but there is none"))
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
        #expect(await Look(place) == .nothing("it can not be read"))
    }

    // MARK: Container

    @Test("the container's agent gets the token, from its file anew each time")
    func container() async throws {
        let end = end
        let server = try TestServer { _, number in World.answer("AK\(number)", until: end) }
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

    @Test("a token goes to no other machine by http")
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
            #expect(ContainerPlace.mayBeAsked(url) == isFine, "\(text)")
        }
        let refused = await Look(World.container(["AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://example.com/x"]))
        guard case .wrong(let message) = refused else {
            Issue.record("it was asked")
            return
        }
        #expect(message.contains("AWS_CONTAINER_CREDENTIALS_FULL_URI must be https"))
        for (name, value) in [
            ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "@example.com/x"), ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "/x"),
        ] {
            guard case .wrong = await Look(World.container([name: value])) else {
                Issue.record("\(value) was asked")
                continue
            }
        }
    }

    @Test("an agent that answers something else is an error that repeats nothing of it")
    func containerFailures() async throws {
        for (answer, words) in [
            (TestServer.Answer(404, "hush"), "answered 404"), (TestServer.Answer(200, "hush"), "not what was expected"),
            (TestServer.Answer(200, "{\"Code\": \"hush\"}"), "no success"),
            (TestServer.Answer(200, "{\"AccessKeyId\": \"hush\"}"), "no credentials in it"),
            (
                TestServer.Answer(200, "{\"AccessKeyId\": \"A\", \"SecretAccessKey\": \"hush\\n\"}"),
                "no credentials in it"
            ),
            (
                TestServer.Answer(
                    200,
                    "{\"AccessKeyId\": \"A\", \"SecretAccessKey\": \"b\", \"Expiration\": \"hush\"}"
                ),
                "no time"
            ),
            (TestServer.Answer(200, String(repeating: "x", count: 300 << 10)), "more than"),
        ] {
            let server = try TestServer { _, _ in answer }
            let variables = ["AWS_CONTAINER_CREDENTIALS_FULL_URI": server.url + "/x"]
            guard case .wrong(let message) = await Look(World.container(variables)) else {
                Issue.record("\(words) was taken")
                continue
            }
            #expect(message.contains(words) && !message.contains("hush"))
            await server.shutDown()
        }
    }

    @Test("a service in trouble is asked again, three times in all")
    func trouble() async throws {
        let end = end
        let server = try TestServer { _, number in
            number < 2 ? TestServer.Answer(number == 0 ? 500 : 429) : World.answer("AK", until: end)
        }
        let variables = ["AWS_CONTAINER_CREDENTIALS_FULL_URI": server.url + "/x"]
        guard case .found = await Look(World.container(variables)) else {
            Issue.record("it was given up")
            return
        }
        #expect(server.calls.count == 3)
        await server.shutDown()
        let broken = try TestServer { _, _ in TestServer.Answer(503) }
        let uri = ["AWS_CONTAINER_CREDENTIALS_FULL_URI": broken.url + "/x"]
        #expect(await Look(World.container(uri)) == .wrong("\(broken.url)/x answered 503"))
        #expect(broken.calls.count == 3)
        await broken.shutDown()
    }

    // MARK: Instance

    @Test("the metadata of an instance are asked with a token, for the role and then for its credentials")
    func instance() async throws {
        let end = end
        let server = try TestServer { call, _ in
            switch (call.method, call.path) {
            case ("PUT", "/latest/api/token"): return TestServer.Answer(200, "TOKEN==")
            case ("GET", "/latest/meta-data/iam/security-credentials/"): return TestServer.Answer(200, "a role\n")
            case ("GET", "/latest/meta-data/iam/security-credentials/a%20role"): return World.answer("AK", until: end)
            default: return TestServer.Answer(404)
            }
        }
        let place = World.instance(["AWS_EC2_METADATA_SERVICE_ENDPOINT": server.url + "/"])
        #expect(await Look(place) == .found("AK", secret: "secret-AK", token: "token-AK", .until(end)))
        #expect(server.calls.map { $0.fields["X-aws-ec2-metadata-token"] } == [nil, "TOKEN==", "TOKEN=="])
        #expect(server.calls.first?.fields["X-aws-ec2-metadata-token-ttl-seconds"] == "300")
        await server.shutDown()
    }

    @Test("no service, no token and no role are no error: there may be another place")
    func noInstance() async throws {
        let disabled = World.instance(["AWS_EC2_METADATA_DISABLED": "True"])
        #expect(await Look(disabled) == .nothing("AWS_EC2_METADATA_DISABLED is set"))
        for status in [403, 404, 405] {
            let server = try TestServer { _, _ in TestServer.Answer(status) }
            let place = World.instance(["AWS_EC2_METADATA_SERVICE_ENDPOINT": server.url])
            #expect(await Look(place) == .nothing("\(server.url)/ gave no token: it answered \(status)"))
            #expect(server.calls.map(\.method) == ["PUT"])
            await server.shutDown()
        }
        for list in [TestServer.Answer(404), TestServer.Answer(200)] {
            let server = try TestServer { call, _ in call.method == "PUT" ? TestServer.Answer(200, "T") : list }
            let place = World.instance(["AWS_EC2_METADATA_SERVICE_ENDPOINT": server.url])
            #expect(await Look(place) == .nothing("the instance has no role"))
            await server.shutDown()
        }
        let gone = try TestServer { _, _ in TestServer.Answer(200) }
        await gone.shutDown()
        guard
            case .nothing(let reason) = await Look(World.instance(["AWS_EC2_METADATA_SERVICE_ENDPOINT": gone.url]))
        else {
            Issue.record("that nobody answers is an error")
            return
        }
        #expect(reason == "no answer from \(gone.url)/: the host can not be reached")
    }

    @Test("a service that does not answer is given up in its time")
    func silentInstance() async throws {
        let (forever, end) = AsyncStream<Never>.makeStream()
        let server = try TestServer { _, _ in
            for await _ in forever {}
            return TestServer.Answer(200)
        }
        let place = InstancePlace(
            environment: CredentialsEnvironment(["AWS_EC2_METADATA_SERVICE_ENDPOINT": server.url]),
            client: World.client
        )
        #expect(await Look(place) == .nothing("no answer from \(server.url)/: the answer did not come in time"))
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

    @Test("a role is taken with the token of the file, as it is then")
    func webIdentity() async throws {
        let server = try TestServer { _, _ in TestServer.Answer(200, Self.sts) }
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

    @Test("what is missing or refused is an error without the token")
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
            #expect(message.contains("no name of a region"))
        }
        for (answer, words) in [
            (
                TestServer.Answer(
                    400,
                    "<ErrorResponse><Error><Code>InvalidIdentityToken</Code><Message>hush</Message></Error></ErrorResponse>"
                ), "answered 400 InvalidIdentityToken"
            ),
            (
                TestServer.Answer(403, "<ErrorResponse><Error><Code>hush.hush</Code></Error></ErrorResponse>"),
                "answered 403"
            ),
            (TestServer.Answer(200, "<hush/>"), "no credentials in it"),
            (TestServer.Answer(200, Self.sts.replacing("2030-", with: "hush")), "no credentials in it"),
            (TestServer.Answer(200, Self.sts.replacing("se/cret", with: "hu sh")), "no credentials in it"),
        ] {
            let server = try TestServer { _, _ in answer }
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
