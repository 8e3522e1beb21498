internal import Foundation
internal import HTTPClient
internal import Signing

/// Sends requests to a service that issues credentials, with a short timeout.
struct CredentialsService: Sendable {
    let client: HTTPClient
    /// Timeout of each request.
    let timeout: Duration

    /// Sends a request; retries it up to twice after a short pause if the service reports an error of its own.
    func send(
        _ method: String,
        _ url: String,
        headers: [(name: String, value: String)] = [],
        body: String = ""
    ) async throws(HTTPClientError) -> HTTPClientResponse {
        var request = HTTPClientRequest(
            method: method,
            url: url,
            headers: headers,
            body: Array(body.utf8),
            timeout: timeout,
            connectTimeout: timeout,
            maximumResponseBytes: 256 << 10
        )
        request.keepsConnection = false
        for delay in [100, 300] {
            let response = try await client.send(request)
            guard response.status >= 500 || response.status == 429 else { return response }
            do {
                try await Task.sleep(for: .milliseconds(delay))
            } catch {
                throw .cancelled
            }
        }
        return try await client.send(request)
    }
}

/// The response of container agents and instances ("Retrieve security credentials from instance metadata", Amazon EC2
/// User Guide).
struct CredentialsResponse: Decodable {
    private enum CodingKeys: String, CodingKey {
        case code = "Code"
        case id = "AccessKeyId"
        case secret = "SecretAccessKey"
        case token = "Token"
        case expiration = "Expiration"
    }

    private let code: String?
    private let id: String?
    private let secret: String?
    private let token: String?
    private let expiration: String?

    /// - Throws: A `CredentialsError` that describes the problem of the response without quoting it.
    static func credentials(in body: [UInt8]) throws(CredentialsError) -> FetchedCredentials {
        guard let response = try? JSONDecoder().decode(CredentialsResponse.self, from: Data(body)) else {
            throw CredentialsError("the response is not the expected JSON")
        }
        guard response.code == nil || response.code == "Success" else {
            throw CredentialsError("the response does not report success")
        }
        let end = response.expiration.flatMap(FetchedCredentials.date)
        guard response.expiration == nil || end != nil else {
            throw CredentialsError("the expiration in the response is not a time")
        }
        let fetched = FetchedCredentials(
            id: response.id,
            secret: response.secret,
            token: response.token,
            end.map { .until($0) } ?? .untilReplaced
        )
        guard let fetched else { throw CredentialsError("the response contains no credentials") }
        return fetched
    }
}
