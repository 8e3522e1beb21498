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
internal import SettingsKit
package import Signing
internal import SystemIO
package import TokenServices
internal import Transport
internal import UploadCore
package import UploadModel

/// The listener for clients of S3, OSS and COS, and the APIs that mint credentials and URLs for it.
package struct ObjectModule: GatewayModule {
    package let name = "object endpoint"
    package let routes: [Route]
    package let listeners: [HTTPServer]
    package let services: [any Service]
    /// Serves the requests of the listener, for modules that forward some of theirs; `nil` without a listener.
    package let handler: (any ObjectRequestHandler)?
    private let callbacks: CallbackClient?

    /// Port of the listener, or `nil`.
    package var port: UInt16? { listeners.first?.address.port }

    /// Creates missing buckets and binds the listener, if it is configured.
    ///
    /// - Parameters:
    ///   - context: What every module receives.
    ///   - identities: Verifies identity tokens; `nil` accepts none.
    ///   - owners: Make media of some objects.
    /// - Throws: `StartFailure` with a message for the operator.
    package init(
        _ context: GatewayContext,
        identities: (any WebIdentityVerifier)?,
        owners: [any ObjectOwnership] = []
    ) async throws(StartFailure) {
        let settings = context.settings
        let calledBack = context.metrics.counters(
            "sluice_object_callbacks_total",
            "Callbacks that clients of OSS asked for.",
            by: "outcome"
        )
        var port: UInt16?
        let inherited = context.sockets["object"]
        if let listen = settings.object.listen ?? inherited.map({ _ in ListenAddress(host: "127.0.0.1", port: 0) }) {
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
            let server = try Self.listener(listen, context, handler)
            port = server.address.unixPath == nil ? server.address.port : nil
            (listeners, self.handler, self.callbacks) = ([server], handler, callbacks)
        } else {
            (listeners, handler, callbacks) = ([], nil, nil)
        }
        // Also without a listener, because another node may have one.
        services = context.mismatch == nil ? [Self.lifecycleService(context)] : []
        var reachable = context
        reachable.objectPort = port
        routes = Self.routes(reachable)
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

    private static func listener(
        _ listen: ListenAddress,
        _ context: GatewayContext,
        _ handler: ObjectHandler
    ) throws(StartFailure) -> HTTPServer {
        let address: SocketAddress
        var configuration = context.serverConfiguration
        configuration.head.allowsLengthOfChunked = true
        if context.settings.object.expectsProxyHeader {
            configuration.proxyHeaderPeers = context.publicURL.trustedProxies
        }
        do throws(SystemError) {
            address = try SocketAddress(resolving: listen.host, port: listen.port)
        } catch {
            throw StartFailure("\(error)")
        }
        do throws(SystemError) {
            return try HTTPServer(
                address: address,
                inherited: context.sockets["object"],
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
        } catch {
            throw StartFailure(
                "cannot listen on \(address) for clients of object stores: \(error); choose another address (object.listen), or none"
            )
        }
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
        let keys = context.keyPairCache()
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
            onMint: { minted.increment() }
        )
        return ObjectHandler(store: store, tokens: tokens)
    }
}

/// Serves requests of the object endpoint.
package protocol ObjectRequestHandler: RequestHandler {
    /// The response to a request that a limit refuses, in the form of its vendor's client.
    func refuse(_ error: UploadError, _ request: Request) -> Response
}

/// Dispatches the listener's requests: to the token services, or to the object endpoint.
private struct ObjectHandler: ObjectRequestHandler {
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
