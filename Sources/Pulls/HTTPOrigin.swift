internal import Bytes
internal import Foundation
internal import HTTPClient
internal import HTTPWire
internal import UploadCore
internal import UploadModel

/// Fetches over HTTP and HTTPS.
struct HTTPOrigin: PullOrigin {
    /// Connects to the allowed ranges, too.
    let client: HTTPClient
    /// Connects to public addresses only.
    ///
    /// It is another client, so that it uses no connection of the first one.
    let publicClient: HTTPClient
    let maximumRedirects: Int
    let connectTimeout: Duration
    /// Maximum time without enough bytes.
    let stallTimeout: Duration
    /// In bytes per second.
    let minimumRate: Int
    let clock: any WallClock

    func open(_ request: PullRequest, rest: OriginRest?) async throws(PullFailure) -> OriginResponse {
        let download: HTTPDownload
        do throws(HTTPClientError) {
            let client =
                switch request.reach {
                case .publicOnly?: publicClient
                case .allowedRanges?, nil: self.client
                }
            download = try await client.open(self.request(request, rest))
        } catch {
            throw PullFailure(error)
        }
        let head = download.head
        switch head.status {
        case 200:
            let content = try content(of: download, total: head.contentLength, request.url)
            return .whole(content)
        case 206 where rest != nil:
            // Multiple parts are never requested, and have no Content-Range (RFC 9110 §15.3.7.2).
            guard let range = ContentRange(head.headers["Content-Range"]), let bytes = range.bytes else {
                throw PullFailure("range_unclear", "the origin does not say which part it sends")
            }
            let content = try content(of: download, total: range.total, request.url)
            return .part(content, offset: bytes.lowerBound, end: bytes.upperBound)
        case 416 where rest != nil:
            return .nothing(total: ContentRange(head.headers["Content-Range"])?.total)
        default:
            throw failure(head)
        }
    }

    private func request(_ request: PullRequest, _ rest: OriginRest?) -> HTTPClientRequest {
        // Bytes are stored unchanged, so they must not be content-encoded.
        var headers = request.headers.map { (name: $0.name, value: $0.value) } + [("Accept-Encoding", "identity")]
        if let rest {
            headers += [("Range", "bytes=\(rest.offset)-"), ("If-Range", rest.validator)]
        }
        var made = HTTPClientRequest(
            url: request.url,
            headers: headers,
            timeout: .zero,
            connectTimeout: connectTimeout,
            maximumRedirects: maximumRedirects
        )
        made.stallTimeout = stallTimeout
        made.minimumRate = minimumRate
        // Anything an origin sends after a response must not be taken for the next one.
        made.keepsConnection = false
        return made
    }

    private func content(of download: HTTPDownload, total: Int64?, _ url: String) throws(PullFailure) -> OriginContent {
        let headers = download.head.headers
        if let coding = headers["Content-Encoding"], coding.lowercasedASCII() != "identity", !coding.isEmpty {
            throw PullFailure(
                "content_encoded",
                "the origin sends the content in a coding that was not requested",
                .final
            )
        }
        let type = headers["Content-Type"].flatMap { MediaType($0) }
        return OriginContent(
            validator: Self.validator(headers),
            total: total,
            filename: headers["Content-Disposition"].flatMap(ContentDisposition.fileName)
                ?? WebAddress(url).flatMap(Self.lastSegment),
            contentType: type?.description,
            source: download,
            failure: { download.failure.map { PullFailure($0) } }
        )
    }

    /// The validator for If-Range: a strong entity tag, or a date that counts as one (RFC 9110 §8.8.2.2, §13.1.5).
    private static func validator(_ headers: HTTPFields) -> String? {
        // Such an origin does not support ranges.
        if headers["Accept-Ranges"]?.lowercasedASCII() == "none" { return nil }
        if let tag = headers["ETag"].flatMap({ EntityTag($0) }) { return tag.isWeak ? nil : tag.description }
        guard let modified = headers["Last-Modified"], let time = HTTPDate.parse(modified),
            let date = headers["Date"].flatMap({ HTTPDate.parse($0) }), time < date
        else { return nil }
        return modified
    }

    private static func lastSegment(of url: WebAddress) -> String? {
        guard let last = url.path.split(separator: "/").last, let bytes = PercentEncoding.decode(last.utf8),
            let name = String(clientText: bytes),
            !name.unicodeScalars.contains(where: { $0.value < 0x20 || $0 == "/" || $0 == "\\" }),
            name.utf8.count <= 1024
        else { return nil }
        return name
    }

    private func failure(_ head: HTTPClientHead) -> PullFailure {
        let text = "the origin responded with status \(head.status)"
        switch head.status {
        case 408, 425, 429, 500...599:
            let wait = RetryAfter.seconds(head.headers["Retry-After"], at: clock.now.timeIntervalSince1970)
            return PullFailure("origin_status", text, .retry(after: wait))
        default: return PullFailure("origin_status", text, .final)
        }
    }
}

extension PullFailure {
    /// Why there is no response; the text reveals nothing about the gateway's network.
    init(_ error: HTTPClientError) {
        switch error {
        case .badRequest: self.init("url_refused", error.message, .final)
        case .refusedAddress: self.init(Self.refusedAddress, error.message, .final)
        case .tooManyRedirects: self.init("too_many_redirects", error.message, .final)
        case .unreachable, .proxy: self.init("unreachable", error.message)
        case .tls: self.init("tls", error.message)
        case .connection, .contentFailed: self.init("disconnected", error.message)
        case .malformed: self.init("malformed_answer", error.message)
        case .padded: self.init("malformed_answer", error.message, .final)
        case .timedOut: self.init("timed_out", "the origin sent nothing, or too little, for too long")
        case .tooLarge(let limit): self.init("content_too_large", "the content has more than \(limit) bytes", .final)
        case .cancelled, .stopped: self.init("stopped", error.message, .none)
        }
    }
}

/// A parsed Content-Range (RFC 9110 §14.4): `bytes 5-9/10`, `bytes 5-9/*`, `bytes */10`.
struct ContentRange: Equatable {
    /// `nil` for an unsatisfied range.
    var bytes: Range<Int64>?
    var total: Int64?

    /// `nil` if the field is absent or malformed.
    init?(_ field: String?) {
        guard let field, field.lowercasedASCII().hasPrefix("bytes ") else { return nil }
        let parts = field.dropFirst(6).trimmingWhitespace().split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 2 else { return nil }
        if parts[1] != "*" {
            guard let total = Self.number(parts[1]) else { return nil }
            self.total = total
        }
        if parts[0] == "*" {
            guard total != nil else { return nil }
            return
        }
        let ends = parts[0].split(separator: "-", omittingEmptySubsequences: false).map(Self.number)
        guard ends.count == 2, let first = ends[0], let last = ends[1], first <= last, last < .max,
            total.map({ last < $0 }) ?? true
        else { return nil }
        bytes = first..<last + 1
    }

    private static func number(_ text: Substring) -> Int64? {
        text.utf8.allSatisfy { $0 >= 0x30 && $0 <= 0x39 } ? Int64(text) : nil
    }
}
