import Bytes
import CloudCredentials
import Digests
import Foundation
import HTTPClient
import MetricsKit
import Signing
import SluiceTesting
import Synchronization
import SystemIO
import UploadModel

@testable import S3Storage

/// A store that keeps objects in memory and can be delayed, which real ones cannot.
final class FakeStore: Sendable {
    struct Object: Sendable {
        var body: String
        var owner: String?
        var tag: String { "\"" + Hexadecimal.encode(Digest.hash(Array(body.utf8), .md5)) + "\"" }
    }

    private final class Contents: Sendable {
        let objects = Mutex<[String: Object]>([:])
        /// Awaited before a response, by method and path.
        let before = Mutex<(@Sendable (String, String) async -> Void)?>(nil)
        let comparesTags = Mutex(false)
    }

    private let contents = Contents()
    private let server: TestServer
    private let http = HTTPClient(userAgent: "sluice-tests", maximumTransfers: 64, addresses: .any)

    init() throws {
        let contents = contents
        server = try TestServer { call, _ in
            if let before = contents.before.withLock({ $0 }) { await before(call.method, call.path) }
            let key = String(call.path.dropFirst("/bucket/".count)).removingPercentEncoding ?? ""
            return contents.objects.withLock { objects in
                switch (call.method, key) {
                case ("HEAD", ""): return TestServer.Reply(200)
                case ("PUT", _):
                    let object = Object(body: call.body, owner: call.field("x-amz-meta-sluice-upload"))
                    objects[key] = object
                    return TestServer.Reply(200, "", [("ETag", object.tag)])
                case ("DELETE", _):
                    let tag = call.field("If-Match")
                    if contents.comparesTags.withLock({ $0 }), let tag, tag != objects[key]?.tag {
                        return TestServer.Reply(412)
                    }
                    objects[key] = nil
                    return TestServer.Reply(204)
                case ("GET", ""):
                    let prefix = call.query.split(separator: "&").first { $0.hasPrefix("prefix=") }?.dropFirst(7) ?? ""
                    let wanted = prefix.removingPercentEncoding ?? ""
                    let contents = objects.keys.sorted().filter { $0.hasPrefix(wanted) }.map { key in
                        "<Contents><Key>\(key)</Key><LastModified>2025-06-15T00:00:00.000Z</LastModified></Contents>"
                    }
                    return TestServer.Reply(200, "<ListBucketResult>\(contents.joined())</ListBucketResult>")
                default:
                    guard let object = objects[key] else { return TestServer.Reply(404) }
                    let owner = object.owner.map { [("x-amz-meta-sluice-upload", $0)] } ?? []
                    // Tests always read whole objects.
                    let status = call.field("Range") == nil ? 200 : 206
                    return TestServer.Reply(status, object.body, [("ETag", object.tag)] + owner)
                }
            }
        }
    }

    var objects: [String: Object] { contents.objects.withLock { $0 } }

    func put(_ body: String, at key: String, owner: UploadID?) {
        contents.objects.withLock { $0[key] = Object(body: body, owner: owner?.text) }
    }

    func before(_ work: (@Sendable (_ method: String, _ path: String) async -> Void)?) {
        contents.before.withLock { $0 = work }
    }

    func compareTags() { contents.comparesTags.withLock { $0 = true } }

    func storage(
        _ records: any BlobRecords = InMemoryBlobRecords(),
        memory: Int = 64 << 20,
        pool: BlockingPool = BlockingPool(threads: 1, label: "test"),
        metrics: MetricsRegistry = MetricsRegistry()
    ) -> S3Storage {
        var settings = S3Settings(endpoint: server.url, region: "us-east-1", bucket: "bucket")
        settings.isPathStyle = true
        // Longer than any delay on a slow machine.
        settings.retryTime = .seconds(600)
        settings.completionWait = .seconds(600)
        return S3Storage(
            settings: settings,
            records: records,
            http: http,
            credentials: StaticCredentials(SigningCredentials(accessKeyID: "AKIA1", secretAccessKey: "secret")),
            memory: memory,
            spool: Spool(
                directory: FileManager.default.temporaryDirectory.path,
                capacity: 0,
                pool: pool
            ),
            clock: SystemClock(),
            metrics: metrics
        )
    }

    func shutDown() async {
        await server.shutDown()
        // It may hold this store.
        before(nil)
        http.close()
    }
}
