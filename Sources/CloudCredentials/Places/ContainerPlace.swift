internal import Foundation
internal import HTTPClient
internal import Transport

/// The agent of the container (Amazon ECS, EKS Pod Identity): AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or _FULL_URI.
///
/// "Container credential provider" (AWS SDKs and Tools Reference Guide).
struct ContainerPlace: CredentialsPlace {
    private static let relative = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"
    private static let full = "AWS_CONTAINER_CREDENTIALS_FULL_URI"
    /// Of the agents of ECS and EKS.
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

    func look() async throws(CredentialsError) -> Finding {
        guard let url = try url() else { return .nothing("\(Self.relative) and _FULL_URI are not set") }
        var headers = [(name: "Accept", value: "application/json")]
        if let token = try await token() { headers.append((name: "Authorization", value: token)) }
        let answer: HTTPClientResponse
        do throws(HTTPClientError) {
            answer = try await service.send("GET", url.text, headers: headers)
        } catch {
            throw CredentialsError("\(url.shown) gave no answer: \(error.message)")
        }
        guard answer.status == 200 else { throw CredentialsError("\(url.shown) answered \(answer.status)") }
        return .found(try CredentialsAnswer.credentials(in: answer.body))
    }

    private func url() throws(CredentialsError) -> WebAddress? {
        if let path = environment[Self.relative] {
            guard path.hasPrefix("/"), let url = WebAddress("http://169.254.170.2" + path) else {
                throw CredentialsError("\(Self.relative) is no path")
            }
            return url
        }
        guard let text = environment[Self.full] else { return nil }
        guard let url = WebAddress(text) else {
            throw CredentialsError("\(Self.full) is no absolute http or https URL")
        }
        guard Self.mayBeAsked(url) else {
            throw CredentialsError(
                "\(Self.full) must be https, or name this machine or an agent of ECS or EKS, because a token is sent to it"
            )
        }
        return url
    }

    /// By HTTP, what is sent must not leave the machine.
    static func mayBeAsked(_ url: WebAddress) -> Bool {
        if url.origin.hasPrefix("https:") || url.origin.hasPrefix("http://localhost:") { return true }
        guard let address = url.address else { return false }
        return agents.contains(address) || address == IPAddress("::1") || CIDR("127.0.0.0/8")?.contains(address) == true
    }

    private func token() async throws(CredentialsError) -> String? {
        // It may have been replaced since the last time.
        if let path = environment["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] { return try await files.token(at: path) }
        return environment["AWS_CONTAINER_AUTHORIZATION_TOKEN"]
    }
}
