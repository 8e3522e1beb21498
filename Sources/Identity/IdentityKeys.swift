internal import Bytes
internal import Foundation
internal import HTTPClient
internal import SettingsKit
internal import Signing
internal import Synchronization
internal import UploadModel

/// The keys of an identity provider, fetched on first use and refreshed periodically.
///
/// Only one fetch runs at a time. After a failure, or a token with an unknown key, the next one follows only after a
/// pause, so that clients cannot make the gateway flood the provider. While the provider is unavailable, known keys
/// stay valid for a day.
final class IdentityKeys: Sendable {
    /// Why there are no keys, for the operator and the client; contains no URL.
    struct Unavailable: Error, Sendable, Equatable {
        let reason: String
    }

    /// The location of the keys.
    enum Place: Sendable, Equatable {
        case at(String)
        /// From the issuer's document of OpenID Connect Discovery 1.0 (§4).
        case ofIssuer(String)
    }

    private struct State {
        var held: (keys: JSONWebKeySet, since: Date)?
        var running: Task<Result<JSONWebKeySet, Unavailable>, Never>?
        var startedAt: Date?
        var failure: Unavailable?
    }

    /// Seconds between refreshes; a withdrawn key stays trusted this long.
    static let lifetime: TimeInterval = 900
    /// Seconds for which keys are used while the provider is unavailable.
    static let lifetimeAway: TimeInterval = 86_400
    /// Minimum seconds between fetches.
    static let pause: TimeInterval = 5
    private static let maximumByteCount = 256 << 10
    private static let timeout = Duration.seconds(5)

    private let place: Place
    private let client: HTTPClient
    private let clock: any WallClock
    private let state = Mutex(State())

    init(_ place: Place, client: HTTPClient, clock: any WallClock) {
        self.place = place
        self.client = client
        self.clock = clock
    }

    /// The issuer's keys that may have signed `token`; can be empty.
    ///
    /// - Throws: If they cannot be fetched, and no cached ones are recent enough.
    func keys(for token: JSONWebToken) async throws(Unavailable) -> [JSONWebKey] {
        let (held, fetch) = state.withLock { step(&$0, for: token, at: clock.now) }
        if let fetch {
            switch await fetch.value {
            case .success(let keys): return keys.keys(for: token)
            case .failure(let failure): return try Self.keys(for: token, in: held, failure)
            }
        }
        return try Self.keys(for: token, in: held, state.withLock { $0.failure })
    }

    /// The cached keys, after a fetch that failed or that was too early.
    private static func keys(
        for token: JSONWebToken,
        in held: JSONWebKeySet?,
        _ failure: Unavailable?
    ) throws(Unavailable) -> [JSONWebKey] {
        let keys = held?.keys(for: token) ?? []
        // An unknown key cannot be called invalid after a failed fetch.
        if keys.isEmpty, let failure { throw failure }
        return keys
    }

    /// The keys to use, or the fetch to wait for.
    private func step(
        _ state: inout State,
        for token: JSONWebToken,
        at now: Date
    ) -> (JSONWebKeySet?, Task<Result<JSONWebKeySet, Unavailable>, Never>?) {
        // The clock may have been set back.
        let age = state.held.map { abs(now.timeIntervalSince($0.since)) }
        let usable = age.map { $0 < Self.lifetimeAway } ?? false ? state.held?.keys : nil
        if let usable, let age, age < Self.lifetime, !usable.keys(for: token).isEmpty { return (usable, nil) }
        let isEarly = state.startedAt.map { abs(now.timeIntervalSince($0)) < Self.pause } ?? false
        if state.running == nil, !isEarly {
            state.startedAt = now
            state.running = Task { await self.fetch() }
        }
        // A provider that is away must not delay each request.
        if let usable, state.failure != nil, !usable.keys(for: token).isEmpty { return (usable, nil) }
        return (usable, state.running)
    }

    private func fetch() async -> Result<JSONWebKeySet, Unavailable> {
        let outcome: Result<JSONWebKeySet, Unavailable>
        do throws(Unavailable) {
            outcome = .success(try await fetched())
        } catch {
            outcome = .failure(error)
        }
        let now = clock.now
        state.withLock { state in
            state.running = nil
            switch outcome {
            case .success(let keys):
                state.held = (keys, now)
                state.failure = nil
            case .failure(let failure): state.failure = failure
            }
        }
        return outcome
    }

    private func fetched() async throws(Unavailable) -> JSONWebKeySet {
        let url: String
        switch place {
        case .at(let reported): url = reported
        case .ofIssuer(let issuer): url = try await discovered(of: issuer)
        }
        guard let keys = JSONWebKeySet(json: try await get(url, "its keys")), !keys.isEmpty else {
            throw Unavailable(reason: "its response has no keys for \(JSONWebAlgorithm.names)")
        }
        return keys
    }

    private func discovered(of issuer: String) async throws(Unavailable) -> String {
        let json = try await get(Self.documentURL(of: issuer), "its configuration")
        guard let members = JSONValue(json: json)?.members,
            case .string(let named)? = members["issuer"], case .string(let url)? = members["jwks_uri"]
        else { throw Unavailable(reason: "its configuration does not name the issuer and the URL of its keys") }
        // Otherwise anyone who can place a document there could impersonate other issuers (§4.3).
        guard named.isExactly(issuer) else { throw Unavailable(reason: "its configuration is that of another issuer") }
        guard IdentityURL.isSafe(url, namedBy: issuer) else {
            throw Unavailable(reason: "its configuration names keys that are not at an https URL")
        }
        return url
    }

    private static func documentURL(of issuer: String) -> String {
        (issuer.hasSuffix("/") ? String(issuer.dropLast()) : issuer) + "/.well-known/openid-configuration"
    }

    private func get(_ url: String, _ what: String) async throws(Unavailable) -> [UInt8] {
        var request = HTTPClientRequest(
            url: url,
            headers: [("Accept", "application/json")],
            timeout: Self.timeout,
            connectTimeout: Self.timeout,
            maximumResponseBytes: Self.maximumByteCount
        )
        request.keepsConnection = false
        let response: HTTPClientResponse
        do throws(HTTPClientError) {
            response = try await client.send(request)
        } catch {
            throw Unavailable(reason: "\(what) cannot be fetched: \(error.message)")
        }
        guard response.status == 200 else {
            throw Unavailable(reason: "\(what) cannot be fetched: the response has the status \(response.status)")
        }
        return response.body
    }
}

/// URLs of an identity provider.
enum IdentityURL {
    /// Whether a response from there cannot be modified in transit: https, or http within this machine.
    ///
    /// - Parameters:
    ///   - text: A URL from the settings or from a document.
    ///   - issuer: The issuer of the document; a remote one must not refer to this machine.
    /// - Returns: `false` also if it is not a URL.
    static func isSafe(_ text: String, namedBy issuer: String? = nil) -> Bool {
        guard let url = WebAddress(text) else { return false }
        let isOfThisMachine = issuer.map { WebAddress($0)?.isLoopback ?? false } ?? true
        return url.isLoopback ? isOfThisMachine : url.origin.hasPrefix("https://")
    }
}
