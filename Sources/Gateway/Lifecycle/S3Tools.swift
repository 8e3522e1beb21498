internal import CloudCredentials
internal import Foundation
internal import HTTPClient
internal import S3Storage
internal import Signing
internal import Transport
internal import UploadCore

/// What the storage in an S3-compatible store gets of the settings.
extension Settings {
    /// The store's storage, with its bucket looked for.
    ///
    /// - Throws: What the operator has to change.
    func s3Storage(
        records: any BlobRecords,
        client: HTTPClient,
        pool: BlockingPool,
        clock: any WallClock
    ) async throws(StartFailure) -> S3Storage {
        let directory = s3.spoolDirectory ?? dataDirectory + "/spool"
        try Self.makePrivate(directory, "spool directory")
        let store = s3Settings
        let storage = S3Storage(
            settings: store,
            records: records,
            http: client,
            credentials: try await s3Credentials(client, pool: pool, clock: clock),
            memory: Int(clamping: s3.memory),
            spool: Spool(directory: directory, capacity: s3.spool, pool: pool),
            clock: clock
        )
        do throws(UploadError) {
            try await storage.prepare()
        } catch {
            let reason = error.cause.map { "\($0)" } ?? error.message
            throw StartFailure("the bucket \(store.bucket) at \(store.endpoint) can not be used: \(reason)")
        }
        return storage
    }

    /// Buckets that a token may name.
    var buckets: [String] {
        guard storage == .s3, let bucket = s3.bucket else { return [] }
        return [bucket] + s3.otherBuckets
    }

    /// Sends to the store; the operator chose it, and it often has a private address.
    var s3Client: HTTPClient {
        HTTPClient(
            userAgent: "Sluice/\(Version.current)",
            maximumTransfers: 1024,
            keptConnections: 256,
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
        settings.sidePrefix = s3.sidePrefix
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

    /// The pair of the settings, or what AWS's tools would find; fetched once, so that a start without any fails at once.
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

    /// Where AWS's tools would find credentials.
    ///
    /// - Parameters:
    ///   - region: For AWS's token service where the environment names none.
    ///   - client: Asks that service.
    ///   - pool: Reads files.
    /// - Returns: The places, nothing of which was looked at.
    static func credentialsChain(region: String, _ client: HTTPClient, pool: BlockingPool) -> CredentialsChain {
        let environment = ProcessInfo.processInfo.environment
        return CredentialsChain(
            environment: environment,
            home: environment["HOME"] ?? FileManager.default.homeDirectoryForCurrentUser.path,
            region: region,
            // What is on this machine is not behind a proxy.
            machine: HTTPClient(userAgent: "Sluice/\(Version.current)", addresses: .any),
            cloud: client,
            pool: pool
        )
    }
}
