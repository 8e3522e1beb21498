import Bytes
import Forms
import Foundation
import HTTPWire
import SluiceTesting
import Testing
import UploadCore
import UploadModel

/// A form handler over adapters in memory that can fail on demand.
struct FormBench {
    let state = FaultyState(InMemoryState())
    let storage = FaultyStorage(InMemoryStorage())
    let services: UploadServices
    var limits = FormLimits()
    var grant: Grant

    static let boundary = "----b"

    init(maximumBytes: Int64 = 1_000_000, contentTypes: [String] = [], isOneTime: Bool = false) {
        let clock = ManualClock()
        services = UploadServices(
            state: state,
            storage: storage,
            clock: clock,
            limits: UploadLimits(maximumBytes: maximumBytes).patient,
            observer: RecordingObserver()
        )
        grant = Grant(
            id: "grant_1",
            subject: "alice",
            contentTypes: contentTypes,
            expiresAt: clock.now.addingTimeInterval(600),
            isOneTime: isOneTime
        )
    }

    static func part(_ head: String, _ content: String) -> String {
        "--\(boundary)\r\nContent-Disposition: form-data; \(head)\r\n\r\n\(content)\r\n"
    }

    static func text(_ name: String, _ value: String) -> String { part("name=\"\(name)\"", value) }

    static func file(_ name: String, _ filename: String, _ content: String, type: String? = nil) -> String {
        part("name=\"\(name)\"; filename=\"\(filename)\"" + (type.map { "\r\nContent-Type: \($0)" } ?? ""), content)
    }

    static let end = "--\(boundary)--\r\n"

    /// The outcome of a form whose content arrives in steps; the valid credential is `good`.
    func send(_ steps: [ScriptedSource.Step], authorization: String? = "Bearer good") async -> FormOutcome {
        var fields: HTTPFields = ["Content-Type": "multipart/form-data; boundary=\(Self.boundary)"]
        if let authorization { fields["Authorization"] = authorization }
        return await send(steps, fields)
    }

    func send(_ steps: [ScriptedSource.Step], _ fields: HTTPFields) async -> FormOutcome {
        let reported = Reported()
        let handler = FormHandler(
            service: services.uploads,
            limits: limits,
            grants: { [grant] authorization throws(UploadError) in
                guard authorization == "Bearer good" || authorization == "Bearer slg_good" else {
                    throw UploadError(.unauthenticated, "bad")
                }
                return grant
            },
            response: { outcome, _ in
                reported.outcome = outcome
                return Response(200)
            }
        )
        let head = RequestHead(
            method: .post,
            target: RequestTarget(rawPath: "/files", rawQuery: nil, authority: nil, segments: ["files"]),
            fields: fields
        )
        let request = Request(
            head: head,
            body: FormBody(ScriptedSource(steps)),
            id: "r",
            peerAddress: "127.0.0.1",
            isEncrypted: false,
            inform: { _ in }
        )
        _ = await handler.respond(to: request)
        return reported.outcome
    }

    func contents(_ media: Media) async throws -> String {
        String(decoding: try await BlobStorageContract.contents(of: media.id, in: storage), as: UTF8.self)
    }

    func uploads(_ state: Upload.State) async throws -> Int {
        try await services.uploads.list(UploadQuery(states: [state])).count
    }
}

/// Written by the task that later reads it.
private final class Reported: @unchecked Sendable {
    var outcome = FormOutcome()
}

private final class FormBody: RequestBody {
    private let source: ScriptedSource
    let trailers = HTTPFields()

    init(_ source: ScriptedSource) { self.source = source }

    var remaining: Int64? { source.remaining }
    var interrupter: SourceInterrupter { source.interrupter }

    func next(maximum: Int) async throws(SourceFailure) -> [UInt8]? { try await source.next(maximum: maximum) }
}

extension ScriptedSource.Step {
    static func text(_ text: String) -> Self { .bytes(Array(text.utf8)) }
}
