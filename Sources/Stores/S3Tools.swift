internal import CloudCredentials
internal import Foundation
package import GatewayKit
package import HTTPClient
package import Logging
package import MetricsKit
package import S3Storage
package import SettingsKit
internal import Signing
package import SystemIO
internal import Telemetry
package import UploadModel

/// Settings converted for the S3 storage.
extension Settings {
    /// The S3 storage, after checking that the bucket exists.
    ///
    /// - Parameters:
    ///   - records: Where it records its blobs.
    ///   - client: Sends its requests.
    ///   - pool: Threads for spool files and files with credentials.
    ///   - clock: The time for signatures and expiry.
    ///   - metrics: Takes its durations and counts.
    ///   - patience: Logs while a store that cannot be reached is waited for; `nil` to fail then.
    /// - Returns: The storage, ready for use.
    /// - Throws: `StartFailure` that says what the operator has to change.
    package func s3Storage(
        records: any BlobRecords,
        client: HTTPClient,
        pool: BlockingPool,
        clock: any WallClock,
        metrics: MetricsRegistry = MetricsRegistry(),
        patience: Logger? = nil
    ) async throws(StartFailure) -> S3Storage {
        let directory = s3.spoolDirectory ?? general.dataDirectory + "/spool"
        try Self.makePrivate(directory, "spool directory")
        let store = s3Settings
        let storage = S3Storage(
            settings: store,
            records: records,
            http: client,
            credentials: try await s3Credentials(client, pool: pool, clock: clock),
            memory: Int(clamping: s3.memory),
            spool: Spool(directory: directory, capacity: s3.spool, pool: pool),
            clock: clock,
            metrics: metrics
        )
        let prepare = { () async throws(StartFailure) in
            do throws(UploadError) {
                try await storage.prepare()
            } catch {
                let reason = error.cause.map { "\($0)" } ?? error.message
                throw StartFailure(
                    "the bucket \(store.bucket) at \(store.endpoint) cannot be used: \(reason)",
                    isUnreachable: error.code == .unavailable
                )
            }
        }
        if let patience { try await waiting(for: "the store", patience, prepare) } else { try await prepare() }
        return storage
    }

    /// Asks the store for its buckets; nothing in it is changed, unless `probes` is set.
    ///
    /// - Parameters:
    ///   - probes: Whether to write, read and delete a small object.
    ///   - clock: The time for signatures.
    /// - Returns: One for each bucket, in the order of the settings.
    /// - Throws: `StartFailure` if there are no credentials.
    package func surveyStore(probes: Bool, clock: any WallClock) async throws(StartFailure) -> [BucketSurvey] {
        let client = s3Client
        defer { client.close() }
        var store = s3Settings
        // Nobody wants to wait for a diagnosis; a gateway repeats its requests for longer.
        store.retryTime = .seconds(3)
        let credentials = try await s3Credentials(
            client,
            pool: BlockingPool(threads: 1, label: "sluice.block"),
            clock: clock
        )
        return await BucketSurvey.all(of: store, client, credentials, clock: clock, probes: probes)
    }

    /// Buckets that a token may name.
    package var buckets: [String] {
        guard general.storage == .s3, let bucket = s3.bucket else { return [] }
        return [bucket] + s3.otherBuckets
    }

    /// The client for the store.
    ///
    /// Any address is allowed, because the operator chose it and it is often private.
    package var s3Client: HTTPClient {
        HTTPClient(
            userAgent: "Sluice/\(Version.current)",
            purpose: "store",
            maximumTransfers: 1024,
            keptConnections: 256,
            maximumThreads: HTTPClient.threadsForContent,
            addresses: .any,
            authorities: s3.authorities,
            proxy: s3.proxy?.exposed
        )
    }

    private var s3Settings: S3Settings {
        var settings = S3Settings(
            endpoint: s3.endpoint ?? AWSService.url("s3", region: s3.region),
            region: s3.region,
            bucket: s3.bucket ?? ""
        )
        settings.otherBuckets = s3.otherBuckets
        settings.isPathStyle = s3.isPathStyle
        settings.createsBucket = s3.createsBucket
        settings.keys = s3.key
        settings.tailPrefix = s3.tailPrefix
        settings.storageClass = s3.storageClass
        settings.encryption =
            switch s3.encryption {
            case .none: nil
            case .aes256: .store
            case .kms: .kms(keyID: s3.encryptionKey)
            }
        settings.partSize = s3.partSize
        settings.maximumParts = s3.maximumParts
        settings.needsEqualParts = s3.needsEqualParts
        settings.checksTags = s3.checksTags
        settings.sendsContentMD5 = s3.sendsContentMD5
        settings.parallelParts = s3.parallelParts
        settings.retryTime = s3.retryTime
        settings.stallTimeout = s3.stallTimeout
        settings.completionWait = s3.completionWait
        settings.redirectLifetime = s3.redirectFor?.components.seconds
        return settings
    }

    /// The configured key pair, or the credentials that AWS's tools would use.
    ///
    /// They are fetched once, so that a start without any fails at once.
    private func s3Credentials(
        _ client: HTTPClient,
        pool: BlockingPool,
        clock: any WallClock
    ) async throws(StartFailure) -> any AWSCredentialsProvider {
        if let id = s3.accessKeyID, let secret = s3.secretAccessKey {
            return StaticCredentials(SigningCredentials(accessKeyID: id, secretAccessKey: secret.exposed))
        }
        let credentials = RefreshingCredentials(
            Self.credentialsChain(region: s3.region, client, pool: pool),
            clock: clock
        )
        do throws(CredentialsError) {
            _ = try await credentials.credentials()
        } catch {
            throw StartFailure("there are no credentials for the store (s3.accessKeyId is not set either): \(error)")
        }
        return credentials
    }
}
