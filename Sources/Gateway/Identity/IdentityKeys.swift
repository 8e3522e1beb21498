internal import Bytes
internal import Foundation
internal import HTTPClient
internal import Signing
internal import Synchronization
internal import UploadCore

/// The keys of an identity provider, fetched when they are first wanted and again now and then.
///
/// One fetch runs at a time, and each failure or token with an unknown key leads to another one only after a pause, so that
/// nobody can make the gateway flood the provider. While it is away, keys that are known go on being used for a day.
final class IdentityKeys: Sendable {
    /// Why there are none, for the operator and the client: it has no URL in it.
    struct Unavailable: Error, Sendable, Equatable {
        let reason: String
    }

    /// Where they are.
    enum Place: Sendable, Equatable {
        case at(String)
        /// Told by the document that OpenID Connect Discovery 1.0 (§4) has for the issuer.
        case ofIssuer(String)
    }

    private struct State {
        var held: (keys: JSONWebKeySet, since: Date)?
        var running: Task<Result<JSONWebKeySet, Unavailable>, Never>?
        var startedAt: Date?
        var failure: Unavailable?
    }

    /// Seconds after which they are fetched again; a key that the issuer has withdrawn is trusted so long.
    static let lifetime: TimeInterval = 900
    /// Seconds for which they are used while the provider is away.
    static let lifetimeAway: TimeInterval = 86_400
    /// Seconds between fetches, at least.
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

    /// The keys that may have signed `token`; none if the issuer has no such key.
    ///
    /// - Throws: If they can not be fetched, and there are no others that are new enough.
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

    /// Those that were known before a fetch that failed, or that is not made so soon.
    private static func keys(
        for token: JSONWebToken,
        in held: JSONWebKeySet?,
        _ failure: Unavailable?
    ) throws(Unavailable) -> [JSONWebKey] {
        let keys = held?.keys(for: token) ?? []
        // Of a key that is not known nobody can say that it is none.
        if keys.isEmpty, let failure { throw failure }
        return keys
    }

    /// What may be used, and the fetch that is to be waited for.
    private func step(
        _ state: inout State,
        for token: JSONWebToken,
        at now: Date
    ) -> (JSONWebKeySet?, Task<Result<JSONWebKeySet, Unavailable>, Never>?) {
        // The clock may be set back.
        let age = state.held.map { abs(now.timeIntervalSince($0.since)) }
        let usable = age.map { $0 < Self.lifetimeAway } ?? false ? state.held?.keys : nil
        if let usable, let age, age < Self.lifetime, !usable.keys(for: token).isEmpty { return (usable, nil) }
        let isEarly = state.startedAt.map { abs(now.timeIntervalSince($0)) < Self.pause } ?? false
        if state.running == nil, !isEarly {
            state.startedAt = now
            state.running = Task { await self.fetch() }
        }
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
        case .at(let told): url = told
        case .ofIssuer(let issuer): url = try await discovered(of: issuer)
        }
        guard let keys = JSONWebKeySet(json: try await get(url, "its keys")), !keys.isEmpty else {
            throw Unavailable(reason: "its answer has no keys for RS256 or ES256 in it")
        }
        return keys
    }

    private func discovered(of issuer: String) async throws(Unavailable) -> String {
        let json = try await get(Self.documentURL(of: issuer), "its configuration")
        guard let value = try? JSONDecoder().decode(JSONValue.self, from: Data(json)),
            case .object(let members) = value,
            case .string(let named)? = members["issuer"], case .string(let url)? = members["jwks_uri"]
        else { throw Unavailable(reason: "its configuration does not name the issuer and the place of its keys") }
        // Else whoever can place a document there could speak for others (§4.3).
        guard named == issuer else { throw Unavailable(reason: "its configuration is that of another issuer") }
        guard IdentityURL.isSafe(url, toldBy: issuer) else {
            throw Unavailable(reason: "the keys that its configuration names are not at an https URL")
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
            throw Unavailable(reason: "\(what) can not be fetched: \(error.message)")
        }
        guard response.status == 200 else {
            throw Unavailable(reason: "\(what) can not be fetched: the answer has the status \(response.status)")
        }
        return response.body
    }
}

/// URLs of an identity provider.
enum IdentityURL {
    /// Whether nobody on the way can change what comes from there: https, or http within this machine.
    ///
    /// - Parameters:
    ///   - text: Of the settings, or of a document.
    ///   - issuer: Whose document it is: one from elsewhere shall not lead into this machine.
    /// - Returns: `false` for what is no URL, too.
    static func isSafe(_ text: String, toldBy issuer: String? = nil) -> Bool {
        guard let url = WebAddress(text) else { return false }
        let isOfThisMachine = issuer.map { WebAddress($0)?.isLoopback ?? false } ?? true
        return url.isLoopback ? isOfThisMachine : url.origin.hasPrefix("https://")
    }
}
