internal import Foundation
internal import HTTPServer
internal import HTTPWire
internal import ObjectAPI
internal import Signing
internal import Transport
internal import UploadCore

/// The listener for clients of S3, OSS and COS, put together from the settings.
struct ObjectEndpoint: Sendable {
    let server: HTTPServer
    private let callbacks: CallbackClient?

    /// Gives up what is still on its way to apps.
    func close() { callbacks?.close() }

    /// What the listener shares with that of the gateway.
    struct Surroundings {
        let service: UploadService
        let state: any StateStore
        let revoked: RevocationList
        let identities: TrustedIssuer?
        let clock: any WallClock
        let loops: EventLoopGroup
        let pool: BlockingPool
        let tls: TLSContext?
        let observer: any ServerObserver
        let metrics: Metrics
    }

    /// Makes missing buckets and binds the listener.
    ///
    /// - Returns: `nil` if the settings want none.
    /// - Throws: `StartFailure`, whose text is for the operator.
    static func open(
        _ settings: Settings,
        _ master: MasterSecret,
        in place: Surroundings
    ) async throws(StartFailure) -> ObjectEndpoint? {
        guard let listen = settings.object.listen else { return nil }
        do throws(UploadError) {
            for name in settings.object.buckets { _ = try await place.service.createBucket(name) }
        } catch {
            throw StartFailure("the buckets of the object endpoint can not be made: \(error.message)")
        }
        let address: SocketAddress
        do throws(SystemError) {
            address = try SocketAddress(resolving: listen.host, port: listen.port)
        } catch {
            throw StartFailure("\(error)")
        }
        let metrics = place.metrics
        let callbacks = settings.callbackClient(master, place.clock) { metrics.calledBack(isAnswered: $0) }
        do throws(SystemError) {
            return ObjectEndpoint(
                server: try HTTPServer(
                    address: address,
                    tls: place.tls,
                    configuration: settings.serverConfiguration,
                    loops: place.loops,
                    pool: place.pool,
                    handler: handler(settings, master, place, callbacks),
                    observer: place.observer
                ),
                callbacks: callbacks
            )
        } catch {
            throw StartFailure(
                "can not listen on \(address) for clients of object stores: \(error); choose another address (object.listen), or none"
            )
        }
    }

    /// Seconds after the end of a session in which uploads that began in it can be completed: the parts of a large one may have
    /// taken all of its time.
    private static let grace: TimeInterval = 3600

    private static func handler(
        _ settings: Settings,
        _ master: MasterSecret,
        _ place: Surroundings,
        _ callbacks: CallbackClient?
    ) -> ObjectHandler {
        let (state, clock, region, metrics) = (place.state, place.clock, settings.object.region, place.metrics)
        let issuer = CredentialIssuer(master: master)
        let url = PublicURL(configured: settings.object.publicURL, trustedProxies: settings.trustedProxies)
        let store = S3Handler(
            service: place.service,
            endpoint: S3Endpoint(hosts: settings.object.domains),
            region: region,
            authentication: S3Authentication(
                region: region,
                issuer: issuer,
                grace: grace,
                revoked: place.revoked
            ) {
                (accessKeyID) async throws(S3Error) in
                try await pair(accessKeyID, .admin, in: state, master, at: clock.now).map {
                    S3KeyHolder($0.credentials, .administrator)
                }
            },
            cors: settings.bucketCORS,
            callbacks: callbacks,
            baseURL: { url.base(for: $0) },
            clock: clock
        ) { blob, range, isHead throws(UploadError) in
            try await blob.responseContent(range, isHead: isHead)
        }
        let tokens = TokenServiceHandler(
            issuer: issuer,
            clock: clock,
            minter: { (accessKeyID) async throws(S3Error) in
                try await pair(accessKeyID, .mint, in: state, master, at: clock.now).map {
                    TokenMinter($0.credentials, $0.key)
                }
            },
            identities: place.identities,
            onMint: { metrics.minted("sts_token") }
        )
        return ObjectHandler(store: store, tokens: tokens)
    }

    /// The API key that a pair of keys stands for, if it may do that, and the pairs that it is known by.
    private static func pair(
        _ accessKeyID: String,
        _ scope: Scope,
        in state: any StateStore,
        _ master: MasterSecret,
        at now: Date
    ) async throws(S3Error) -> (credentials: [SigningCredentials], key: APIKey)? {
        guard let id = StaticKeyPair.keyID(of: accessKeyID) else { return nil }
        let key: APIKey?
        do throws(UploadError) {
            key = try await state.key(id: id)
        } catch {
            throw S3Error(error, about: .object)
        }
        // Of a pair that may do everything nothing would keep to limits.
        guard let key, key.isUsable(at: now), key.allows(scope), scope != .admin || key.limits.isEmpty else {
            return nil
        }
        return (StaticKeyPair.all(key, master: master).map(\.credentials), key)
    }
}

/// The listener's requests: those for the token services, and all others.
private struct ObjectHandler: RequestHandler {
    let store: S3Handler
    let tokens: TokenServiceHandler

    func respond(to request: Request) async -> Response {
        TokenServiceHandler.isMeant(by: request.head)
            ? await tokens.respond(to: request) : await store.respond(to: request)
    }
}

/// A pair of keys for clients of S3 that stands for an API key.
package struct ObjectKeyPair: Sendable {
    package let accessKeyID: String
    package let secretAccessKey: String

    init(_ key: APIKey, master: MasterSecret) {
        let pair = StaticKeyPair(key, master: master)
        accessKeyID = pair.accessKeyID
        secretAccessKey = pair.secretAccessKey.text
    }
}
