internal import Bytes
package import CloudCredentials
package import Foundation
package import HTTPClient
internal import HTTPWire
internal import MetricsKit
package import UploadModel

/// What a store says about a bucket.
package struct BucketSurvey: Sendable {
    package let bucket: String
    package let endpoint: String
    /// Why the bucket cannot be used, in one line; `nil` if it can.
    package let problem: String?
    /// Whether the store was reached, and has no such bucket.
    package let isMissing: Bool
    /// Whether the next start creates the bucket if it is missing.
    package let isCreatedAtStart: Bool
    /// Seconds by which the store's clock is ahead of this machine's, to the second; `nil` if it does not tell.
    package let ahead: TimeInterval?

    /// Asks for each bucket.
    ///
    /// - Parameters:
    ///   - settings: Names the buckets.
    ///   - http: Sends the requests.
    ///   - credentials: Sign them.
    ///   - clock: The time of signatures.
    ///   - probes: Whether to write, read and delete a small object below the prefix of unfinished uploads.
    /// - Returns: One for each bucket, in the order of the settings.
    package static func all(
        of settings: S3Settings,
        _ http: HTTPClient,
        _ credentials: any AWSCredentialsProvider,
        clock: any WallClock,
        probes: Bool
    ) async -> [BucketSurvey] {
        let client = S3Client(
            settings,
            http: http,
            credentials: credentials,
            clock: clock,
            metrics: MetricsRegistry()
        )
        var surveys: [BucketSurvey] = []
        for bucket in [settings.bucket] + settings.otherBuckets {
            surveys.append(await BucketSurvey(bucket, settings, client, probes: probes))
        }
        return surveys
    }

    private init(_ bucket: String, _ settings: S3Settings, _ client: S3Client, probes: Bool) async {
        self.bucket = bucket
        endpoint = settings.endpoint
        isCreatedAtStart = settings.createsBucket
        var failure: S3Failure?
        var ahead: TimeInterval?
        var isFound = false
        do throws(S3Failure) {
            let begin = Date().timeIntervalSince1970.rounded(.down)
            let response = try await client.send(S3Request(method: "HEAD", bucket: bucket))
            isFound = true
            ahead = response.headers["Date"].flatMap { HTTPDate.parse($0) }.map { Double($0) - begin }
            if probes { try await Self.probe(bucket, settings, client) }
        } catch {
            failure = error
        }
        self.ahead = ahead
        problem = failure.map { "\($0)" }
        isMissing = failure?.kind == .missing && !isFound
    }

    /// Writes, reads and deletes an object.
    private static func probe(_ bucket: String, _ settings: S3Settings, _ client: S3Client) async throws(S3Failure) {
        let key = settings.tailPrefix + "probe-" + UUID().uuidString
        let bytes = Array("A file of `sluice doctor`, which can be deleted.\n".utf8)
        _ = try await client.put(key, in: bucket, bytes: bytes)
        let found: [UInt8]
        do {
            found = try await client.get(key, in: bucket).collect(limit: 4096)
        } catch let error as S3Failure {
            throw error
        } catch {
            throw S3Failure(.away, "the object that was written cannot be read: \(error)")
        }
        guard found == bytes else {
            throw S3Failure(.refused, "the object that was read is not the one that was written")
        }
        try await client.delete(key, in: bucket)
    }
}
