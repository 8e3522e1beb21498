internal import Bytes
internal import CloudCredentials
internal import CoreMetrics
internal import Foundation
internal import HTTPClient
internal import HTTPWire
internal import MetricsKit
internal import Signing
internal import Synchronization
internal import SystemIO
internal import UploadModel
internal import XMLText

/// A request to the store.
struct S3Request: Sendable {
    var method: String
    var bucket: String
    /// `nil` for requests to the bucket itself.
    var key: String?
    /// Decoded.
    var query: [SigningField] = []
    /// In lower case.
    var headers: [SigningField] = []
    var body: [UInt8] = []
    /// Streamed content; replaces `body`.
    var content: (any HTTPRequestContent)?
    /// Maximum bytes of the response.
    var maximumResponseBytes = 4 << 20
    /// Timeout of one attempt, to the end of the response; zero for none except the stall timeout.
    var timeout = Duration.seconds(60)
    /// Prevents libcurl from repeating an attempt unnoticed.
    var needsNewConnection = false
    /// Maximum time without any byte.
    var stallTimeout: Duration?
}

/// Sends signed requests to the store, with retries.
final class S3Client: Sendable {
    let settings: S3Settings
    private let http: HTTPClient
    private let credentials: any AWSCredentialsProvider
    private let clock: any WallClock
    private let keys = SigV4Keys(capacity: 8)
    /// `scheme://`; the host includes the port.
    private let scheme: String
    private let authority: String
    /// Attempts that succeeded (`ok`) or failed, by kind of failure.
    private let attempts: CounterTable
    /// The same, by operation and outcome; of an object that is read, to the head of the response.
    private let durations: TimerTable
    /// Seconds by which the store's clock is ahead of ours.
    private let skew = Mutex<TimeInterval>(0)

    init(
        _ settings: S3Settings,
        http: HTTPClient,
        credentials: any AWSCredentialsProvider,
        clock: any WallClock,
        metrics: MetricsRegistry
    ) {
        self.settings = settings
        attempts = metrics.counters("sluice_store_requests_total", "Requests to the object store.", by: "outcome")
        durations = metrics.timers(
            "sluice_store_request_duration_seconds",
            "Requests to the object store; of an object that is read, up to its first byte.",
            by: "operation",
            "outcome"
        )
        self.http = http
        self.credentials = credentials
        self.clock = clock
        let parts = settings.endpoint.split(separator: "://", maxSplits: 1)
        scheme = parts.count == 2 ? String(parts[0]) : "https"
        authority = parts.last.map(String.init) ?? ""
    }

    private func count(_ request: S3Request, _ outcome: String, since start: Nanoseconds) {
        attempts[outcome].increment()
        durations[request.operation, outcome].recordNanoseconds(Int64(clamping: MonotonicClock.now - start))
    }

    // MARK: One request

    /// Sends a request; retries transient failures until it succeeds or the retry time is over.
    ///
    /// - Parameters:
    ///   - request: Its content is sent again with each attempt.
    ///   - ready: Called before each attempt except the first; `false` ends the retries.
    /// - Returns: A response with a status from 200 to 299.
    /// - Throws: The last failure.
    func send(
        _ request: S3Request,
        whenReady ready: @Sendable () async -> Bool = { true }
    ) async throws(S3Failure) -> HTTPClientResponse {
        var attempts = Attempts(settings.retryTime)
        while true {
            do throws(S3Failure) {
                return try await sendOnce(request)
            } catch {
                try await attempts.wait(after: error, skew: skew, credentials)
                guard await ready() else { throw S3Failure(.contentFailed, "the content ended early") }
            }
        }
    }

    /// Like `send`, for a response with a document.
    ///
    /// An error in a response with status 200 is a failure like others.
    ///
    /// - Parameters:
    ///   - request: See `send`.
    ///   - name: Name of the document's root.
    /// - Returns: The root.
    /// - Throws: The last failure.
    func ask(_ request: S3Request, for name: String) async throws(S3Failure) -> XMLNode {
        var isFirst = true
        return try await ask(request, for: name, isFirst: &isFirst)
    }

    /// The same, for a request that must not be repeated once it has taken effect.
    ///
    /// - Returns: `nil` if `isDone` found that it has.
    func ask(
        _ request: S3Request,
        for name: String,
        unless isDone: () async throws(S3Failure) -> Bool
    ) async throws(S3Failure) -> XMLNode? {
        var attempts = Attempts(settings.retryTime)
        while true {
            do throws(S3Failure) {
                return try Self.document(name, of: try await sendOnce(request))
            } catch {
                try await attempts.wait(after: error, skew: skew, credentials)
                if try await isDone() { return nil }
            }
        }
    }

    /// The same; also reports whether the first attempt succeeded.
    func ask(_ request: S3Request, for name: String, isFirst: inout Bool) async throws(S3Failure) -> XMLNode {
        var attempts = Attempts(settings.retryTime)
        while true {
            do throws(S3Failure) {
                return try Self.document(name, of: try await sendOnce(request))
            } catch {
                isFirst = false
                try await attempts.wait(after: error, skew: skew, credentials)
            }
        }
    }

    /// Like `send`, but returns after the head of the response; the caller pulls the content.
    func open(_ request: S3Request) async throws(S3Failure) -> HTTPDownload {
        var attempts = Attempts(settings.retryTime)
        while true {
            do throws(S3Failure) {
                let prepared = try await prepared(request)
                let start = MonotonicClock.now
                let download: HTTPDownload
                do throws(HTTPClientError) {
                    download = try await http.open(prepared)
                } catch {
                    throw counted(S3Failure(error), request, since: start)
                }
                if (200..<300).contains(download.head.status) {
                    count(request, "ok", since: start)
                    return download
                }
                let body = (try? await download.collect(limit: 1 << 20)) ?? []
                throw counted(
                    failure(download.head.status, download.head.headers, body, request),
                    request,
                    since: start
                )
            } catch {
                try await attempts.wait(after: error, skew: skew, credentials)
            }
        }
    }

    private func sendOnce(_ request: S3Request) async throws(S3Failure) -> HTTPClientResponse {
        let prepared = try await prepared(request)
        let start = MonotonicClock.now
        let response: HTTPClientResponse
        do throws(HTTPClientError) {
            response = try await http.send(prepared)
        } catch {
            throw counted(S3Failure(error), request, since: start)
        }
        guard (200..<300).contains(response.status) else {
            throw counted(failure(response.status, response.headers, response.body, request), request, since: start)
        }
        count(request, "ok", since: start)
        return response
    }

    private func counted(_ failure: S3Failure, _ request: S3Request, since start: Nanoseconds) -> S3Failure {
        count(request, failure.kind.rawValue, since: start)
        return failure
    }

    private func failure(_ status: Int, _ fields: HTTPFields, _ body: [UInt8], _ request: S3Request) -> S3Failure {
        let failure = S3Failure(status: status, body: body, isHead: request.method == "HEAD")
        if failure.code == "RequestTimeTooSkewed", let text = fields["Date"], let date = HTTPDate.parse(text) {
            skew.withLock { $0 = Double(date) - clock.now.timeIntervalSince1970 }
        }
        return failure
    }

    private var now: Int64 { Int64(clock.now.timeIntervalSince1970 + skew.withLock { $0 }) }

    private func prepared(_ request: S3Request) async throws(S3Failure) -> HTTPClientRequest {
        let (host, path) = address(request)
        var headers = request.headers
        if let encryption = settings.encryption, request.takesEncryption { headers += encryption.headers }
        let payload = SigV4Payload.unsigned
        let signer = SigV4Signer(credentials: try await currentCredentials(), region: settings.region, keys: keys)
        let signed = signer.sign(
            SigningRequest(
                method: request.method,
                host: host,
                path: path,
                query: request.query,
                headers: headers,
                payload: request.content == nil ? SigV4Payload(content: request.body) : payload
            ),
            at: now
        )
        let query = request.query.isEmpty ? "" : "?" + SigningRequest.query(of: request.query)
        var prepared = HTTPClientRequest(
            method: request.method,
            url: scheme + "://" + host + path + query,
            headers: [("host", host)] + (headers + signed.fields).map { ($0.name, $0.value) },
            body: request.body,
            timeout: request.timeout,
            maximumResponseBytes: request.maximumResponseBytes
        )
        // PUT must announce its length even if it is zero.
        prepared.content = request.content ?? (request.isEmptyPut ? PartBuffer(whole: []) : nil)
        prepared.needsNewConnection = request.needsNewConnection
        prepared.stallTimeout = request.stallTimeout ?? settings.stallTimeout
        return prepared
    }

    /// A URL with which anyone can make this request until it expires.
    func presigned(_ request: S3Request, lifetime: Int64) async throws(S3Failure) -> String {
        let (host, path) = address(request)
        let signer = SigV4Signer(credentials: try await currentCredentials(), region: settings.region, keys: keys)
        let query = signer.presign(
            SigningRequest(
                method: request.method,
                host: host,
                path: path,
                query: request.query,
                headers: request.headers,
                payload: .unsigned
            ),
            at: now,
            lifetime: lifetime
        )
        return scheme + "://" + host + path + "?" + SigningRequest.query(of: query)
    }

    private func currentCredentials() async throws(S3Failure) -> SigningCredentials {
        do throws(CredentialsError) {
            return try await credentials.credentials()
        } catch {
            throw S3Failure(.away, "there are no credentials for the store: \(error)")
        }
    }

    private func address(_ request: S3Request) -> (host: String, path: String) {
        let key = request.key.map { "/" + SigningRequest.path(of: $0) }
        if settings.isPathStyle { return (authority, "/" + SigningRequest.path(of: request.bucket) + (key ?? "")) }
        return (request.bucket + "." + authority, key ?? "/")
    }
}

/// Decides when a request is sent again.
private struct Attempts {
    private let limit: Duration
    private var failures = 0
    private var credentialFailures = 0
    private var deadline: ContinuousClock.Instant?

    init(_ limit: Duration) { self.limit = limit }

    /// Waits before the next attempt.
    ///
    /// - Throws: `failure`, if there is no further attempt.
    mutating func wait(
        after failure: S3Failure,
        skew: borrowing Mutex<TimeInterval>,
        _ credentials: any AWSCredentialsProvider
    ) async throws(S3Failure) {
        failures += 1
        let now = ContinuousClock.now
        let end = deadline ?? now + limit
        deadline = end
        if failure.isAboutCredentials {
            credentialFailures += 1
            guard credentialFailures <= 2 else { throw failure }
            await credentials.invalidate()
        } else if !failure.isTransient {
            throw failure
        }
        var delay = Duration.milliseconds(min(5000, 100 << min(failures - 1, 6))) * Double.random(in: 0.5...1)
        // Credentials are fetched at most once a second.
        if credentialFailures == 2, failure.isAboutCredentials { delay = .milliseconds(1200) }
        guard now + delay < end else { throw failure }
        do {
            try await Task.sleep(for: delay)
        } catch {
            throw S3Failure(.cancelled, "the request was cancelled")
        }
    }
}

extension S3Request {
    /// What it does, for metrics.
    fileprivate var operation: String {
        func has(_ name: String) -> Bool { query.contains { $0.name == name } }
        return switch method {
        case "PUT" where has("partNumber"): "upload_part"
        case "PUT": key == nil ? "create_bucket" : "put"
        case "POST": has("uploads") ? "create_multipart" : "complete_multipart"
        case "DELETE": has("uploadId") ? "abort_multipart" : "delete"
        case "HEAD": "head"
        case "GET" where has("uploadId"): "list_parts"
        case "GET": key == nil ? "list" : "get"
        default: "other"
        }
    }

    fileprivate var isEmptyPut: Bool { method == "PUT" && body.isEmpty && content == nil }

    /// Whether the request must specify the encryption: requests that create an object do, parts do not.
    fileprivate var takesEncryption: Bool {
        let isPart = query.contains { $0.name == "partNumber" }
        let makesObject = method == "PUT" || method == "POST" && query.contains { $0.name == "uploads" }
        return key != nil && makesObject && !isPart
    }
}

extension S3Settings.Encryption {
    fileprivate var headers: [SigningField] {
        switch self {
        case .store: [SigningField("x-amz-server-side-encryption", "AES256")]
        case .kms(let keyID):
            [SigningField("x-amz-server-side-encryption", "aws:kms")]
                + (keyID.map { [SigningField("x-amz-server-side-encryption-aws-kms-key-id", $0)] } ?? [])
        }
    }
}
