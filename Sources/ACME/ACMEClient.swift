internal import Bytes
internal import Digests
internal import HTTPClient
internal import HTTPWire
internal import Signing
internal import Synchronization

/// Signed requests to a certificate authority (RFC 8555 §6), for one order.
final class ACMEClient: Sendable {
    typealias Send = @Sendable (HTTPClientRequest) async throws(HTTPClientError) -> HTTPClientResponse

    /// What the directory names (RFC 8555 §7.1.1).
    struct Directory: Sendable {
        let newNonce, newAccount, newOrder: String
        let termsOfService: String?
        let wantsBinding: Bool
    }

    /// A response with a status of success.
    struct Answer: Sendable {
        let body: [UInt8]
        /// The resource that was made.
        let location: String?
        /// Seconds after which one may ask again.
        let retryAfter: Double?

        /// - Throws: `.unexpected` unless the content is a JSON object.
        func members() throws(ACMEFailure) -> JSONMembers {
            guard let members = JSONValue(json: body)?.members else {
                throw .unexpected("the content of a response is not a JSON object")
            }
            return members
        }
    }

    private static let maximumBytes = 256 << 10
    private static let timeout = Duration.seconds(30)
    /// Of an order as a whole, with all pauses and attempts.
    static let longest = Duration.seconds(3600)
    /// Attempts of a request whose nonce the authority does not accept; a new nonce is in its refusal (RFC 8555 §6.5).
    private static let attempts = 10

    let key: P256Key
    private let url: String
    private let sending: Send
    private let now: @Sendable () -> Double
    private let elapsed: @Sendable () -> Duration
    private let nonce = Mutex<String?>(nil)
    private let account = Mutex<String?>(nil)

    /// - Parameters:
    ///   - url: Of the directory.
    ///   - key: Of the account.
    ///   - now: Unix seconds.
    ///   - elapsed: Time since the order began.
    ///   - sending: Sends a request, within a time limit.
    init(
        directory url: String,
        key: P256Key,
        now: @escaping @Sendable () -> Double,
        elapsed: @escaping @Sendable () -> Duration,
        sending: @escaping Send
    ) {
        (self.url, self.key, self.now, self.elapsed, self.sending) = (url, key, now, elapsed, sending)
    }

    func directory() async throws(ACMEFailure) -> Directory {
        let response = try await send(HTTPClientRequest(url: url, headers: [("Accept", "application/json")]))
        guard response.status == 200 else { throw failure(response) }
        let members = try answer(response).members()
        let meta = members["meta"]?.members
        var needsBinding = false
        if case .bool(true)? = meta?["externalAccountRequired"] { needsBinding = true }
        return Directory(
            newNonce: try Self.url("newNonce", in: members),
            newAccount: try Self.url("newAccount", in: members),
            newOrder: try Self.url("newOrder", in: members),
            termsOfService: meta?.text("termsOfService"),
            wantsBinding: needsBinding
        )
    }

    /// Makes the account of the key, or finds it (RFC 8555 §7.3); later requests are of this account.
    func signIn(_ directory: Directory, _ payload: [UInt8]) async throws(ACMEFailure) {
        account.withLock { $0 = nil }
        let answer = try await post(payload, to: directory.newAccount, directory)
        guard let location = answer.location else { throw .unexpected("an account has no URL") }
        account.withLock { $0 = location }
    }

    /// Sends a signed request.
    ///
    /// - Parameters:
    ///   - payload: Its content; empty for one that only reads (POST-as-GET, RFC 8555 §6.3).
    ///   - url: Where it is sent.
    ///   - directory: Of the authority.
    ///   - accepting: The media type of the response.
    /// - Returns: A response with status 200 or 201.
    /// - Throws: `.refused` for any other one.
    func post(
        _ payload: [UInt8],
        to url: String,
        _ directory: Directory,
        accepting: String = "application/json"
    ) async throws(ACMEFailure) -> Answer {
        guard url.hasPrefix("https://") else { throw .unexpected("it names a URL that is not https") }
        let signer = account.withLock { $0 }.map { JSONWebSignature.Signer.account($0) } ?? .key
        var refused: ACMEFailure?
        for _ in 0..<Self.attempts {
            let body = JSONWebSignature.request(
                payload,
                to: url,
                nonce: try await nextNonce(directory),
                by: signer,
                key
            )
            let response = try await send(
                HTTPClientRequest(
                    method: "POST",
                    url: url,
                    headers: [("Content-Type", "application/jose+json"), ("Accept", accepting)],
                    body: body
                )
            )
            if (200...201).contains(response.status) { return answer(response) }
            let failure = failure(response)
            guard case .refused(let problem, _, _) = failure, problem.type == "badNonce" else { throw failure }
            refused = failure
        }
        throw refused ?? .unexpected("no nonce is accepted")
    }

    /// A nonce of the last response, or a new one; each is used once.
    private func nextNonce(_ directory: Directory) async throws(ACMEFailure) -> String {
        if let kept = nonce.withLock({ $0.take() }) { return kept }
        let response = try await send(HTTPClientRequest(method: "HEAD", url: directory.newNonce))
        guard (200...204).contains(response.status) else { throw failure(response) }
        guard let new = nonce.withLock({ $0.take() }) else { throw .unexpected("there is no nonce") }
        return new
    }

    private func send(_ request: HTTPClientRequest) async throws(ACMEFailure) -> HTTPClientResponse {
        guard elapsed() < Self.longest else { throw .late("the order") }
        var request = request
        request.timeout = Self.timeout
        request.maximumResponseBytes = Self.maximumBytes
        let response: HTTPClientResponse
        do throws(HTTPClientError) {
            response = try await sending(request)
        } catch {
            if Task.isCancelled { throw .cancelled }
            throw .unreachable(error.message)
        }
        if let new = response.headers["Replay-Nonce"], Self.isToken(new) { nonce.withLock { $0 = new } }
        return response
    }

    private func answer(_ response: HTTPClientResponse) -> Answer {
        Answer(
            body: response.body,
            location: response.headers["Location"],
            retryAfter: RetryAfter.seconds(response.headers["Retry-After"], at: now())
        )
    }

    private func failure(_ response: HTTPClientResponse) -> ACMEFailure {
        .refused(
            ACMEProblem(JSONValue(json: response.body)?.members ?? JSONMembers()),
            status: response.status,
            retryAfter: RetryAfter.seconds(response.headers["Retry-After"], at: now())
        )
    }

    static func url(_ name: String, in members: JSONMembers) throws(ACMEFailure) -> String {
        guard let url = members.text(name), url.hasPrefix("https://") else {
            throw .unexpected("there is no https URL \(name)")
        }
        return url
    }

    /// Base64url without padding, as tokens and nonces are (RFC 8555 §6.5.1, §8.3).
    static func isToken(_ text: String) -> Bool {
        (1...512).contains(text.utf8.count)
            && text.utf8.allSatisfy { byte in
                (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte)
                    || byte == UInt8(ascii: "-") || byte == UInt8(ascii: "_")
            }
    }
}
