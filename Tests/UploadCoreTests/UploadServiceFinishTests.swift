import Bytes
import Foundation
import SluiceTesting
import Testing

@testable import UploadCore
@testable import UploadModel

@Suite("Finishing uploads", .timeLimit(.minutes(10)))
struct UploadServiceFinishTests {
    private func create(_ bench: ServiceBench, length: Int64? = nil) async throws -> UploadID {
        let new = NewUpload(dialect: "http", length: length, completesWhenFull: false)
        return try await bench.services.uploads.create(new, under: bench.grant()).id
    }

    private func append(
        _ bytes: [UInt8],
        to id: UploadID,
        at offset: Int64,
        isLast: Bool,
        declaring length: Int64? = nil,
        announced: Bool = true,
        _ bench: ServiceBench
    ) async throws(UploadError) -> Upload {
        try await bench.services.uploads.append(
            to: id,
            at: offset,
            contentLength: announced ? Int64(bytes.count) : nil,
            declaring: length,
            finish: .explicit(isLast: isLast),
            expecting: nil,
            from: ScriptedSource(bytes.isEmpty ? [] : [.bytes(bytes)], isLengthKnown: announced)
        )
    }

    @Test(
        "a full upload stays open until a request completes it, also after a crash",
        arguments: [false, true]
    )
    func completesOnlyWhenFlagged(isAnnounced: Bool) async throws {
        let bench = ServiceBench()
        let id = try await create(bench, length: 3)
        #expect(try await append([1, 2, 3], to: id, at: 0, isLast: false, bench).state == .open)
        #expect(try await bench.services.uploads.status(of: id, .explicit(isLast: false)).state == .open)
        #expect(await bench.services.sweep.run().completed == 0)
        let services = bench.restarted()
        #expect(await services.sweep.run().completed == 0)
        let upload = try await append([], to: id, at: 3, isLast: true, announced: isAnnounced, bench)
        #expect(upload.state == .completed)
        #expect(await code { try await append([], to: id, at: 3, isLast: true, bench) } == .notOpen)
    }

    @Test("a client that completes full uploads completes one that was not created for it")
    func whenFull() async throws {
        let bench = ServiceBench()
        let id = try await create(bench, length: 3)
        _ = try await append([1, 2, 3], to: id, at: 0, isLast: false, bench)
        #expect(try await bench.services.uploads.status(of: id, .whenFull).state == .completed)
    }

    @Test("the last request ends the upload where its content ends", arguments: [false, true])
    func unknownLength(isAnnounced: Bool) async throws {
        let bench = ServiceBench()
        let id = try await create(bench)
        _ = try await append([1, 2], to: id, at: 0, isLast: false, bench)
        let upload = try await append([3], to: id, at: 2, isLast: true, announced: isAnnounced, bench)
        #expect(upload.state == .completed)
        #expect(upload.length == 3)
    }

    @Test("an end that contradicts the length is refused, before a byte is read if that can be known")
    func conflicts() async throws {
        let bench = ServiceBench()
        let id = try await create(bench, length: 5)
        #expect(
            await code { try await append([1, 2], to: id, at: 0, isLast: true, bench) } == .lengthConflict(length: 5)
        )
        #expect(try await bench.services.uploads.inspect(id).offset == 0)
        let result = await code { try await append([1, 2], to: id, at: 0, isLast: true, announced: false, bench) }
        #expect(result == .lengthConflict(length: 5))
        // The bytes received are kept.
        #expect(try await bench.services.uploads.inspect(id).offset == 2)
        let contradiction = await code { try await append([3], to: id, at: 2, isLast: true, declaring: 9, bench) }
        #expect(contradiction == .lengthConflict(length: 9))
        #expect(try await append([3, 4, 5], to: id, at: 2, isLast: true, bench).state == .completed)
    }

    @Test("interrupted content does not complete the upload")
    func brokenOff() async throws {
        let bench = ServiceBench()
        let id = try await create(bench)
        let source = ScriptedSource([.bytes([1, 2]), .fail(.disconnected)])
        let result = await code {
            try await bench.services.uploads.append(
                to: id,
                at: 0,
                contentLength: nil,
                finish: .explicit(isLast: true),
                expecting: nil,
                from: source
            )
        }
        #expect(result == .disconnected)
        #expect(try await bench.services.uploads.status(of: id, .explicit(isLast: false)).offset == 2)
    }

    @Test("wherever the process dies, an upload is completed once, and only on request")
    func everyPoint() async throws {
        var point = 0
        while true {
            let bench = ServiceBench()
            bench.fuse.burn(afterCalls: point)
            var id: UploadID?
            var acknowledged: Int64 = 0
            var isFinished = false
            do {
                let made = try await create(bench)
                id = made
                acknowledged = try await append([1, 2, 3], to: made, at: 0, isLast: false, bench).offset
                _ = try await append([4], to: made, at: 3, isLast: true, bench)
                isFinished = true
            } catch {
                // The process died: the client stops.
            }
            let services = bench.restarted()
            #expect(await services.sweep.run().failures == 0, "died after \(point) calls")
            if let id {
                let upload = try await services.uploads.status(of: id, .explicit(isLast: false))
                #expect(upload.offset >= acknowledged, "died after \(point) calls")
                if upload.state == .open {
                    let rest = ArraySource(Array(([1, 2, 3, 4] as [UInt8])[Int(upload.offset)...]))
                    let end = try await services.uploads.append(
                        to: id,
                        at: upload.offset,
                        contentLength: rest.remaining,
                        finish: .explicit(isLast: true),
                        expecting: nil,
                        from: rest
                    )
                    #expect(end.state == .completed, "died after \(point) calls")
                }
                #expect(try await bench.contents(of: id) == [1, 2, 3, 4], "died after \(point) calls")
                #expect(try await services.media.media(id).size == 4)
                let completions = bench.observer.events.count { event in
                    if case .completed = event { true } else { false }
                }
                #expect(completions <= 1, "died after \(point) calls")
            }
            if isFinished { break }
            point += 1
        }
        #expect(point > 8)
    }

    @Test("content beyond the length does not complete an upload that needs an explicit end", arguments: [false, true])
    func tooMuch(completesWhenFull: Bool) async throws {
        let bench = ServiceBench()
        let new = NewUpload(dialect: "http", length: 3, completesWhenFull: completesWhenFull)
        let id = try await bench.services.uploads.create(new, under: bench.grant()).id
        let result = await code {
            try await append([1, 2, 3, 4], to: id, at: 0, isLast: false, announced: false, bench)
        }
        #expect(result == .lengthExceeded(length: 3))
        #expect(try await bench.services.uploads.inspect(id).state == .open)
        #expect(await code { try await bench.services.media.media(id) } == .notFound)
    }

    @Test("a segment of a source leaves the rest, and shows whether the source has ended")
    func segments() async throws {
        let source = ScriptedSource([.bytes([1]), .bytes([2])])
        let first = SourceSegment(of: source, seconds: 60, isFast: false)
        #expect(try await first.next(maximum: 9) == [1])
        let over = SourceSegment(of: source, seconds: 0, isFast: false)
        #expect(try await over.next(maximum: 9) == nil)
        #expect(!over.hasSourceEnded)
        let last = SourceSegment(of: source, seconds: 60, isFast: false)
        #expect(try await last.next(maximum: 9) == [2])
        #expect(!last.hasSourceEnded)
        #expect(try await last.next(maximum: 9) == nil)
        #expect(last.hasSourceEnded)
    }
}
