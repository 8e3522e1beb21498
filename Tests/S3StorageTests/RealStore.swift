import Bytes
import CloudCredentials
import Foundation
import HTTPClient
import Signing
import SluiceTesting
import SystemIO
import UploadModel

@testable import S3Storage

/// An S3-compatible store configured by the environment: SLUICE_TEST_S3_ENDPOINT, _ACCESS_KEY_ID and _SECRET_ACCESS_KEY
/// (`scripts/test` starts one).
enum RealStore {
    private static let environment = ProcessInfo.processInfo.environment

    static var isThere: Bool { environment["SLUICE_TEST_S3_ENDPOINT"] != nil }
    static let missing = "SLUICE_TEST_S3_ENDPOINT names no store; scripts/test starts one"

    static let http = HTTPClient(userAgent: "sluice-tests", addresses: .any)
    static let pool = BlockingPool(threads: 2, label: "test")

    /// A storage with its own bucket.
    static func storage(
        memory: Int = 64 << 20,
        spool: Int64 = 1 << 30,
        records: any BlobRecords = InMemoryBlobRecords(),
        bucket: String = "test-" + String(UInt32.random(in: 0 ... .max)),
        _ change: (inout S3Settings) -> Void = { _ in }
    ) async throws -> S3Storage {
        var settings = S3Settings(
            endpoint: environment["SLUICE_TEST_S3_ENDPOINT"] ?? "",
            region: "us-east-1",
            bucket: bucket
        )
        settings.isPathStyle = true
        settings.createsBucket = true
        // The machine may stand still; tests that are about the wait set it.
        settings.completionWait = .seconds(600)
        change(&settings)
        let storage = S3Storage(
            settings: settings,
            records: records,
            http: http,
            credentials: StaticCredentials(
                SigningCredentials(
                    accessKeyID: environment["SLUICE_TEST_S3_ACCESS_KEY_ID"] ?? "",
                    secretAccessKey: environment["SLUICE_TEST_S3_SECRET_ACCESS_KEY"] ?? ""
                )
            ),
            memory: memory,
            spool: Spool(directory: FileManager.default.temporaryDirectory.path, capacity: spool, pool: pool),
            clock: SystemClock()
        )
        try await storage.prepare()
        return storage
    }
}
