import Bytes
import Foundation
import SluiceTesting
import Testing

@testable import UploadCore
@testable import UploadModel

@Suite("Metadata, names and events of uploads", .timeLimit(.minutes(10)))
struct UploadServiceFollowingTests {
    private func kinds(_ bench: ServiceBench) async throws -> [EventRecord.Kind] {
        try await bench.services.events.events(EventQuery(after: 0)).map(\.kind)
    }

    @Test("a change of metadata applies to the media too, and is reported once")
    func edit() async throws {
        let bench = ServiceBench()
        let id = try await bench.upload(2, holding: [1, 2])
        for _ in 1...2 {
            let changed = try await bench.services.uploads.editMetadata(of: id) {
                $0.changed(by: ["filename": "b", "x": nil])
            }
            #expect(changed.metadata.values == ["filename": "b"])
        }
        #expect(try await bench.services.media.media(id).filename == "b")
        #expect(try await kinds(bench) == [.created, .completed, .updated])
    }

    @Test("metadata changed while bytes arrive is that of the media, and the writer continues")
    func editWhileWriting() async throws {
        let bench = ServiceBench()
        let id = try await bench.upload(2)
        let source = ScriptedSource([.bytes([1]), .stall, .bytes([2])])
        let append = Task { try await bench.append(source, to: id, at: 0) }
        await source.waitUntilStalled()
        let changed = try await bench.services.uploads.editMetadata(of: id) { $0.changed(by: ["filename": "late"]) }
        #expect(changed.state == .open)
        source.proceed()
        #expect(try await append.value.metadata.filename == "late")
        #expect(try await bench.services.media.media(id).filename == "late")
        #expect(try await bench.services.events.events(EventQuery(after: 0)).last?.upload.metadata.filename == "late")
    }

    @Test("concurrent edits lose nothing")
    func edits() async throws {
        let bench = ServiceBench()
        let id = try await bench.upload(2)
        try await withThrowingTaskGroup { group in
            for number in 0..<20 {
                group.addTask {
                    _ = try await bench.services.uploads.editMetadata(of: id) { $0.changed(by: ["k\(number)": "v"]) }
                }
            }
            try await group.waitForAll()
        }
        #expect(try await bench.services.uploads.inspect(id).metadata.values.count == 20)
    }

    @Test("metadata of an unknown or ended upload cannot be changed, and too much of it is refused")
    func refusals() async throws {
        let bench = ServiceBench()
        let id = try await bench.upload(2)
        let big = String(repeating: "x", count: 8000)
        #expect(
            await code { try await bench.services.uploads.editMetadata(of: id) { $0.changed(by: ["a": big]) } }
                == .invalidRequest
        )
        let over = try await bench.upload(2)
        try await bench.services.uploads.terminate(id)
        for gone in [id] {
            #expect(
                await code { try await bench.services.uploads.editMetadata(of: gone) { _ in UploadMetadata() } }
                    == .gone
            )
        }
        bench.clock.advance(by: 3600)
        #expect(
            await code { try await bench.services.uploads.editMetadata(of: over) { $0.changed(by: ["a": "b"]) } }
                == .gone
        )
        let unknown = UploadID.generate(at: bench.clock.now)
        #expect(
            await code { try await bench.services.uploads.editMetadata(of: unknown) { _ in UploadMetadata() } }
                == .notFound
        )
    }

    @Test("values that are not UTF-8 survive changes of other values")
    func binaryValues() {
        let before = UploadMetadata(raw: "bin /w==,filename YQ==,empty", values: ["filename": "a", "empty": ""])
        #expect(before.changed(by: ["filename": "a", "nothing": nil]) == before)
        let after = before.changed(by: ["filename": "b"])
        #expect(after.raw == "empty,filename Yg==,bin /w==")
        #expect(after.values == ["filename": "b", "empty": ""])
        #expect(after.changed(by: ["bin": nil]).raw == "empty,filename Yg==")
        #expect(after.changed(by: ["bin": "t"]).raw == "bin dA==,empty,filename Yg==")
        #expect(before.changed(by: ["filename": nil, "empty": nil, "bin": nil]) == UploadMetadata())
    }

    @Test("an upload is found by its id and by its name, and the id has priority")
    func identify() async throws {
        let bench = ServiceBench()
        let id = try await bench.upload(2)
        var named = Upload(
            id: UploadID.generate(at: bench.clock.now),
            alias: "holiday",
            dialect: "tus",
            subject: nil,
            principal: "key_1",
            length: 1,
            createdAt: bench.clock.now
        )
        try await bench.state.insert(named, consuming: nil)
        #expect(try await bench.services.uploads.identify(id.text) == id)
        #expect(try await bench.services.uploads.identify("holiday") == named.id)
        #expect(try await bench.services.uploads.identify("Holiday") == nil)
        let unknown = UploadID.generate(at: bench.clock.now)
        #expect(try await bench.services.uploads.identify(unknown.text) == nil)
        let first = named.id
        named = Upload(
            id: unknown,
            alias: first.text,
            dialect: "tus",
            subject: nil,
            principal: "key_1",
            length: 1,
            createdAt: bench.clock.now
        )
        try await bench.state.insert(named, consuming: nil)
        #expect(try await bench.services.uploads.identify(first.text) == first)
    }

    @Test("a returning reader learns whether events are missing")
    func keepsEvents() async throws {
        let bench = ServiceBench()
        #expect(try await bench.services.events.keepsEvents(after: 0))
        for _ in 1...3 { _ = try await bench.upload(2) }
        for sequence in 0...3 as ClosedRange<Int64> {
            #expect(try await bench.services.events.keepsEvents(after: sequence))
        }
        for sequence in [-1, 4, .max, .min] as [Int64] {
            #expect(try await !bench.services.events.keepsEvents(after: sequence))
        }
        bench.clock.advance(by: bench.limits.recordRetention + 1)
        _ = try await bench.upload(2)
        // They may be removed at any time.
        #expect(try await !bench.services.events.keepsEvents(after: 1))
        _ = await bench.services.sweep.run()
        #expect(try await !bench.services.events.keepsEvents(after: 0))
        let newest = try await bench.services.events.lastEvent()
        for sequence in [3, newest] { #expect(try await bench.services.events.keepsEvents(after: sequence)) }
    }

    @Test("the first id of a time sorts between those before it and those from then on")
    func firstID() {
        let moment = Date(timeIntervalSince1970: 1_750_000_000.123)
        let first = UploadID.first(at: moment)
        #expect(UploadID.generate(at: moment.addingTimeInterval(-0.001)).text < first.text)
        #expect(UploadID.generate(at: moment).text >= first.text)
        #expect(UploadID.first(at: .distantPast).text == String(repeating: "0", count: 26))
        #expect(UploadID.first(at: .distantFuture).text > UploadID.generate(at: moment).text)
        #expect(UploadID(first.text) == first)
    }
}
