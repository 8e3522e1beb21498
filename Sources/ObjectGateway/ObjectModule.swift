internal import Callbacks
internal import CoreMetrics
internal import Foundation
package import GatewayKit
package import HTTPServer
package import HTTPWire
internal import Logging
internal import MetricsKit
internal import ObjectGrants
package import ObjectStore
package import RESTKit
package import ServiceLifecycle
package import SettingsKit
package import Signing
internal import SystemIO
package import TokenServices
package import Transport
internal import UploadCore
package import UploadModel

/// The listener for clients of S3, OSS and COS, and the APIs that mint credentials and URLs for it.
package struct ObjectModule: GatewayModule {
    package let name = "object endpoint"
    package let routes: [Route]
    package let claims: [Claim]
    package let listeners: [HTTPServer]
    package let services: [any Service]
    private let callbacks: CallbackClient?

    /// Creates missing buckets, and serves the listener of the context.
    ///
    /// - Parameters:
    ///   - context: What every module receives.
    ///   - identities: Verifies identity tokens; `nil` accepts none.
    ///   - owners: Make media of some objects.
    ///   - claims: Requests to the gateway's own listener that the object endpoint serves, too.
    /// - Throws: `StartFailure` with a message for the operator.
    package init(
        _ context: GatewayContext,
        identities: (any WebIdentityVerifier)?,
        owners: [any ObjectOwnership],
        claims: [ObjectClaim]
    ) async throws(StartFailure) {
        let settings = context.settings
        let calledBack = context.metrics.counters(
            "sluice_object_callbacks_total",
            "Callbacks that clients of OSS asked for.",
            by: "outcome"
        )
        if let listener = context.objectListener {
            do throws(UploadError) {
                try await Self.createBuckets(context)
                try await Self.reportMissingPublicBuckets(context)
            } catch {
                throw StartFailure("the buckets in object.buckets cannot be created: \(error.message)")
            }
            let callbacks = settings.callbackClient(context.master, context.clock) { hasResponse in
                calledBack[hasResponse ? "answered" : "failed"].increment()
            }
            let handler = Self.handler(context, callbacks, identities, ObjectOwners(owners))
            (listeners, self.callbacks) = ([Self.server(listener, context, handler)], callbacks)
            self.claims = claims.map { $0.claim(handler) }
        } else {
            (listeners, callbacks, self.claims) = ([], nil, [])
        }
        // Also without a listener, because another node may have one.
        services = context.mismatch == nil ? [Self.lifecycleService(context)] : []
        routes = Self.routes(context)
    }

    /// Binds the listener, if it is configured; before the modules are made, because URLs name its port.
    ///
    /// - Throws: `StartFailure` with a message for the operator.
    package static func listener(_ settings: Settings, _ process: GatewayProcess) throws(StartFailure) -> Listener? {
        let ofManager = process.sockets["object"].map { _ in ListenAddress(host: "127.0.0.1", port: 0) }
        guard let listen = settings.object.listen ?? ofManager else { return nil }
        let address = try starting { () throws(SystemError) in
            try SocketAddress(resolving: listen.host, port: listen.port)
        }
        do throws(SystemError) {
            return try process.sockets.listener("object", or: address, loop: process.loops.next())
        } catch {
            throw StartFailure(
                "cannot listen on \(address) for clients of object stores: \(error); choose another address (object.listen), or none"
            )
        }
    }

    /// Without room a missing one is made by a later start: this one has to serve, so that room can be made.
    private static func createBuckets(_ context: GatewayContext) async throws(UploadError) {
        let objects = context.services.objects
        for name in context.settings.object.buckets where try await objects.bucket(name) == nil {
            do throws(UploadError) {
                _ = try await objects.createBucket(name)
            } catch  where error.code == .storageFull {
                context.logger.warning(
                    "a bucket in object.buckets is not created, because the storage has no room",
                    metadata: ["bucket": "\(name)"]
                )
            }
        }
    }

    /// Logs rules of `object.publicRead` that apply to nothing.
    private static func reportMissingPublicBuckets(_ context: GatewayContext) async throws(UploadError) {
        for rule in context.settings.object.publicRead {
            guard let bucket = PublicRead.Rule(rule)?.bucket,
                try await context.services.objects.bucket(bucket) == nil
            else { continue }
            context.logger.warning(
                "object.publicRead names a bucket that does not exist",
                metadata: ["rule": "\(rule)", "bucket": "\(bucket)"]
            )
        }
    }

    /// Aborts callbacks in progress.
    package func close() { callbacks?.close() }

    private static func routes(_ context: GatewayContext) -> [Route] {
        let (settings, metrics) = (context.settings, context.metrics)
        let clouds = settings.directClouds(
            pool: context.pool,
            clock: context.clock,
            observe: CloudReport(metrics, context.logger).called
        )
        let tokens = SessionTokensAPI(
            issuer: context.issuer,
            clouds: clouds,
            access: context.access,
            minted: metrics.mintCounter("sts_token"),
            mintedDirectly: metrics.mintCounter("direct_sts_token"),
            bodyLimit: context.bodyLimit,
            maximumBytes: settings.limits.uploadBytes,
            clock: context.clock,
            region: settings.object.region,
            buckets: settings.object.buckets
        )
        let urls = PresignAPI(
            issuer: context.issuer,
            clouds: clouds,
            uploads: MultipartUploads(uploads: context.services.uploads, parts: context.services.parts),
            access: context.access,
            minted: metrics.mintCounter("presigned_url"),
            mintedDirectly: metrics.mintCounter("direct_presigned_url"),
            objectURL: context.objectURL,
            bodyLimit: context.bodyLimit,
            maximumBytes: settings.limits.uploadBytes,
            clock: context.clock,
            region: settings.object.region,
            buckets: settings.object.buckets
        )
        return tokens.routes + urls.routes
    }

    private static func server(
        _ listener: Listener,
        _ context: GatewayContext,
        _ handler: ObjectHandler
    ) -> HTTPServer {
        var configuration = context.serverConfiguration
        configuration.head.allowsLengthOfChunked = true
        if context.settings.object.expectsProxyHeader {
            configuration.proxyHeaderPeers = context.publicURL.trustedProxies
        }
        return HTTPServer(
            listener,
            tls: context.tls,
            configuration: configuration,
            loops: context.loops,
            pool: context.pool,
            handler: context.observed(
                ClientNamingHandler(
                    RequestLimitHandler(handler, context.requestLimits, context.signIns) { handler.refuse($0, $1) },
                    context.publicURL
                )
            ),
            observer: context.observation,
            refusals: {
                ObjectError.response(
                    refusing: $0.status,
                    $0.reason,
                    head: $0.head,
                    received: $0.received,
                    requestID: $0.requestID
                )
            }
        )
    }

    /// Seconds after a session's expiry in which uploads that began in it can be completed, because the parts of a
    /// large one may have taken the whole session.
    private static let grace: TimeInterval = 3600

    private static func handler(
        _ context: GatewayContext,
        _ callbacks: CallbackClient?,
        _ identities: (any WebIdentityVerifier)?,
        _ owner: ObjectOwners
    ) -> ObjectHandler {
        let settings = context.settings
        let (clock, region) = (context.clock, settings.object.region)
        let minted = context.metrics.mintCounter("sts_token")
        let issuer = context.issuer
        let keys = context.keyPairs
        let servesContent = settings.uploads.downloads
        let url = PublicURL(configured: settings.object.publicURL, trustedProxies: context.publicURL.trustedProxies)
        let store = ObjectStoreHandler(
            service: context.services.objects,
            uploads: MultipartUploads(uploads: context.services.uploads, parts: context.services.parts),
            endpoint: EndpointHosts(hosts: settings.object.domains),
            region: region,
            authentication: ObjectAuthentication(
                region: region,
                issuer: issuer,
                grace: grace,
                skew: settings.limits.clockSkewSeconds,
                revoked: context.revoked
            ) {
                (accessKeyID) async throws(ObjectError) in
                do throws(UploadError) {
                    return try await keys.pairs(accessKeyID, .admin).map {
                        KeyHolder($0.credentials, .administrator, noteUse: $0.noteUse)
                    }
                } catch {
                    throw ObjectError(error, about: .object)
                }
            },
            publicRead: settings.publicRead,
            cors: { [cors = context.cors] in BucketCORS(following: cors) },
            callbacks: callbacks,
            owner: owner,
            baseURL: { url.base(for: $0) },
            clock: clock
        ) { blob, range, isHead throws(UploadError) in
            guard isHead || servesContent else {
                throw UploadError(.forbidden(scope: nil), "This server serves no content (media.downloads).")
            }
            return try await blob.responseContent(range, isHead: isHead)
        }
        let tokens = TokenServiceHandler(
            issuer: issuer,
            clock: clock,
            minter: { (accessKeyID) async throws(UploadError) in
                try await keys.pairs(accessKeyID, .mint).map {
                    TokenMinter($0.credentials, $0.key, noteUse: $0.noteUse)
                }
            },
            skew: settings.limits.clockSkewSeconds,
            identities: identities,
            nonces: context.nonces,
            onMint: { minted.increment() }
        )
        return ObjectHandler(store: store, tokens: tokens)
    }
}

/// Requests to the gateway's own listener that the object endpoint serves, too, if this process has one.
package struct ObjectClaim: Sendable {
    private let templates: [String]
    private let dialect: Response.Trace.Dialect
    private let condition: Claim.Condition

    /// - Parameters:
    ///   - templates: As those of a `Claim`.
    ///   - dialect: What the clients speak.
    ///   - condition: What shows that a request is meant for it.
    package init(_ templates: [String], dialect: Response.Trace.Dialect, when condition: Claim.Condition) {
        self.templates = templates
        self.dialect = dialect
        self.condition = condition
    }

    fileprivate func claim(_ handler: ObjectHandler) -> Claim {
        Claim(
            templates,
            dialect: dialect,
            when: condition,
            operations: [],
            refuse: { handler.refuse($0, $1) },
            respond: { await handler.respond(to: $0) }
        )
    }
}

/// Dispatches the listener's requests: to the token services, or to the object endpoint.
private struct ObjectHandler: RequestHandler {
    let store: ObjectStoreHandler
    let tokens: TokenServiceHandler

    func respond(to request: Request) async -> Response {
        TokenServiceHandler.isMeant(by: request.head)
            ? await tokens.respond(to: request) : await store.respond(to: request)
    }

    func refuse(_ error: UploadError, _ request: Request) -> Response {
        TokenServiceHandler.isMeant(by: request.head)
            ? tokens.refuse(error, request) : store.refuse(error, request)
    }
}

/// A key pair for S3 clients that stands for an API key.
package struct ObjectKeyPair: Sendable {
    package let accessKeyID: String
    package let secretAccessKey: String

    package init(_ key: APIKey, master: MasterSecret) {
        let pair = StaticKeyPair(key, master: master)
        accessKeyID = pair.accessKeyID
        secretAccessKey = pair.secretAccessKey.text
    }
}
