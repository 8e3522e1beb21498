package import Bytes
package import Foundation
package import HTTPClient
internal import HTTPWire
internal import Signing
internal import Synchronization
package import UploadModel

/// Vimeo's API, version 3.4, in one account, and the tus servers to which its upload links lead.
package final class VimeoCloud: Sendable {
    /// The service's response, as it is.
    package struct Answer: Sendable, Equatable {
        package let status: Int
        package let content: [UInt8]
        /// `Last-Modified`.
        package let modified: String?
        /// When calls are allowed again, for status 429.
        package let resumesAt: Date?
    }

    private static let maximumAnswerBytes = 2 << 20
    private static let longestPause: TimeInterval = 3600
    private static let pieceBytes = 256 << 10

    private let caller: CloudCaller
    private let bytes: HTTPClient
    private let token: String
    private let origin: String
    private let clock: any WallClock
    /// No calls before: the service has said so.
    private let pausedUntil = Mutex<Date?>(nil)

    /// - Parameters:
    ///   - client: For the API; allows `CloudCaller.maximumCalls` concurrent transfers.
    ///   - bytes: For upload links.
    ///   - token: Of the account; sent to the API only.
    ///   - origin: `https://host[:port]` of the API.
    ///   - clock: The time for pauses.
    package init(client: HTTPClient, bytes: HTTPClient, token: String, origin: String, clock: any WallClock) {
        caller = CloudCaller(named: Self.name, client: client, timeout: .seconds(30))
        self.bytes = bytes
        self.token = token
        self.origin = origin
        self.clock = clock
    }

    /// In messages, logs and metrics.
    package static let name = "Vimeo"

    // MARK: The API

    /// Calls the API, unless it has asked for a pause: then the answer is 429.
    ///
    /// - Parameters:
    ///   - method: Such as `PATCH`.
    ///   - target: Path and query.
    ///   - json: The body; `nil` for none.
    ///   - since: `If-Modified-Since`.
    /// - Returns: The response, whatever its status.
    /// - Throws: `.unavailable`, `.malformed`.
    package func call(
        _ method: String,
        _ target: String,
        json: [UInt8]? = nil,
        since: String? = nil
    ) async throws(CloudFailure) -> Answer {
        let now = clock.now
        if let end = pausedUntil.withLock({ $0 }), end > now {
            return Answer(status: 429, content: [], modified: nil, resumesAt: end)
        }
        var call = CloudCaller.Call(
            name: "\(method) \(Self.template(of: target))",
            method: method,
            url: origin + target,
            headers: [
                .init("Accept", "application/vnd.vimeo.*+json;version=3.4"), .init("Authorization", "Bearer \(token)"),
            ],
            maximumResponseBytes: Self.maximumAnswerBytes
        )
        if let json {
            call.headers.append(.init("Content-Type", "application/json"))
            call.body = json
        }
        if let since { call.headers.append(.init("If-Modified-Since", since)) }
        // A second creation would make a second video.
        call.isOnce = method == "POST"
        let response = try await caller.send(call)
        var end: Date?
        let isUsedUp = response.headers["X-RateLimit-Remaining"] == "0"
        if response.status == 429 || isUsedUp {
            let reset = response.headers["X-RateLimit-Reset"].flatMap { try? Date($0, strategy: .iso8601) }
            let wait = RetryAfter.seconds(response.headers["Retry-After"], at: now.timeIntervalSince1970)
                .map { now.addingTimeInterval($0) }
            let known = reset ?? wait ?? (response.status == 429 ? now.addingTimeInterval(60) : nil)
            end = known.map { min($0, now.addingTimeInterval(Self.longestPause)) }
            if let end { pausedUntil.withLock { $0 = end } }
        }
        guard (200..<600).contains(response.status) else { throw caller.malformed(call) }
        return Answer(
            status: response.status,
            content: response.body,
            modified: response.headers["Last-Modified"],
            resumesAt: response.status == 429 ? end : nil
        )
    }

    /// A path without ids, for messages.
    private static func template(of target: String) -> String {
        target.prefix { $0 != "?" }.split(separator: "/").map { $0.allSatisfy(\.isNumber) ? "ID" : String($0) }
            .joined(separator: "/")
    }

    /// A text of the service without the account's token.
    package func redacted(_ text: String) -> String {
        token.isEmpty ? text : text.replacing(token, with: "<redacted>")
    }

    // MARK: Upload links (tus 1.0.0)

    /// The number of bytes that an upload link has.
    ///
    /// - Returns: `nil` if the upload is gone.
    /// - Throws: `.unavailable`, `.malformed`.
    package func offset(at link: String) async throws(CloudFailure) -> Int64? {
        let request = HTTPClientRequest(method: "HEAD", url: link, headers: Self.tusFields)
        return try Self.offset(in: try await send(request, "HEAD"), "HEAD")
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
    /// - Throws: `.unavailable`, `.malformed`; whoever asks for the offset again can go on.
    package func send(
        _ source: any ByteSource,
        length: Int64,
        at offset: Int64,
        to link: String,
        while isWanted: () async -> Bool
    ) async throws(CloudFailure) -> Int64? {
        let content = StreamedContent(length: length)
        var request = HTTPClientRequest(
            method: "PATCH",
            url: link,
            headers: Self.tusFields + [
                (name: "Upload-Offset", value: String(offset)),
                (name: "Content-Type", value: "application/offset+octet-stream"),
            ],
            timeout: .zero
        )
        request.content = content
        request.stallTimeout = .seconds(60)
        request.needsNewConnection = true
        let sending = Task { [request, bytes] in
            let result: Result<HTTPClientResponse, HTTPClientError>
            do throws(HTTPClientError) {
                result = .success(try await bytes.send(request))
            } catch {
                result = .failure(error)
            }
            content.close()
            return result
        }
        let result = await withTaskCancellationHandler {
            await Self.copy(source, to: content, sending, while: isWanted)
            return await sending.value
        } onCancel: {
            sending.cancel()
        }
        switch result {
        case .success(let response): return try Self.offset(in: response, "PATCH")
        case .failure(let error): throw Self.failure(error, "PATCH")
        }
    }

    private static func copy(
        _ source: any ByteSource,
        to content: StreamedContent,
        _ sending: Task<Result<HTTPClientResponse, HTTPClientError>, Never>,
        while isWanted: () async -> Bool
    ) async {
        var left = content.length
        while left > 0 {
            guard await isWanted() else { return sending.cancel() }
            guard let piece = try? await source.next(maximum: Int(min(left, Int64(pieceBytes)))) else {
                return content.fail()
            }
            left -= Int64(piece.count)
            guard await content.add(piece) else { return }
        }
    }

    private static let tusFields = [(name: "Tus-Resumable", value: "1.0.0")]

    private func send(_ request: HTTPClientRequest, _ method: String) async throws(CloudFailure) -> HTTPClientResponse {
        do throws(HTTPClientError) {
            return try await bytes.send(request)
        } catch {
            throw Self.failure(error, method)
        }
    }

    private static func failure(_ error: HTTPClientError, _ method: String) -> CloudFailure {
        CloudFailure(.unavailable, "\(method) of an upload link of \(name) did not succeed: \(error.message)")
    }

    private static func offset(in response: HTTPClientResponse, _ method: String) throws(CloudFailure) -> Int64? {
        if response.status == 404 || response.status == 410 { return nil }
        guard (200..<300).contains(response.status) else {
            throw CloudFailure(
                .unavailable,
                "\(method) of an upload link of \(name) returned status \(response.status)"
            )
        }
        guard let text = response.headers["Upload-Offset"], let offset = Int64(text), offset >= 0 else {
            throw CloudFailure(.malformed, "\(method) of an upload link of \(name) returned no offset")
        }
        return offset
    }
}
