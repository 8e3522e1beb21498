import Bytes
import Foundation
import HTTPWire
import Signing
import SluiceTesting
import Testing
import UploadCore
import UploadModel

@testable import ObjectGrants
@testable import ObjectStore

/// The endpoint over adapters in memory, at noon, with the bucket `bucket-1`.
struct ObjectBench {
    static let administrator = SigningCredentials(accessKeyID: "SLAKKNOWN", secretAccessKey: "secret")

    let clock = ManualClock(noon)
    let issuer = CredentialIssuer(master: master(1))
    let state: FaultyState
    let services: UploadServices
    let handler: ObjectStoreHandler

    init(
        grace: TimeInterval = 0,
        publicRead: PublicRead = PublicRead(),
        cors: BucketCORS? = nil,
        callbacks: (any CallbackSender)? = nil,
        limits: UploadLimits = UploadLimits(maximumBytes: 100 << 20)
    ) async throws {
        let clock = clock
        state = FaultyState(InMemoryState(clock: clock))
        services = UploadServices(
            state: state,
            storage: InMemoryStorage(),
            clock: clock,
            limits: limits.patient,
            observer: RecordingObserver()
        )
        handler = ObjectStoreHandler(
            service: services.objects,
            uploads: MultipartUploads(uploads: services.uploads, parts: services.parts),
            endpoint: EndpointHosts(hosts: ["s3.example.org"]),
            region: "us-east-1",
            authentication: .knowing(Self.administrator, grace: grace),
            publicRead: publicRead,
            cors: { cors },
            callbacks: callbacks,
            baseURL: { "http://\($0.head.fields["Host"] ?? "s3.example.org")" },
            clock: clock
        ) { blob, range, _ in
            guard case .file(let file) = blob.content else { return .empty }
            return .file(FileRegion(file: file, offset: range.lowerBound, length: range.upperBound - range.lowerBound))
        }
        #expect(try await services.objects.createBucket("bucket-1"))
    }

    /// A grant for keys of the bucket that begin with `a/`.
    func grant(
        _ keys: ObjectGrant.Keys = .prefix("a/"),
        actions: Set<ObjectAction> = ObjectAction.upload,
        maximumBytes: Int64? = nil,
        contentTypes: [String] = [],
        isOneTime: Bool = false,
        lasting seconds: TimeInterval = 3600
    ) -> ObjectGrant {
        ObjectGrant(
            upload: Grant(
                id: "grant-\(UInt64.random(in: 0 ... .max))",
                subject: "user-1",
                maximumBytes: maximumBytes,
                contentTypes: contentTypes,
                expiresAt: clock.now.addingTimeInterval(seconds),
                isOneTime: isOneTime
            ),
            bucket: "bucket-1",
            keys: keys,
            actions: actions
        )
    }

    /// A request whose header is signed now.
    ///
    /// Its content is not; it has the length of `content` if no other is declared.
    func signed(
        _ method: String,
        _ target: String,
        _ credentials: SigningCredentials = administrator,
        _ fields: HTTPFields = [:],
        content: [UInt8] = []
    ) throws -> RequestHead {
        var fields = fields
        if fields["Content-Length"] == nil, !content.isEmpty || method == "PUT" || method == "POST" {
            fields["Content-Length"] = String(content.count)
        }
        return try s3Signed(method, target, credentials, fields: fields, payload: .unsigned, at: clock.now)
    }

    func send(_ head: RequestHead, _ content: [UInt8] = []) async -> Response {
        await handler.respond(
            to: Request(head: head, body: Body(content), id: "request-1", peerAddress: "::1", isEncrypted: false) { _ in
            }
        )
    }

    func send(
        _ method: String,
        _ target: String,
        _ credentials: SigningCredentials = administrator,
        _ fields: HTTPFields = [:],
        content: [UInt8] = []
    ) async throws -> Response {
        await send(try signed(method, target, credentials, fields, content: content), content)
    }

    /// The id of a new multipart upload.
    func begin(_ key: String, _ credentials: SigningCredentials = administrator) async throws -> String {
        let response = try await send("POST", "/bucket-1/\(key)?uploads", credentials)
        let text = try #require(response.text)
        return try #require(text.split(separator: "<UploadId>").last?.split(separator: "<").first.map { String($0) })
    }

    final class Body: RequestBody {
        private let source: ArraySource
        var trailers: HTTPFields { HTTPFields() }
        var remaining: Int64? { source.remaining }
        var interrupter: SourceInterrupter { source.interrupter }

        init(_ bytes: [UInt8]) { source = ArraySource(bytes) }

        func next(maximum: Int) async throws(SourceFailure) -> [UInt8]? { try await source.next(maximum: maximum) }
    }
}

extension Response {
    var text: String? {
        if case .bytes(let bytes) = content { String(decoding: bytes, as: UTF8.self) } else { nil }
    }

    /// Status and code of an error; the status alone of what is none.
    var outcome: String {
        trace.errorCode.map { "\(status.code) \($0)" } ?? "\(status.code)"
    }
}
