internal import Foundation
internal import HTTPClient
internal import Webhooks
internal import HTTPServer
internal import HTTPWire
internal import ObjectAPI
internal import Signing
internal import TencentVOD
internal import UploadCore

/// What the parts of the gateway get of the settings.
extension Settings {
    /// The configured master secret, or the one of the data directory, which is made if it is missing.
    func master() throws(StartFailure) -> MasterSecret {
        if let masterSecret { return masterSecret.exposed }
        try Self.makePrivate(dataDirectory, "data directory")
        return try MasterSecretFile.loadOrCreate(in: dataDirectory)
    }

    /// Makes a directory that only its owner can look into, with those above it, if it is missing.
    static func makePrivate(_ directory: String, _ purpose: String) throws(StartFailure) {
        do {
            try FileManager.default.createDirectory(
                atPath: directory,
                withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700]
            )
        } catch {
            throw StartFailure("the \(purpose) \(directory) can not be made: \(error.localizedDescription)")
        }
    }

    var tencentMode: TencentSignatureIssuer.Mode {
        switch tencent.mode {
        case .relay: .relay
        case .direct: .direct
        }
    }

    /// In `direct` mode the account's pair, in `relay` mode Sluice's own.
    func tencentCredentials(_ master: MasterSecret) -> TencentCredentials {
        guard tencent.mode == .direct, let id = tencent.secretID, let key = tencent.secretKey else {
            return .relay(from: master)
        }
        return TencentCredentials(secretID: id, secretKey: key.exposed)
    }

    func tencentIssuer(_ master: MasterSecret) -> TencentSignatureIssuer {
        TencentSignatureIssuer(tencentCredentials(master), mode: tencentMode)
    }

    var storageDurability: UploadCore.Durability {
        switch durability {
        case .acknowledged: .acknowledged
        case .completed: .completed
        case .none: .none
        }
    }

    var uploadLimits: UploadLimits {
        UploadLimits(
            maximumBytes: limits.uploadBytes,
            lifetime: uploads.expireAfter.map { Double($0.components.seconds) },
            takeOverTimeout: uploads.takeOverTimeout,
            // State and blobs of the data directory are this process's own. In a database another node may be about to make the
            // record of a blob, and a store's is made long before its bytes are there.
            orphanAge: database.url == nil && storage == .disk ? 0 : 3600,
            quarantine: Double(uploads.quarantine.components.seconds),
            policies: [.subject: quota.subject, .key: quota.key],
            quotaPeriod: Double(quota.period.components.seconds)
        )
    }

    /// `nil` without hooks.
    func hookCaller(_ master: MasterSecret) -> HookCaller? {
        guard let url = hooks.url else { return nil }
        let settings = HookSettings(
            url: url,
            events: hooks.events,
            timeout: hooks.timeout,
            isFailOpen: hooks.onFailure == .allow,
            maximumAttempts: hooks.attempts,
            concurrency: hooks.concurrency,
            forwardedFields: hooks.forwardHeaders
        )
        // The operator chose where hooks go, and an app's backend often has a private address.
        let client = HTTPClient(userAgent: "Sluice/\(Version.current)", addresses: .any)
        return HookCaller(settings, client: client, signer: hookSigner(master))
    }

    /// Signs hooks with the configured key, or with one that is derived from each master secret.
    func hookSigner(_ master: MasterSecret) -> WebhookSigner {
        if let key = hooks.secret.flatMap({ WebhookSigner.key(in: $0.exposed) }) { return WebhookSigner(key: key) }
        let purpose = "webhooks v1"
        return WebhookSigner(
            key: master.key(for: purpose),
            others: master.each.dropFirst().map { $0.key(for: purpose) }
        )
    }

    /// `nil` if clients may name no callbacks.
    func callbackClient(
        _ master: MasterSecret,
        _ clock: any WallClock,
        onEnd: @escaping @Sendable (_ isAnswered: Bool) -> Void
    ) -> CallbackClient? {
        let hosts = object.callbackHosts.compactMap { CallbackHost($0) }
        return hosts.isEmpty ? nil : CallbackClient(hosts, signer: callbackSigner(master), clock: clock, onEnd: onEnd)
    }

    /// Signs callbacks with a key of their own: clients choose their text, which could be that of a hook.
    func callbackSigner(_ master: MasterSecret) -> WebhookSigner {
        WebhookSigner(key: master.key(for: "callbacks v1"))
    }

    /// The identity provider whose users get credentials; `nil` for none.
    func trustedIssuer(_ clock: any WallClock) -> TrustedIssuer? {
        guard let issuer = identity.issuer, let bucket = identity.bucket ?? object.buckets.first else { return nil }
        // The operator chose the provider, which is trusted with more than an address, and often has a private one.
        let client = HTTPClient(
            userAgent: "Sluice/\(Version.current)",
            maximumTransfers: 4,
            addresses: .any,
            authorities: identity.authorities
        )
        return TrustedIssuer(
            rules: IdentityTokenRules(issuer: issuer, audiences: identity.audiences),
            keys: IdentityKeys(identity.keysURL.map { .at($0) } ?? .ofIssuer(issuer), client: client, clock: clock),
            bucket: bucket,
            keyPrefix: identity.keyPrefix,
            actions: identity.actions.reduce(into: []) { $0.formUnion($1.actions) },
            maximumBytes: identity.maximumBytes,
            maximumLifetime: Double(identity.maximumLifetime.components.seconds)
        )
    }

    var pullAddresses: AddressPolicy { .publicOnly(allowing: pull.allow) }

    var pullLimits: PullLimits {
        let delay = pull.retryDelay / .seconds(1)
        return PullLimits(
            concurrency: pull.concurrency,
            attempts: pull.attempts,
            retryDelay: delay,
            longestDelay: max(600, delay)
        )
    }

    /// Who fetches, and how.
    func pullOrigin(_ client: HTTPClient, _ clock: any WallClock) -> HTTPOrigin {
        HTTPOrigin(
            client: client,
            maximumRedirects: pull.maximumRedirects,
            connectTimeout: pull.connectTimeout,
            stallTimeout: pull.timeout,
            minimumRate: Int(clamping: limits.bodyRate),
            clock: clock
        )
    }

    var corsPolicy: CORSPolicy {
        guard cors.isEnabled else { return .disabled }
        switch cors.origins {
        case .any: return CORSPolicy(origins: .any)
        case .only(let list): return CORSPolicy(origins: .only(Set(list)))
        }
    }

    /// Which pages may use buckets that have no rules of their own: those that may use the gateway.
    var bucketCORS: S3CORS? {
        guard cors.isEnabled else { return nil }
        switch cors.origins {
        case .any: return S3CORS(origins: ["*"])
        case .only(let list): return S3CORS(origins: list)
        }
    }

    var serverConfiguration: ServerConfiguration {
        var configuration = ServerConfiguration()
        configuration.head = HeadLimits(
            maximumRequestLine: limits.requestLine,
            maximumBytes: limits.headerBytes,
            maximumFields: limits.headerCount
        )
        configuration.maximumConnections = limits.connections
        configuration.headTimeout = timeouts.head
        configuration.idleTimeout = timeouts.idle
        configuration.bodyTimeout = timeouts.bodyProgress
        configuration.minimumBodyRate = limits.bodyRate
        configuration.writeTimeout = timeouts.write
        configuration.totalTimeout = timeouts.request ?? .zero
        configuration.shutdownGrace = timeouts.shutdownGrace
        return configuration
    }
}
