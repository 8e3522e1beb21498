import Bytes
import Foundation
import HTTPWire
import MetricsKit
import RESTKit
import Signing
import SluiceTesting
import Synchronization
import Testing
import Transport
import UploadCore
import UploadModel

@testable import Vimeo

@Suite("Deletions of Vimeo on a full disk", .timeLimit(.minutes(10)))
struct VimeoFreeingTests {
    /// Notes which calls may use what is kept for deletions.
    private final class Service: VimeoService {
        let freeing = Mutex<[VimeoResource]>([])

        func answer(_ resource: VimeoResource, _ call: VimeoCall) async throws(VimeoError) -> Response {
            if FreeingWork.isRunning { freeing.withLock { $0.append(resource) } }
            return Response(204)
        }
    }

    private let bench: VimeoBench
    private let service = Service()
    private let handler: VimeoAPIHandler

    init() throws {
        bench = try VimeoBench()
        let master = try #require(MasterSecret(bytes: [UInt8](repeating: 7, count: 32)))
        handler = VimeoAPIHandler(
            tokens: bench.tokens,
            authenticator: Authenticator(
                state: bench.state,
                sealer: GrantSealer(master: master),
                revoked: bench.revoked,
                clock: bench.clock
            ),
            rates: VimeoRates(perMinute: 9),
            revocations: VimeoRates(perMinute: 9),
            videos: VimeoVideoCalls(
                library: bench.library,
                uploads: bench.uploads,
                links: bench.links,
                media: MediaLinks(master: master),
                publicURL: PublicURL(configured: "https://video.example", trustedProxies: []),
                bodyLimit: 1000
            ),
            service: service,
            isDirect: false,
            cors: .disabled,
            bodyLimit: 1000,
            calls: MetricsRegistry().counters("calls", "Calls.", by: "call", "code"),
            report: { _, _ in },
            clock: bench.clock
        )
    }

    /// Sends what a listener takes for a deletion.
    private func delete(_ path: String) async throws -> Int {
        let grant = bench.tokens.grant(issuer: nil, subject: "dora", total: nil, lifetime: 3600)
        let token = bench.tokens.seal(VimeoTokens.Content(grant: grant, scopes: VimeoScope.allCases.map(\.rawValue)))
        let target = try RequestTarget(parsing: path, method: .delete)
        let head = RequestHead(method: .delete, target: target, fields: ["Authorization": "Bearer \(token)"])
        let request = Request(head: head, body: NoBody(), id: "r", peerAddress: "::1", isEncrypted: false) { _ in }
        return await FreeingWork.$isRunning.withValue(true) { await handler.respond(to: request).status.code }
    }

    @Test("that of a video may use what is kept for them, and `complete_uri`, after which the bytes stay, may not")
    func completion() async throws {
        for path in ["/videos/5", "/users/1/uploads/7", "/videos/5/pictures/6"] {
            #expect(try await delete(path) == 204)
        }
        #expect(
            service.freeing.withLock { $0 } == [.video(5), .attachment(.picture, video: 5, 6)]
        )
    }

    @Test("that of a token, which only adds a record, leaves half of it")
    func token() async throws {
        let onlyAdds = Mutex<[Bool]>([])
        bench.state.plan.before(.insertRecord) { onlyAdds.withLock { $0.append(FreeingWork.onlyAdds) } }
        #expect(try await delete("/tokens") == 204)
        #expect(onlyAdds.withLock { $0 } == [true])
    }
}

/// The content of a request without one.
private final class NoBody: RequestBody {
    var trailers: HTTPFields { HTTPFields() }
    var remaining: Int64? { 0 }
    let interrupter = ArraySource([]).interrupter

    func next(maximum: Int) async throws(SourceFailure) -> [UInt8]? { nil }
}
