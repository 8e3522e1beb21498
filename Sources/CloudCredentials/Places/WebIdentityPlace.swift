internal import Foundation
internal import HTTPClient
internal import Signing
internal import XMLText

/// A role that is assumed with a token from a file, as Kubernetes provides it: AWS_WEB_IDENTITY_TOKEN_FILE,
/// AWS_ROLE_ARN and AWS_ROLE_SESSION_NAME; AssumeRoleWithWebIdentity ("AWS Security Token Service API Reference").
struct WebIdentityPlace: CredentialsPlace {
    private let environment: CredentialsEnvironment
    private let region: String
    private let files: SmallFiles
    private let service: CredentialsService

    /// - Parameters:
    ///   - environment: The environment of the process.
    ///   - region: Used if the environment has neither AWS_REGION nor AWS_DEFAULT_REGION.
    ///   - client: For the token service.
    ///   - files: Reads the token.
    ///   - timeout: For each request.
    init(
        environment: CredentialsEnvironment,
        region: String,
        client: HTTPClient,
        files: SmallFiles,
        timeout: Duration
    ) {
        self.environment = environment
        self.region = environment["AWS_REGION"] ?? environment["AWS_DEFAULT_REGION"] ?? region
        self.files = files
        service = CredentialsService(client: client, timeout: timeout)
    }

    var name: String { "the web identity" }

    func fetch() async throws(CredentialsError) -> Finding {
        guard let path = environment["AWS_WEB_IDENTITY_TOKEN_FILE"] else {
            return .nothing("AWS_WEB_IDENTITY_TOKEN_FILE is not set")
        }
        guard let role = environment["AWS_ROLE_ARN"] else {
            throw CredentialsError("AWS_WEB_IDENTITY_TOKEN_FILE is set, but AWS_ROLE_ARN is not")
        }
        let endpoint = try endpoint()
        // Read each time, because it is replaced before it expires.
        let token = try await files.token(at: path)
        let session = environment["AWS_ROLE_SESSION_NAME"] ?? "sluice-\(Int64(Date().timeIntervalSince1970))"
        let form = SigningRequest.query(of: [
            SigningField("Action", "AssumeRoleWithWebIdentity"), SigningField("Version", "2011-06-15"),
            SigningField("RoleArn", role), SigningField("RoleSessionName", session),
            SigningField("WebIdentityToken", token),
        ])
        let response: HTTPClientResponse
        do throws(HTTPClientError) {
            response = try await service.send(
                "POST",
                endpoint.text,
                headers: [("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")],
                body: form
            )
        } catch {
            throw CredentialsError("\(endpoint.shown) did not respond: \(error.message)")
        }
        return .found(try Self.credentials(in: response, from: endpoint.shown))
    }

    /// AWS_ENDPOINT_URL_STS, or AWS's endpoint of the region.
    private func endpoint() throws(CredentialsError) -> WebAddress {
        if let text = environment["AWS_ENDPOINT_URL_STS"] {
            guard let url = WebAddress(text) else {
                throw CredentialsError("AWS_ENDPOINT_URL_STS is not an absolute http or https URL")
            }
            return url
        }
        guard AWSService.isRegion(region), let url = WebAddress(AWSService.url("sts", region: region) + "/") else {
            throw CredentialsError("the region is not a valid AWS region name; set AWS_REGION or AWS_ENDPOINT_URL_STS")
        }
        return url
    }

    private static func credentials(
        in response: HTTPClientResponse,
        from url: String
    ) throws(CredentialsError) -> FetchedCredentials {
        let document = XMLNode.parse(response.body)
        guard response.status == 200, let document else {
            // Its message may repeat what was sent; its code, a single word, does not.
            let code = document?.all("Error").first?["Code"] ?? ""
            let isWord = !code.isEmpty && code.utf8.count <= 64 && code.allSatisfy { $0.isASCII && $0.isLetter }
            throw CredentialsError("\(url) responded with status \(response.status)" + (isWord ? " \(code)" : ""))
        }
        guard let found = TemporaryCredentials(document, of: "AssumeRoleWithWebIdentity") else {
            throw CredentialsError("the response of \(url) contains no credentials")
        }
        return FetchedCredentials(found)
    }
}
