import Bytes
import Foundation
import HTTPWire
import SluiceTesting
import Synchronization
import Testing
import UploadModel

@testable import VODKit
@testable import Vimeo

@Suite("Looking at videos at Vimeo", .timeLimit(.minutes(10)))
struct VimeoWatchTests {
    private let bench: VimeoBench
    private let videos: VimeoCloudVideos
    private let asked = Asked()

    init() throws {
        bench = try VimeoBench()
        videos = VimeoCloudVideos(records: bench.state, clock: bench.clock, interval: 10)
    }

    /// Which videos Vimeo was asked for.
    private final class Asked: Sendable {
        private let uris = Mutex<[String]>([])

        func add(_ uri: String) { uris.withLock { $0.append(uri) } }

        func take() -> [String] {
            uris.withLock { uris in
                defer { uris = [] }
                return uris
            }
        }
    }

    private func watch(_ answer: @escaping @Sendable (String) -> VimeoFailure?) -> VimeoWatch {
        VimeoWatch(
            videos: videos,
            document: { [asked] (uri) throws(VimeoError) in
                asked.add(uri)
                if let failure = answer(uri) { throw .refused(failure) }
                return VimeoUpstream.Document(members: ["uri": .string(uri), "status": .string("transcoding")])
            },
            delete: { _ in },
            lifetime: 86_400
        )
    }

    private func insert(_ ids: some Sequence<Int64>) async throws {
        for id in ids {
            let video = VimeoCloudVideo(
                id: id,
                subject: "dora",
                approach: .tus,
                document: "{}",
                status: "transcoding"
            )
            try await videos.insert(video)
        }
    }

    private let away = VimeoFailure(503, nil, "Vimeo is not available.", "Try again.")

    @Test("of very many videos each has its turn, also if Vimeo never answers for the first ones")
    func turns() async throws {
        try await insert(1...100)
        let away = away
        let watch = watch { _ in away }
        let failing = FailingRecords(clock: bench.clock) { _ in }
        var all: Set<String> = []
        for _ in 0..<4 {
            bench.clock.advance(by: 10)
            #expect(try await watch.look(failing))
            let uris = asked.take()
            #expect(uris.count == 30)
            all.formUnion(uris)
        }
        #expect(all.count == 100)
    }

    @Test("a mark and a video that cannot be read, and a creation that was interrupted, keep no other one waiting")
    func badRecords() async throws {
        try await insert(1...3)
        let keys = try await bench.state.records(VimeoCloudVideos.markKind, prefix: "", after: nil, limit: 10).map(
            \.key
        )
        try #require(keys.count == 3)
        for (kind, key) in [(VimeoCloudVideos.markKind, keys[0]), (VimeoCloudVideo.recordKind, keys[1])] {
            var record = try #require(try await bench.state.record(kind, key))
            record.text = "[]"
            #expect(try await bench.state.replace(record))
        }
        // Videos that are not recorded yet.
        for number in 100..<140 {
            let mark = VimeoCloudVideos.Mark(dueAt: 0)
            let now = bench.clock.now
            let record = CodedRecord(VimeoCloudVideos.markKind, "\(keys[0])-\(number)", mark, at: now, until: nil)
            #expect(try await bench.state.insert(record.record, at: now))
        }
        let watch = watch { _ in nil }
        let failing = FailingRecords(clock: bench.clock) { _ in }
        for _ in 0..<2 {
            bench.clock.advance(by: 10)
            _ = try? await watch.look(failing)
        }
        let video = try #require(try await videos.one(at: keys[2])).content
        #expect(asked.take() == [video.uri])
        #expect(failing.count == 2)
    }

    @Test("a video whose record cannot be read does not keep others from being listed")
    func list() async throws {
        try await insert(1...2)
        var record = try #require(
            try await bench.state.record(VimeoCloudVideo.recordKind, VimeoVideo.recordKey(1, of: VimeoUser("dora")))
        )
        record.text = "[]"
        #expect(try await bench.state.replace(record))
        #expect(try await videos.all(of: VimeoUser("dora")).map(\.id) == [2])
    }

    @Test("a look ends where Vimeo wants a pause, and the next one goes on with the others")
    func pause() async throws {
        try await insert(1...3)
        let watch = watch { _ in VimeoFailure(429, nil, "Too many.", "Wait.") }
        var all: [String] = []
        for _ in 0..<3 {
            bench.clock.advance(by: 10)
            try await watch.look()
            let uris = asked.take()
            #expect(uris.count == 1)
            all += uris
        }
        #expect(Set(all).count == 3)
    }
}
