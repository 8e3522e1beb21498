internal import Foundation
internal import HTTPClient
internal import Signing

/// Asks a service that hands out credentials, in its own short time.
struct CredentialsService: Sendable {
    let client: HTTPClient
    /// Of each request.
    let timeout: Duration

    /// Sends a request, and again a little later, twice at most, if the service says that it is in trouble.
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

/// What containers and instances answer ("Retrieve security credentials from instance metadata", Amazon EC2 User Guide).
struct CredentialsAnswer: Decodable {
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

    /// - Throws: In which way the answer is none, without a word of it.
    static func credentials(in body: [UInt8]) throws(CredentialsError) -> FetchedCredentials {
        guard let answer = try? JSONDecoder().decode(CredentialsAnswer.self, from: Data(body)) else {
            throw CredentialsError("the answer is not what was expected")
        }
        guard answer.code == nil || answer.code == "Success" else { throw CredentialsError("the answer is no success") }
        let end = answer.expiration.flatMap(FetchedCredentials.date)
        guard answer.expiration == nil || end != nil else {
            throw CredentialsError("the answer has an expiration that is no time")
        }
        let fetched = FetchedCredentials(
            id: answer.id,
            secret: answer.secret,
            token: answer.token,
            end.map { .until($0) } ?? .untilReplaced
        )
        guard let fetched else { throw CredentialsError("the answer has no credentials in it") }
        return fetched
    }
}
