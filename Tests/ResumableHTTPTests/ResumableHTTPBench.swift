import Bytes
import Foundation
import HTTPWire
import ResumableHTTP
import Signing
import SluiceTesting
import Synchronization
import Testing
import UploadCore
import UploadModel

/// A handler with stores in memory and a clock that stands at 2 January 2026, 03:04:05 UTC.
struct ResumableHTTPBench: Sendable {
    let clock = ManualClock(Date(timeIntervalSince1970: 1_767_323_045))
    let services: UploadServices
    let handler: ResumableHTTPHandler
    /// The interim responses that were sent.
    let interim = Interim()

    final class Interim: Sendable {
        private let heads = Mutex<[ResponseHead]>([])
        var all: [ResponseHead] { heads.withLock { $0 } }
        func add(_ head: ResponseHead) { heads.withLock { $0.append(head) } }
    }

    init(canInform: Bool = true) throws {
        services = UploadServices(
            state: InMemoryState(),
            storage: InMemoryStorage(),
            clock: clock,
            limits: UploadLimits(maximumBytes: 1000, lifetime: 86400).patient,
            observer: RecordingObserver()
        )
        handler = ResumableHTTPHandler(
            service: services.uploads,
            media: services.media,
            locator: UploadLocator(master: try #require(MasterSecret(bytes: [UInt8](repeating: 7, count: 32)))),
            grants: Self.grant,
            metadata: { _ throws(UploadError) in UploadMetadata() },
            uploadsURL: { _ in "https://uploads.example/files" },
            canInform: { _ in canInform },
            target: { upload, _ in Response(201, ["X-State": "\(upload.state)"]) }
        )
    }

    private static func grant(for head: RequestHead) async throws(UploadError) -> Grant {
        guard head.fields["Authorization"] == "Bearer key" else { throw UploadError(.unauthenticated, "Send a key.") }
        return Grant(id: "key_test", subject: nil, dialect: "http", expiresAt: .distantFuture)
    }

    /// Sends a request, with the key unless it has another one; `upload` is the last segment of an upload URL.
    func respond(
        _ method: HTTPMethod,
        upload: String? = nil,
        _ fields: HTTPFields = [:],
        _ content: String = ""
    ) async throws -> Response {
        var all = fields
        if !all.contains("Authorization") { all["Authorization"] = "Bearer key" }
        let target = try RequestTarget(parsing: "/files" + (upload.map { "/" + $0 } ?? ""))
        let bytes = Array(content.utf8)
        let request = Request(
            head: RequestHead(method: method, target: target, fields: all),
            body: BytesBody(bytes, announced: Int64(bytes.count)),
            id: "req_test",
            peerAddress: "192.0.2.1",
            isEncrypted: false,
            inform: { [interim] head throws(SinkFailure) in interim.add(head) }
        )
        return await handler.respond(to: request, upload: upload)
    }

    /// Creates an empty, open upload, and returns the last segment of its URL.
    func create(_ version: Int? = nil, length: Int64? = nil) async throws -> String {
        var fields = Self.fields(version, isLast: false)
        if let length { fields["Upload-Length"] = String(length) }
        let response = try await respond(.post, fields)
        #expect(response.status == 201)
        return String(try #require(response.fields["Location"]?.split(separator: "/").last))
    }

    /// The fields for a version and a completeness.
    static func fields(_ version: Int?, isLast: Bool, _ more: HTTPFields = [:]) -> HTTPFields {
        var fields: HTTPFields = [:]
        if let version { fields["Upload-Draft-Interop-Version"] = String(version) }
        if version == 3 {
            fields["Upload-Incomplete"] = isLast ? "?0" : "?1"
        } else {
            fields["Upload-Complete"] = isLast ? "?1" : "?0"
        }
        fields.append(contentsOf: more)
        return fields
    }

    static func append(_ version: Int?, at offset: Int64, isLast: Bool, _ more: HTTPFields = [:]) -> HTTPFields {
        var fields = fields(version, isLast: isLast, more)
        fields["Content-Type"] = "application/partial-upload"
        fields["Upload-Offset"] = String(offset)
        return fields
    }
}

/// Request content that is complete from the start.
final class BytesBody: RequestBody {
    private var bytes: [UInt8]?
    private let announced: Int64?
    private var delivered: Int64 = 0
    let trailers = HTTPFields()
    let interrupter = SourceInterrupter { _ in }

    init(_ bytes: [UInt8], announced: Int64?) {
        self.bytes = bytes.isEmpty ? nil : bytes
        self.announced = announced
    }

    var remaining: Int64? { announced.map { $0 - delivered } }

    func next(maximum: Int) async throws(SourceFailure) -> [UInt8]? {
        guard let all = bytes else {
            if let remaining, remaining > 0 { throw .disconnected }
            return nil
        }
        let piece = Array(all.prefix(maximum))
        bytes = piece.count == all.count ? nil : Array(all.dropFirst(maximum))
        delivered += Int64(piece.count)
        return piece
    }
}

extension Response {
    /// The problem document.
    var problem: [String: Any] {
        get throws {
            guard case .bytes(let bytes) = content else { return [:] }
            return try #require(try JSONSerialization.jsonObject(with: Data(bytes)) as? [String: Any])
        }
    }
}
