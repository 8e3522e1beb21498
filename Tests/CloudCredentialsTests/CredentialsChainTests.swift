import Foundation
import Signing
import SluiceTesting
import Testing

@testable import CloudCredentials

@Suite("The order of the places for credentials", .timeLimit(.minutes(10)))
struct CredentialsChainTests {
    private func chain(_ variables: [String: String], home: String) -> CredentialsChain {
        CredentialsChain(
            environment: variables,
            home: home,
            region: "eu-west-1",
            machine: World.client,
            cloud: World.client,
            pool: World.pool,
            timeout: .seconds(600)
        )
    }

    private func outcome(_ chain: CredentialsChain) async -> String {
        do throws(CredentialsError) {
            return try await chain.fetch().value.accessKeyID
        } catch {
            return error.message
        }
    }

    @Test("the order is environment, web identity, file, container, instance")
    func order() async throws {
        let directory = try TemporaryDirectory()
        let end = Date(timeIntervalSince1970: 1_900_000_000)
        let server = try TestServer { call, _ in
            switch (call.method, call.path) {
            case ("POST", "/"):
                return TestServer.Reply(
                    200,
                    """
                    <R><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>STS</AccessKeyId>
                    <SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken>
                    <Expiration>\(end.formatted(.iso8601))</Expiration></Credentials></AssumeRoleWithWebIdentityResult></R>
                    """
                )
            case ("PUT", _): return TestServer.Reply(200, "T")
            case ("GET", "/container"): return World.response("CONTAINER", until: end)
            case ("GET", let path) where path.hasSuffix("/"): return TestServer.Reply(200, "role")
            default: return World.response("INSTANCE", until: end)
            }
        }
        try "token".write(toFile: directory.path("token"), atomically: true, encoding: .utf8)
        try "[default]\naws_access_key_id = FILE\naws_secret_access_key = s\n"
            .write(toFile: directory.path("file"), atomically: true, encoding: .utf8)
        var variables = [
            "AWS_ACCESS_KEY_ID": "ENVIRONMENT", "AWS_SECRET_ACCESS_KEY": "s",
            "AWS_WEB_IDENTITY_TOKEN_FILE": directory.path("token"), "AWS_ROLE_ARN": "arn",
            "AWS_ENDPOINT_URL_STS": server.url, "AWS_SHARED_CREDENTIALS_FILE": directory.path("file"),
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": server.url + "/container",
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": server.url, "AWS_METADATA_SERVICE_TIMEOUT": "60",
        ]
        for (expected, variable) in [
            ("ENVIRONMENT", "AWS_ACCESS_KEY_ID"), ("STS", "AWS_WEB_IDENTITY_TOKEN_FILE"),
            ("FILE", "AWS_SHARED_CREDENTIALS_FILE"), ("CONTAINER", "AWS_CONTAINER_CREDENTIALS_FULL_URI"),
            ("INSTANCE", "AWS_EC2_METADATA_SERVICE_ENDPOINT"),
        ] {
            #expect(await outcome(chain(variables, home: directory.path)) == expected)
            variables[variable] = nil
        }
        await server.shutDown()
    }

    @Test("without any credentials, the error lists the places that were tried")
    func nowhere() async {
        let message = await outcome(chain(["AWS_EC2_METADATA_DISABLED": "true"], home: "/nowhere"))
        #expect(
            message == """
                none were found in the environment (AWS_ACCESS_KEY_ID is not set), the web identity \
                (AWS_WEB_IDENTITY_TOKEN_FILE is not set), the file /nowhere/.aws/credentials (there is none), the container \
                (AWS_CONTAINER_CREDENTIALS_RELATIVE_URI and _FULL_URI are not set), the metadata of the instance \
                (AWS_EC2_METADATA_DISABLED is set)
                """
        )
    }

    @Test("a misconfigured place ends the search: later places could have someone else's credentials")
    func wrongPlace() async throws {
        let directory = try TemporaryDirectory()
        try FileManager.default.createDirectory(atPath: directory.path(".aws"), withIntermediateDirectories: false)
        try "[default]\naws_access_key_id = FILE\naws_secret_access_key = s\n"
            .write(toFile: directory.path(".aws/credentials"), atomically: true, encoding: .utf8)
        #expect(await outcome(chain([:], home: directory.path)) == "FILE")
        #expect(
            await outcome(chain(["AWS_ACCESS_KEY_ID": "A"], home: directory.path))
                == "the environment: AWS_ACCESS_KEY_ID is set, but AWS_SECRET_ACCESS_KEY is not"
        )
    }

    @Test("the first place with credentials is used from then on")
    func staysWithThePlace() async throws {
        let directory = try TemporaryDirectory()
        try FileManager.default.createDirectory(atPath: directory.path(".aws"), withIntermediateDirectories: false)
        let path = directory.path(".aws/credentials")
        let chain = chain(["AWS_EC2_METADATA_DISABLED": "true"], home: directory.path)
        try "[default]\naws_access_key_id = A\naws_secret_access_key = s\n"
            .write(toFile: path, atomically: true, encoding: .utf8)
        #expect(await outcome(chain) == "A")
        try FileManager.default.removeItem(atPath: path)
        #expect(await outcome(chain) == "the file \(path) no longer has credentials: there is none")
    }
}
