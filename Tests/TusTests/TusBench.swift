import Bytes
import Foundation
import HTTPWire
import SluiceTesting
import Testing
import Tus
import UploadCore
import UploadModel

/// A handler with stores in memory and a clock that stands at 2 January 2026, 03:04:05 UTC.
struct TusBench: Sendable {
    let clock = ManualClock(Date(timeIntervalSince1970: 1_767_323_045))
    let state = InMemoryState()
    let services: UploadServices
    let handler: TusHandler

    init(
        settings: TusSettings = TusSettings(),
        lifetime: TimeInterval? = 86400,
        storage: any BlobStorage = InMemoryStorage(),
        baseURL: @escaping @Sendable (Request) -> String = { _ in "https://uploads.example/files" }
    ) throws {
        services = UploadServices(
            state: state,
            storage: storage,
            clock: clock,
            limits: UploadLimits(maximumBytes: 1000, lifetime: lifetime).patient,
            observer: RecordingObserver()
        )
        handler = TusHandler(
            service: services.uploads,
            locator: try TestLocator.make(),
            grants: Self.grant,
            settings: settings,
            baseURL: baseURL
        )
    }

    private static func grant(for head: RequestHead) async throws(UploadError) -> Grant {
        var grant = Grant(id: "key_test", subject: nil, dialect: "tus", expiresAt: .distantFuture)
        switch head.fields["Authorization"] {
        case "Bearer upload-key": break
        case "Bearer small-token": grant.maximumBytes = 100
        case "Bearer image-token": grant.contentTypes = ["image/*"]
        case "Bearer one-time-token": grant.isOneTime = true
        case "Bearer read-key": throw UploadError(.forbidden(scope: "upload"), "The key lacks the scope upload.")
        case nil: throw UploadError(.unauthenticated, "Send a key.")
        default: throw .invalidCredential("This API key is unknown; send one exactly as it was created.")
        }
        return grant
    }

    // MARK: Requests

    /// Handles `METHOD path`; the path is below the root, as seen by clients.
    func respond(_ line: String, _ fields: HTTPFields, _ body: ScriptedBody = ScriptedBody(announced: 0)) async throws
        -> Response
    {
        let words = line.split(separator: " ").map(String.init)
        let target = try RequestTarget(parsing: words[1])
        return await respond(
            to: RequestHead(method: HTTPMethod(rawValue: words[0]), target: target, fields: fields),
            body
        )
    }

    func respond(to head: RequestHead, _ body: ScriptedBody) async -> Response {
        var head = head
        let whole = head.target
        // The gateway passes the segments after `/files`.
        head.target = RequestTarget(
            rawPath: whole.rawPath,
            rawQuery: whole.rawQuery,
            authority: whole.authority,
            segments: Array(whole.segments.dropFirst())
        )
        let request = Request(
            head: head,
            body: body,
            id: "req_test",
            peerAddress: "192.0.2.1",
            isEncrypted: false,
            inform: { _ throws(SinkFailure) in }
        )
        return await handler.respond(to: request)
    }

    /// Creates an upload and returns its path, `/files/{locator}`.
    func create(length: Int64) async throws -> String {
        let response = try await respond("POST /files", Self.creation(length: length))
        return try #require(response.path, "\(response.text)")
    }

    static func creation(length: Int64, _ more: HTTPFields = [:]) -> HTTPFields {
        var fields: HTTPFields = [
            "Tus-Resumable": "1.0.0", "Authorization": "Bearer upload-key", "Upload-Length": String(length),
        ]
        fields.append(contentsOf: more)
        return fields
    }

    static func append(at offset: Int64, _ more: HTTPFields = [:]) -> HTTPFields {
        var fields: HTTPFields = [
            "Tus-Resumable": "1.0.0", "Content-Type": "application/offset+octet-stream",
            "Upload-Offset": String(offset),
        ]
        fields.append(contentsOf: more)
        return fields
    }

    static let version: HTTPFields = ["Tus-Resumable": "1.0.0"]

    /// Uploads with bytes: open or complete.
    func liveUploads() async throws -> [Upload] {
        try await services.uploads.list(UploadQuery(limit: 1000)).filter { $0.state == .open || $0.state == .completed }
    }
}

extension Response {
    /// The content, if it is in memory.
    var text: String {
        if case .bytes(let bytes) = content { String(decoding: bytes, as: UTF8.self) } else { "" }
    }

    /// The path of `Location`.
    var path: String? {
        fields["Location"].flatMap { URL(string: $0)?.path() }
    }

    var offset: String? { fields["Upload-Offset"] }
}

func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }
