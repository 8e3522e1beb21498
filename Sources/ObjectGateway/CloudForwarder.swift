internal import HTTPClient
internal import HTTPWire
internal import Telemetry
internal import UploadModel

/// Forwards calls of clients to a cloud, which answers them.
///
/// Sends nothing but the content, its type and a user agent: no other field of the client reaches the cloud.
package final class CloudForwarder: Sendable {
    /// The cloud's response, as it is.
    package struct Reply: Sendable, Equatable {
        /// 200 to 599, with content.
        package let status: Int
        package let content: [UInt8]

        package init(status: Int, content: [UInt8]) {
            self.status = status
            self.content = content
        }
    }

    /// The cloud did not answer, or not in a way that can be passed on.
    package struct Failure: Error, Equatable {
        /// For the log: contains neither addresses nor content.
        package let message: String
        /// The cloud answered, and refused the gateway's account: to repeat the call is of no use.
        package let isRefusal: Bool

        package init(_ message: String, isRefusal: Bool = false) {
            self.message = message
            self.isRefusal = isRefusal
        }
    }

    private static let maximumReplyBytes = 256 << 10
    private static let maximumCalls = 256

    private let origin: String
    private let timeout: Duration
    private let client: HTTPClient
    private let turns = UserTurns(maximumCalls)

    /// - Parameters:
    ///   - origin: `https://host[:port]`; any address, because the operator chose it.
    ///   - timeout: From the start of a call to the last byte of its response, including the wait for a free connection.
    package init(to origin: String, timeout: Duration) {
        self.origin = origin
        self.timeout = timeout
        client = HTTPClient(
            userAgent: "Sluice/\(Version.current)",
            purpose: "cloud",
            maximumTransfers: Self.maximumCalls,
            keptConnections: 64,
            addresses: .any
        )
    }

    /// Posts JSON, in the turn of a user.
    ///
    /// - Parameters:
    ///   - json: The content.
    ///   - target: Path and query.
    ///   - isOnce: The call must not be repeated; others may be, if a kept connection breaks before a response.
    ///   - subject: Who calls; one user has at most half of the calls at once.
    /// - Returns: The response, whatever its status; a redirect is not followed.
    /// - Throws: `Failure`.
    package func post(_ json: [UInt8], to target: String, isOnce: Bool, for subject: String?) async throws(Failure)
        -> Reply
    {
        var request = HTTPClientRequest(
            method: "POST",
            url: origin + target,
            headers: [(name: "Content-Type", value: "application/json")],
            body: json,
            timeout: timeout,
            connectTimeout: timeout,
            maximumResponseBytes: Self.maximumReplyBytes
        )
        request.needsNewConnection = isOnce
        let start = ContinuousClock.now
        let call = { [timeout, client, request] () async -> Result<HTTPClientResponse, HTTPClientError> in
            let left = timeout - (ContinuousClock.now - start)
            do throws(HTTPClientError) { return .success(try await client.send(request, within: left)) } catch {
                return .failure(error)
            }
        }
        guard let result = await turns.run(for: subject, within: timeout, call) else {
            throw Failure("too many calls are under way")
        }
        let response: HTTPClientResponse
        do throws(HTTPClientError) {
            response = try result.get()
        } catch {
            throw Failure(error.message)
        }
        guard response.status < 600, !Status(response.status).forbidsContent else {
            throw Failure("the response has status \(response.status), which cannot be passed on")
        }
        return Reply(status: response.status, content: response.body)
    }

    /// Ends the calls that are under way.
    package func close() { client.close() }
}
