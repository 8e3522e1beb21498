package import Bytes
internal import Clouds
package import Foundation
package import GatewayKit
internal import HTTPClient
package import SettingsKit
internal import Telemetry
internal import UploadModel

/// Calls Vimeo's API with the account's token, and sends bytes to its upload links.
package struct VimeoForwarder: Sendable {
    /// The service's response, as it is.
    package struct Reply: Sendable, Equatable {
        package let status: Int
        package let content: [UInt8]
        /// `Last-Modified`.
        package let modified: String?
        /// When calls are allowed again, for status 429.
        package let resumesAt: Date?
    }

    private let cloud: VimeoCloud
    private let report: CloudReport
    private let turns = UserTurns(CloudCaller.maximumCalls)
    /// For a turn.
    private static let longestWait = Duration.seconds(10)

    /// - Parameters:
    ///   - context: Counts calls.
    ///   - token: The account's.
    ///   - origin: Of the API.
    package init(_ context: GatewayContext, token: Secret<String>, origin: String) {
        func client(_ transfers: Int, threads: Int = 1) -> HTTPClient {
            HTTPClient(
                userAgent: "Sluice/\(Version.current)",
                purpose: "cloud",
                maximumTransfers: transfers,
                maximumThreads: threads,
                // The operator chose the endpoint, which chooses the links, so any address is allowed.
                addresses: .any
            )
        }
        cloud = VimeoCloud(
            client: client(CloudCaller.maximumCalls),
            bytes: client(CloudCaller.maximumCalls, threads: HTTPClient.threadsForContent),
            token: token.exposed,
            origin: origin,
            clock: context.clock
        )
        report = CloudReport(context.metrics, context.logger)
    }

    /// Calls the API.
    ///
    /// - Parameters:
    ///   - method: Such as `PATCH`.
    ///   - target: Path and query.
    ///   - json: The body; `nil` for none.
    ///   - since: `If-Modified-Since`.
    ///   - subject: For whom; one user has at most half of the calls at once.
    /// - Returns: The response, whatever its status.
    /// - Throws: If there is none.
    package func call(
        _ method: String,
        _ target: String,
        json: [UInt8]? = nil,
        since: String? = nil,
        for subject: String?
    ) async throws(CloudForwarder.Failure) -> Reply {
        let call = { [cloud] () async -> Result<VimeoCloud.Answer, CloudFailure> in
            do throws(CloudFailure) {
                return .success(try await cloud.call(method, target, json: json, since: since))
            } catch {
                return .failure(error)
            }
        }
        guard let result = await turns.run(for: subject, within: Self.longestWait, call) else {
            throw CloudForwarder.Failure("too many calls are under way")
        }
        return try await reported { () async throws(CloudFailure) in
            let answer = try result.get()
            return Reply(
                status: answer.status,
                content: answer.content,
                modified: answer.modified,
                resumesAt: answer.resumesAt
            )
        }
    }

    /// A text of the service without the account's token.
    package func redacted(_ text: String) -> String { cloud.redacted(text) }

    /// The number of bytes that an upload link has.
    ///
    /// - Returns: `nil` if the upload is gone.
    /// - Throws: If the service does not answer.
    package func offset(at link: String) async throws(CloudForwarder.Failure) -> Int64? {
        try await reported { () async throws(CloudFailure) in try await cloud.offset(at: link) }
    }

    /// Sends bytes to an upload link, by one PATCH.
    ///
    /// - Parameters:
    ///   - source: Ends after `length` bytes.
    ///   - length: At least 1.
    ///   - offset: Of the first byte.
    ///   - link: Where they go.
    ///   - isWanted: Asked now and then; the request is given up when it returns `false`.
    /// - Returns: The number of bytes that the link has now; `nil` if the upload is gone.
    /// - Throws: If they were not all stored.
    package func send(
        _ source: any ByteSource,
        length: Int64,
        at offset: Int64,
        to link: String,
        while isWanted: () async -> Bool
    ) async throws(CloudForwarder.Failure) -> Int64? {
        try await reported { () async throws(CloudFailure) in
            try await cloud.send(source, length: length, at: offset, to: link, while: isWanted)
        }
    }

    private func reported<Value>(_ call: () async throws(CloudFailure) -> Value) async throws(CloudForwarder.Failure)
        -> Value
    {
        do throws(CloudFailure) {
            let value = try await call()
            report.called(VimeoCloud.name, nil)
            return value
        } catch {
            report.called(VimeoCloud.name, error)
            throw CloudForwarder.Failure(error.message)
        }
    }
}
