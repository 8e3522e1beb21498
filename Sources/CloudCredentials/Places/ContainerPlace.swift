internal import Foundation
internal import HTTPClient
internal import Transport

/// The container's agent (Amazon ECS, EKS Pod Identity): AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or _FULL_URI.
///
/// "Container credential provider" (AWS SDKs and Tools Reference Guide).
struct ContainerPlace: CredentialsPlace {
    private static let relative = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"
    private static let full = "AWS_CONTAINER_CREDENTIALS_FULL_URI"
    /// The agents of ECS and EKS.
    private static let agents = ["169.254.170.2", "169.254.170.23", "fd00:ec2::23"].compactMap { IPAddress($0) }

    private let environment: CredentialsEnvironment
    private let files: SmallFiles
    private let service: CredentialsService

    init(
        environment: CredentialsEnvironment,
        client: HTTPClient,
        files: SmallFiles,
        timeout: Duration? = nil
    ) {
        self.environment = environment
        self.files = files
        service = CredentialsService(client: client, timeout: timeout ?? environment.metadataTimeout ?? .seconds(2))
    }

    var name: String { "the container" }

    func fetch() async throws(CredentialsError) -> Finding {
        guard let url = try url() else { return .nothing("\(Self.relative) and _FULL_URI are not set") }
        var headers = [(name: "Accept", value: "application/json")]
        if let token = try await token() { headers.append((name: "Authorization", value: token)) }
        let response: HTTPClientResponse
        do throws(HTTPClientError) {
            response = try await service.send("GET", url.text, headers: headers)
        } catch {
            throw CredentialsError("\(url.shown) did not respond: \(error.message)")
        }
        guard response.status == 200 else {
            throw CredentialsError("\(url.shown) responded with status \(response.status)")
        }
        return .found(try CredentialsResponse.credentials(in: response.body))
    }

    private func url() throws(CredentialsError) -> WebAddress? {
        if let path = environment[Self.relative] {
            guard path.hasPrefix("/"), let url = WebAddress("http://169.254.170.2" + path) else {
                throw CredentialsError("\(Self.relative) is not a path")
            }
            return url
        }
        guard let text = environment[Self.full] else { return nil }
        guard let url = WebAddress(text) else {
            throw CredentialsError("\(Self.full) is not an absolute http or https URL")
        }
        guard Self.isAllowed(url) else {
            throw CredentialsError(
                "\(Self.full) must use https, unless its host is this machine or an ECS or EKS agent"
            )
        }
        return url
    }

    /// Over plain HTTP, the token must not leave the machine.
    static func isAllowed(_ url: WebAddress) -> Bool {
        if url.origin.hasPrefix("https:") || url.origin.hasPrefix("http://localhost:") { return true }
        guard let address = url.address else { return false }
        return agents.contains(address) || address == IPAddress("::1") || CIDR("127.0.0.0/8")?.contains(address) == true
    }

    private func token() async throws(CredentialsError) -> String? {
        // Read each time, because it can be replaced.
        if let path = environment["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] { return try await files.token(at: path) }
        return environment["AWS_CONTAINER_AUTHORIZATION_TOKEN"]
    }
}
