import Bytes
import Digests
import Foundation
import SluiceTesting
import Synchronization
import Testing

@testable import UploadCore
@testable import UploadModel

@Suite("Appending", .timeLimit(.minutes(10)))
struct UploadServiceAppendTests {
    @Test("bytes are appended until the upload is complete")
    func append() async throws {
        let bench = ServiceBench()
        let id = try await bench.upload(10)
        let first = try await bench.append([1, 2, 3], to: id, at: 0)
        #expect(first.offset == 3)
        #expect(first.state == .open)
        bench.clock.advance(by: 5)
        let last = try await bench.append([4, 5, 6, 7, 8, 9, 10], to: id, at: 3)
        #expect(last.offset == 10)
        #expect(last.state == .completed)
        #expect(last.expiresAt == nil)
        #expect(last.endedAt == bench.clock.now)
        #expect(try await bench.services.uploads.inspect(id) == last)
        #expect(try await bench.contents(of: id) == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
        #expect(bench.observer.story == ["created", "appended 3", "appended 7", "completed"])
    }

    @Test("the storage knows for whom it stores, because users have shares of its memory")
    func users() async throws {
        let bench = ServiceBench()
        let users = Mutex<[SubjectName?]>([])
        for step in [.append, .synchronize, .copy, .storePart] as [FaultyStorage.Operation] {
            bench.storage.plan.before(step) { users.withLock { $0.append(StorageUser.current) } }
        }
        // Small contents of a known length take another way, in which nothing is kept in memory.
        _ = try await bench.services.uploads.append(
            to: try await bench.upload(3),
            at: 0,
            contentLength: nil,
            expecting: nil,
            from: ArraySource([1, 2, 3])
        )
        try await bench.put([1, 2], part: 1, of: try await bench.begin())
        let partial = NewUpload(dialect: "tus", length: 1, concatenation: Concatenation(.partial, raw: "partial"))
        let part = try await bench.services.uploads.create(partial, under: bench.grant()).id
        try await bench.append([1], to: part, at: 0)
        let concatenation = Concatenation(.final(parts: [part]), raw: "final;…")
        let final = NewUpload(dialect: "tus", length: nil, concatenation: concatenation)
        _ = try await bench.services.uploads.create(final, under: bench.grant())
        #expect(users.withLock { $0 } == [SubjectName?](repeating: SubjectName("alice"), count: 4))
    }

    @Test("a caller that looks repeatedly sees each append once, also those that ended meanwhile")
    func look() async throws {
        let bench = ServiceBench()
        let id = try await bench.upload(10)
        #expect(bench.services.events.lookAtAppends().isEmpty)
        try await bench.append([1, 2, 3], to: id, at: 0)
        #expect(bench.services.events.lookAtAppends().map(\.upload.id) == [id])
        #expect(bench.services.events.lookAtAppends().isEmpty)
    }

    @Test("the media of a complete upload has its metadata")
    func media() async throws {
        let bench = ServiceBench()
        let values = ["filename": "a.mp4", "filetype": "video/mp4", "x": "y"]
        let new = NewUpload(dialect: "tus", length: 2, metadata: UploadMetadata(values: values))
        let id = try await bench.services.uploads.create(new, under: bench.grant()).id
        #expect(await code { try await bench.services.media.media(id) } == .notFound)
        try await bench.append([1, 2], to: id, at: 0)
        let (media, blob) = try await bench.services.media.open(id)
        #expect(media == (try await bench.services.media.media(id)))
        #expect(media.size == 2)
        #expect(media.subject == "alice")
        #expect(media.filename == "a.mp4")
        #expect(media.contentType == "video/mp4")
        #expect(media.metadata == values)
        #expect(blob.size == 2)
    }

    @Test(
        "an offset that is not the upload's is refused with the right one, and no byte is read",
        arguments: [0, 2, 4, -1]
    )
    func wrongOffset(offset: Int64) async throws {
        let bench = ServiceBench()
        let id = try await bench.upload(10, holding: [1, 2, 3])
        let source = ScriptedSource([.bytes([9])], isLengthKnown: true)
        let result = await code { try await bench.append(source, to: id, at: offset) }
        #expect(result == .offsetMismatch(expected: 3))
        #expect(source.unread == 1)
    }

    @Test("a body announced to be too long is refused before a byte is read")
    func announcedTooLong() async throws {
        let bench = ServiceBench()
        let id = try await bench.upload(5, holding: [1, 2, 3])
        let source = ScriptedSource([.bytes([4, 5, 6])], isLengthKnown: true)
        let result = await code { try await bench.append(source, to: id, at: 3) }
        #expect(result == .lengthExceeded(length: 5))
        #expect(source.unread == 3)
        #expect(try await bench.services.uploads.status(of: id).offset == 3)
    }

    @Test("a body without announced length that is too long completes the upload and is refused")
    func unannouncedTooLong() async throws {
        let bench = ServiceBench()
        let id = try await bench.upload(5, holding: [1, 2, 3])
        let source = ScriptedSource([.bytes([4, 5, 6])])
        let result = await code { try await bench.append(source, to: id, at: 3) }
        #expect(result == .lengthExceeded(length: 5))
        #expect(try await bench.services.uploads.status(of: id).state == .completed)
        #expect(try await bench.contents(of: id) == [1, 2, 3, 4, 5])
    }

    @Test("a body without announced length that ends at the end of the upload is accepted")
    func unannouncedExact() async throws {
        let bench = ServiceBench()
        let id = try await bench.upload(5)
        let upload = try await bench.append(ScriptedSource([.bytes([1, 2]), .bytes([3, 4, 5])]), to: id, at: 0)
        #expect(upload.state == .completed)
    }

    @Test("an upload is complete before it is known whether its body continues")
    func completeBeforeExcess() async throws {
        let bench = ServiceBench()
        let id = try await bench.upload(2)
        let source = ScriptedSource([.bytes([1, 2]), .stall, .bytes([3])])
        async let appending = code { try await bench.append(source, to: id, at: 0) }
        await source.waitUntilStalled()
        #expect(try await bench.services.uploads.inspect(id).state == .completed)
        source.proceed()
        #expect(await appending == .lengthExceeded(length: 2))
    }

    @Test("appending nothing at the end of a complete upload changes nothing and does not touch the storage")
    func nothingToComplete() async throws {
        let bench = ServiceBench()
        let id = try await bench.upload(2, holding: [1, 2])
        bench.fuse.burn(afterCalls: 1)
        let upload = try await bench.append([], to: id, at: 2)
        #expect(upload.state == .completed)
        #expect(upload.offset == 2)
        bench.fuse.replace()
        #expect(
            await code { try await bench.append([3], to: id, at: 2) }
                == .lengthExceeded(length: 2)
        )
        let unannounced = ScriptedSource([.bytes([3])])
        #expect(
            await code { try await bench.append(unannounced, to: id, at: 2) }
                == .lengthExceeded(length: 2)
        )
        #expect(
            await code { try await bench.append([1], to: id, at: 0) }
                == .offsetMismatch(expected: 2)
        )
        #expect(try await bench.contents(of: id) == [1, 2])
    }

    @Test("an unknown upload is not found, an ended one is gone")
    func unknown() async throws {
        let bench = ServiceBench()
        let unknown = UploadID.generate(at: bench.clock.now)
        #expect(await code { try await bench.append([1], to: unknown, at: 0) } == .notFound)
        let id = try await bench.upload(5, holding: [1])
        try await bench.services.uploads.terminate(id)
        #expect(await code { try await bench.append([1], to: id, at: 1) } == .gone)
    }

    @Test(
        "bytes received before a body broke off are kept, and the response gives the reason",
        arguments: [
            (.disconnected, .disconnected), (.interrupted, .interrupted), (.timedOut, .timedOut),
            (.shuttingDown, .unavailable), (.malformed("bad chunk size"), .invalidRequest),
            (.tooLarge(limit: 9), .tooLarge(limit: 9)),
        ] as [(SourceFailure, UploadError.Code)]
    )
    func brokenOff(failure: SourceFailure, expected: UploadError.Code) async throws {
        let bench = ServiceBench()
        let id = try await bench.upload(10)
        let source = ScriptedSource([.bytes([1, 2, 3]), .fail(failure)])
        #expect(await code { try await bench.append(source, to: id, at: 0) } == expected)
        #expect(try await bench.services.uploads.status(of: id).offset == 3)
        #expect(bench.observer.story == ["created", "appended 3", "broken off 3"])
    }

    @Test("a full storage keeps what it stored, and the upload continues when there is space")
    func storageFull() async throws {
        let bench = ServiceBench()
        let id = try await bench.upload(10)
        bench.storage.failAppend(afterBytes: 4, with: UploadError(.storageFull, ""))
        let bytes = Array<UInt8>(1...10)
        #expect(await code { try await bench.append(bytes, to: id, at: 0) } == .storageFull)
        #expect(try await bench.services.uploads.status(of: id).offset == 4)
        try await bench.append(Array(bytes[4...]), to: id, at: 4)
        #expect(try await bench.contents(of: id) == bytes)
        #expect(bench.observer.story == ["created", "appended 4", "failed", "appended 6", "completed"])
    }

    @Test("a body that does not match its announced digest is not kept")
    func digest() async throws {
        let bench = ServiceBench()
        let id = try await bench.upload(4)
        for (bytes, expected) in [([1, 2, 3, 5], .checksumMismatch), ([1, 2, 3, 4], nil)]
            as [([UInt8], UploadError.Code?)]
        {
            let result = await code {
                try await bench.services.uploads.append(
                    to: id,
                    at: 0,
                    contentLength: 4,
                    expecting: .known(
                        ExpectedDigest(algorithm: .sha1, value: Digest.hash([1, 2, 3, 4] as [UInt8], .sha1))
                    ),
                    from: ArraySource(bytes)
                )
            }
            #expect(result == expected)
        }
        #expect(try await bench.contents(of: id) == [1, 2, 3, 4])
    }

    @Test("each append renews the expiry, but small steps are not recorded")
    func expiry() async throws {
        let bench = ServiceBench()
        let start = bench.clock.now
        let id = try await bench.upload(10)
        bench.clock.advance(by: 30)
        var upload = try await bench.append([1], to: id, at: 0)
        #expect(upload.expiresAt == start.addingTimeInterval(3600))
        #expect(bench.state.plan.calls(of: .setExpiry) == 0)
        bench.clock.advance(by: 10)
        upload = try await bench.append([2], to: id, at: 1)
        #expect(upload.expiresAt == start.addingTimeInterval(3640))
        #expect(try await bench.services.uploads.status(of: id).expiresAt == start.addingTimeInterval(3640))
        #expect(bench.state.plan.calls(of: .setExpiry) == 1)
        // Without new bytes, the expiry is not renewed.
        bench.clock.advance(by: 1000)
        upload = try await bench.append([], to: id, at: 2)
        #expect(upload.expiresAt == start.addingTimeInterval(3640))
    }

    @Test("failing to record the expiry does not fail the append")
    func expiryFails() async throws {
        let bench = ServiceBench()
        let id = try await bench.upload(10)
        let before = try await bench.services.uploads.status(of: id).expiresAt
        bench.clock.advance(by: 1000)
        bench.state.plan.fail(.setExpiry)
        let upload = try await bench.append([1], to: id, at: 0)
        #expect(upload.offset == 1)
        #expect(upload.expiresAt == before)
        #expect(bench.observer.story.last == "failed")
    }

    @Test("without a lifetime nothing expires")
    func noLifetime() async throws {
        let bench = ServiceBench(limits: UploadLimits(lifetime: nil))
        let id = try await bench.upload(10, holding: [1])
        bench.clock.advance(by: 1e9)
        #expect(await bench.services.sweep.run().expired == 0)
        #expect(try await bench.append([2], to: id, at: 1).expiresAt == nil)
    }
}
