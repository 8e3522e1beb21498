import Bytes
import Digests
import Foundation
import SluiceTesting
import Synchronization
import Testing

@testable import UploadCore
@testable import UploadModel

@Suite("Uploads that bring their whole content", .timeLimit(.minutes(10)))
struct UploadServiceWholeTests {
    private let bench = ServiceBench()
    private let bytes = BlobStorageContract.pattern(700)

    private func new(_ length: Int64? = 700) -> NewUpload {
        NewUpload(dialect: "tus", length: length, metadata: UploadMetadata(values: ["filename": "a.mp4"]))
    }

    /// - Returns: The upload, and the bytes that the source has left.
    private func createWhole(
        _ new: NewUpload,
        _ source: any ByteSource,
        expecting digest: DigestExpectation? = nil,
        by services: UploadServices? = nil,
        under grant: Grant? = nil
    ) async throws(UploadError) -> Upload? {
        var source = source
        return try await (services ?? bench.services).uploads.createWhole(
            new,
            under: grant ?? bench.grant(),
            from: &source,
            expecting: digest
        )
    }

    @Test("the result is that of creating and appending, with one blob and one record")
    func result() async throws {
        let whole = try #require(try await createWhole(new(), ArraySource(bytes)))
        let slow = try await bench.services.uploads.create(new(), under: bench.grant())
        let appended = try await bench.append(bytes, to: slow.id, at: 0)
        #expect(whole.state == .completed)
        #expect((whole.offset, whole.length, whole.expiresAt) == (700, 700, nil))
        #expect(
            (whole.metadata, whole.subject, whole.endedAt) == (appended.metadata, appended.subject, appended.endedAt)
        )
        #expect(try await bench.contents(of: whole.id) == bytes)
        #expect(try await bench.state.upload(whole.id) == whole)
        #expect(
            bench.observer.story == ["created", "appended 700", "completed", "created", "appended 700", "completed"]
        )
        let events = try await bench.state.events(EventQuery(after: 0))
        #expect(events.map(\.kind) == [.created, .completed, .created, .completed])
        #expect(events.map(\.upload.offset) == [0, 700, 0, 700])
    }

    @Test("content that is too large, of unknown size, or not the whole upload is left to appends, with all its bytes")
    func notWhole() async throws {
        let large = BlobStorageContract.pattern(Int(bench.services.uploads.wholeContents.largest) + 1)
        var partial = new(700)
        partial.concatenation = Concatenation(.partial, raw: "partial")
        let cases: [(NewUpload, ArraySource)] = [
            (new(800), ArraySource(bytes)), (new(nil), ArraySource(bytes)), (partial, ArraySource(bytes)),
            (new(Int64(large.count)), ArraySource(large)),
        ]
        for (new, source) in cases {
            #expect(try await createWhole(new, source) == nil)
            #expect(source.remaining == Int64(source === cases[3].1 ? large.count : 700))
        }
        #expect(bench.observer.story == [])
    }

    @Test("content that does not arrive at once is left to appends, and nothing of it is pulled")
    func slow() async throws {
        let beginning = ScriptedSource.Step.bytes(Array(bytes[..<300]))
        for step in [ScriptedSource.Step.fail(.disconnected), .stall] {
            let source = ScriptedSource([beginning, step, .bytes(Array(bytes[300...]))], isLengthKnown: true)
            #expect(try await createWhole(new(), source) == nil)
            #expect(source.remaining == 700)
        }
        #expect(try await bench.storage.list(after: nil, limit: 9) == [])
        #expect(bench.observer.story == [])
    }

    /// Says that its bytes are there, and then breaks off.
    private final class BreakingSource: ByteSource {
        private var pieces: [[UInt8]]

        init(_ bytes: [UInt8]) { pieces = [bytes] }

        var remaining: Int64? { 700 }
        var interrupter: SourceInterrupter { SourceInterrupter { _ in } }
        func arrives(_ count: Int) async -> Bool { true }

        func next(maximum: Int) async throws(SourceFailure) -> [UInt8]? {
            guard let piece = pieces.popLast() else { throw .disconnected }
            return piece
        }
    }

    @Test("content that breaks off nevertheless is left to appends, with the bytes that came and the failure")
    func brokenOff() async throws {
        var source: any ByteSource = BreakingSource(Array(bytes[..<300]))
        #expect(try await bench.services.uploads.createWhole(new(), under: bench.grant(), from: &source) == nil)
        #expect(try await source.next(maximum: 1000) == Array(bytes[..<300]))
        await #expect(throws: SourceFailure.disconnected) { _ = try await source.next(maximum: 1000) }
        #expect(bench.observer.story == [])
    }

    @Test("a wrong digest creates nothing; a right one is recorded if it was announced for the whole upload")
    func digests() async throws {
        let right = ExpectedDigest(algorithm: .sha256, value: Digest.hash(bytes, .sha256))
        let wrong = ExpectedDigest(algorithm: .md5, value: Digest.hash([1], .md5))
        #expect(
            await code { try await createWhole(new(), ArraySource(bytes), expecting: .known(wrong)) }
                == .checksumMismatch
        )
        var announced = new()
        announced.expectedDigests = [.md5: wrong.value]
        #expect(await code { try await createWhole(announced, ArraySource(bytes)) } == .digestMismatch)
        #expect(try await bench.storage.list(after: nil, limit: 9) == [])
        announced.expectedDigests = [.sha256: right.value]
        let upload = try #require(try await createWhole(announced, ArraySource(bytes), expecting: .known(right)))
        #expect(try await bench.state.media(upload.id)?.digests == [.sha256: right.value])
    }

    @Test("a blob that cannot be stored, or whose record is refused, leaves nothing")
    func failures() async throws {
        bench.storage.plan.fail(.createWhole, with: UploadError(.storageFull, "full"))
        #expect(await code { try await createWhole(new(), ArraySource(bytes)) } == .storageFull)
        for refusal in [UploadError.Code.storageFull, .storageFailure, .rejected] {
            bench.state.plan.fail(.insertComplete, with: UploadError(refusal, "no"))
            #expect(await code { try await createWhole(new(), ArraySource(bytes)) } == refusal)
        }
        #expect(try await bench.storage.list(after: nil, limit: 9) == [])
        #expect(try await bench.state.events(EventQuery(after: 0)) == [])
    }

    @Test("with an unknown outcome the blob stays, and the next attempt with the same content gets the upload, once")
    func unknownOutcome() async throws {
        let grant = bench.grant("once", isOneTime: true)
        let lost = UploadError(.unavailable, "The connection is lost.")
        bench.state.plan.lose(.insertComplete, with: lost)
        bench.state.plan.fail(.upload, count: 10, with: lost)
        #expect(await code { try await createWhole(new(), ArraySource(bytes), under: grant) } == .unavailable)
        bench.state.plan.recover()
        let stored = try await bench.storage.list(after: nil, limit: 9)
        #expect(stored.count == 1)
        var other = bytes
        other[5] ^= 1
        #expect(await code { try await createWhole(new(), ArraySource(other), under: grant) } == .grantUsed)
        #expect(try await createWhole(new(), ArraySource(bytes), under: grant)?.id == stored.first)
        #expect(await code { try await createWhole(new(), ArraySource(bytes), under: grant) } == .grantUsed)
        #expect(try await bench.storage.list(after: nil, limit: 9) == stored)
    }

    @Test("an upload that was recorded is created, whatever the response was")
    func recorded() async throws {
        bench.state.plan.lose(.insertComplete, with: UploadError(.storageFailure, "lost"))
        let upload = try #require(try await createWhole(new(), ArraySource(bytes)))
        #expect(try await bench.contents(of: upload.id) == bytes)
        #expect(bench.observer.story == ["created", "appended 700", "completed"])
    }

    @Test("an object replaces the one with its name, if its condition holds")
    func objects() async throws {
        _ = try await bench.state.insert(BucketRecord(name: "videos", createdAt: bench.clock.now))
        var new = new()
        new.object = NewObject(ObjectName(bucket: "videos", key: "k"))
        let first = try #require(try await createWhole(new, ArraySource(bytes)))
        let second = try #require(try await createWhole(new, ArraySource(bytes)))
        #expect(try await bench.state.object(ObjectName(bucket: "videos", key: "k"))?.id == second.id)
        #expect(try await bench.state.upload(first.id)?.state == .terminated)
        #expect(try await bench.storage.list(after: nil, limit: 9) == [second.id])
        new.object?.attributes.condition = .isAbsent
        #expect(await code { try await createWhole(new, ArraySource(bytes)) } == .conditionFailed)
        #expect(try await bench.storage.list(after: nil, limit: 9) == [second.id])
    }

    @Test("contents wait in memory only up to a bound")
    func bound() async throws {
        let contents = WholeContents(largest: 700, most: 2100)
        #expect(!contents.take(701))
        for _ in 0..<3 { #expect(contents.take(700)) }
        #expect(!contents.take(1))
        contents.giveBack(1)
        #expect(!contents.take(2))
        #expect(contents.take(1))
    }
}
