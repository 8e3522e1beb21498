import Bytes
import Foundation
import SluiceTesting
import Testing
import UploadCore
import UploadModel

@testable import LiveEvents

@Suite("Event feed", .timeLimit(.minutes(10)))
struct EventFeedTests {
    private let state = InMemoryState()
    private let services: UploadServices
    private let feed: EventFeed

    init() {
        services = UploadServices(
            state: state,
            storage: InMemoryStorage(),
            clock: ManualClock(),
            limits: UploadLimits(),
            observer: RecordingObserver()
        )
        feed = EventFeed(service: services.events)
    }

    private func create(_ subject: String? = nil, length: Int64 = 10) async throws -> Upload {
        let grant = Grant(id: "key_1", issuer: "key_1", subject: subject, expiresAt: .distantFuture)
        return try await services.uploads.create(NewUpload(dialect: "tus", length: length), under: grant)
    }

    /// Lines `id: …` and `event: …` of what a listener gets, until there are `count` events.
    private func hear(
        _ id: EventFeed.ListenerID,
        _ count: Int,
        _ filter: EventFilter = EventFilter()
    ) async throws -> [String] {
        var events: [String] = []
        while events.count < count {
            switch await feed.next(id) {
            case .text(let text, _): events += names(text)
            case .behind(let after, let through):
                let page = try await services.events.events(EventQuery(after: after, through: through, limit: 10_000))
                for event in page where filter.matches(event.upload.id, event.upload.subject) {
                    if filter.kinds.contains(event.kind) { events += names(EventText.event(event)) }
                }
                feed.advance(id, to: through)
            case .quiet: break
            case .over: return events + ["over"]
            }
        }
        return events
    }

    private func names(_ text: [UInt8]) -> [String] {
        String(decoding: text, as: UTF8.self).split(separator: "\n\n").map { block in
            block.split(separator: "\n").filter { $0.hasPrefix("id: ") || $0.hasPrefix("event: ") }
                .map { String($0.drop { $0 != " " }.dropFirst()) }.joined(separator: " ")
        }
    }

    @Test("each listener gets the requested events, in order, from its position on")
    func filters() async throws {
        let alice = try await create("alice")
        _ = try await create("bob")
        let all = try await feed.open(EventFilter(), after: 0)
        let late = try await feed.open(EventFilter(), after: 2)
        let ofAlice = EventFilter(subject: "alice")
        let hers = try await feed.open(ofAlice, after: 0)
        let ofOne = EventFilter(upload: alice.id, kinds: [.terminated], hasProgress: false)
        let one = try await feed.open(ofOne, after: 0)
        _ = try await create("bob")
        try await services.uploads.terminate(alice.id)
        let expected = (1...3).map { "\($0) upload.created" } + ["4 upload.terminated"]
        #expect(try await hear(all, 4) == expected)
        #expect(try await hear(late, 2) == Array(expected[2...]))
        #expect(try await hear(hers, 2, ofAlice) == [expected[0], expected[3]])
        #expect(try await hear(one, 1, ofOne) == [expected[3]])
        for id in [all, late, hers, one] { feed.close(id) }
    }

    @Test("a listener that falls behind misses nothing and gets nothing twice")
    func behind() async throws {
        let upload = try await create()
        let slow = try await feed.open(EventFilter(), after: 0)
        let fast = try await feed.open(EventFilter(), after: 1)
        let count = 5000
        for _ in 0..<count { try await state.record(.sample(.updated, of: upload)) }
        services.events.bell.ring()
        let expected = (2...count + 1).map { "\($0) upload.updated" }
        #expect(try await hear(fast, count) == expected)
        #expect(try await hear(slow, count + 1) == ["1 upload.created"] + expected)
        for id in [slow, fast] { feed.close(id) }
    }

    @Test("a waiting listener is woken by its end, and gets nothing more")
    func end() async throws {
        let id = try await feed.open(EventFilter(), after: 0)
        async let heard = hear(id, 1)
        feed.end(id)
        #expect(try await heard == ["over"])
        feed.close(id)
        #expect(try await hear(id, 1) == ["over"])
    }

    @Test("a running upload reports progress, and nothing after its end")
    func progress() async throws {
        let upload = try await create("alice", length: 4)
        let all = try await feed.open(EventFilter(), after: 1)
        let others = try await feed.open(EventFilter(subject: "bob"), after: 1)
        let quiet = try await feed.open(EventFilter(hasProgress: false), after: 1)
        let source = ScriptedSource([.bytes([1, 2]), .stall, .bytes([3, 4])])
        let append = Task {
            try await services.uploads.append(to: upload.id, at: 0, contentLength: 4, expecting: nil, from: source)
        }
        await source.waitUntilStalled()
        var news = await feed.next(all)
        // On a slow machine there may be nothing yet at first.
        while case .quiet = news { news = await feed.next(all) }
        guard case .text(let text, false) = news else {
            Issue.record("no progress")
            return
        }
        #expect(names(text) == ["upload.progress"])
        #expect(String(decoding: text, as: UTF8.self).contains(#""length":4,"offset":2,"subject":"alice""#))
        source.proceed()
        _ = try await append.value
        let rest = try await hear(all, 1)
        #expect(rest.last == "2 upload.completed")
        #expect(try await hear(quiet, 1) == ["2 upload.completed"])
        _ = try await create("bob")
        #expect(try await hear(others, 1) == ["3 upload.created"])
        #expect(try await hear(all, 1) == ["3 upload.created"])
        for id in [all, others, quiet] { feed.close(id) }
    }

    @Test("the feed continues after a time without listeners")
    func again() async throws {
        for round in 1...3 {
            let id = try await feed.open(EventFilter(), after: Int64(round - 1))
            _ = try await create()
            #expect(try await hear(id, 1) == ["\(round) upload.created"])
            feed.close(id)
        }
    }
}
