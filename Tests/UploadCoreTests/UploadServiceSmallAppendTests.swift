import Bytes
import Digests
import Foundation
import SluiceTesting
import SystemIO
import Testing

@testable import UploadCore
@testable import UploadModel

@Suite("Small contents that have arrived", .timeLimit(.minutes(10)))
struct UploadServiceSmallAppendTests {
    private let bench = ServiceBench()

    private func readings() -> Int { bench.state.plan.calls(of: .upload) }

    @Test("one after another they read no record, and look as appends of any other kind")
    func result() async throws {
        let small = try await bench.upload(10)
        let before = readings()
        for offset in [0, 4] { try await bench.append([1, 2, 3, 4], to: small, at: Int64(offset)) }
        let last = try await bench.append([5, 6], to: small, at: 8)
        #expect(readings() == before)
        #expect(bench.services.recentLookups == (3, 0))
        #expect(bench.services.recentUploads == 0)
        #expect((last.state, last.offset, last.endedAt) == (.completed, 10, bench.clock.now))
        #expect(try await bench.services.uploads.inspect(small) == last)
        let story = ["created", "appended 4", "appended 4", "appended 2", "completed"]
        #expect(bench.observer.story == story)

        let other = try await bench.upload(10)
        for (offset, bytes) in [(0, [1, 2, 3, 4]), (4, [1, 2, 3, 4]), (8, [5, 6])] as [(Int64, [UInt8])] {
            _ = try await bench.append(ScriptedSource([.bytes(bytes)]), to: other, at: offset)
        }
        #expect(bench.observer.story == story + story)
        #expect(try await bench.contents(of: other) == bench.contents(of: small))
        #expect(bench.services.recentLookups == (3, 0))
    }

    @Test("a client that asks for the offset first does so once, and its next append reads nothing")
    func asking() async throws {
        let id = try await bench.upload(10, holding: [1])
        let services = bench.restarted()
        #expect(try await services.uploads.status(of: id).offset == 1)
        let before = readings()
        _ = try await append([2], to: id, at: 1, by: services)
        #expect(readings() == before)
    }

    private func append(
        _ bytes: [UInt8],
        to id: UploadID,
        at offset: Int64,
        by services: UploadServices
    ) async throws(UploadError) -> Upload {
        try await services.uploads.append(
            to: id,
            at: offset,
            contentLength: Int64(bytes.count),
            expecting: nil,
            from: ArraySource(bytes)
        )
    }

    @Test("an upload that has ended takes no bytes, although its record was kept")
    func ended() async throws {
        let terminated = try await bench.upload(10, holding: [1])
        try await bench.services.uploads.terminate(terminated)
        #expect(await code { try await bench.append([2], to: terminated, at: 1) } == .gone)
        let stopped = try await bench.upload(10, holding: [1])
        try await bench.services.uploads.stop(stopped, response: HookResponse())
        #expect(await code { try await bench.append([2], to: stopped, at: 1) } == .gone)
        let discarded = try await bench.upload(10, holding: [1])
        await bench.services.uploads.discard(discarded, .open)
        #expect(await code { try await bench.append([2], to: discarded, at: 1) } == .gone)
        let expired = try await bench.upload(10, holding: [1])
        bench.clock.advance(by: 4000)
        #expect(await code { try await bench.append([2], to: expired, at: 1) } == .gone)
        let swept = try await bench.upload(10, holding: [1])
        bench.clock.advance(by: 4000)
        _ = await bench.services.sweep.run()
        #expect(await code { try await bench.append([2], to: swept, at: 1) } == .gone)
    }

    @Test("metadata that was changed meanwhile is that of the media")
    func metadata() async throws {
        let id = try await bench.upload(2, holding: [1])
        let changed = UploadMetadata(values: ["filename": "b.mp4"])
        _ = try await bench.services.uploads.setMetadata(changed, of: id)
        #expect(bench.services.recentUploads == 0)
        let before = readings()
        #expect(try await bench.append([2], to: id, at: 1).metadata == changed)
        #expect(readings() == before + 1)
        #expect(try await bench.services.media.media(id).filename == "b.mp4")
    }

    @Test("metadata that is changed while bytes are stored makes the record that was in use worthless")
    func metadataMeanwhile() async throws {
        let id = try await bench.upload(3, holding: [1])
        let changed = UploadMetadata(values: ["filename": "b.mp4"])
        bench.storage.plan.before(.append) { [services = bench.services] in
            _ = try? await services.uploads.setMetadata(changed, of: id)
        }
        try await bench.append([2], to: id, at: 1)
        #expect(bench.services.recentUploads == 0)
        #expect(try await bench.append([3], to: id, at: 2).metadata == changed)
    }

    @Test("the expiry is renewed as by any append")
    func expiry() async throws {
        let id = try await bench.upload(10)
        bench.clock.advance(by: 1800)
        let upload = try await bench.append([1], to: id, at: 0)
        #expect(upload.expiresAt == bench.clock.now.addingTimeInterval(3600))
        #expect(try await bench.state.upload(id)?.expiresAt == upload.expiresAt)
        bench.clock.advance(by: 3599)
        #expect(try await bench.append([2], to: id, at: 1).offset == 2)
    }

    @Test("a digest is verified before anything is stored")
    func digest() async throws {
        let id = try await bench.upload(4)
        func append(_ bytes: [UInt8]) async throws(UploadError) -> Upload {
            try await bench.services.uploads.append(
                to: id,
                at: 0,
                contentLength: 4,
                expecting: .known(ExpectedDigest(algorithm: .md5, value: Digest.hash([1, 2, 3, 4], .md5))),
                from: ArraySource(bytes)
            )
        }
        #expect(await code { try await append([1, 2, 3, 5]) } == .checksumMismatch)
        #expect(try await append([1, 2, 3, 4]).state == .completed)
        #expect(try await bench.services.media.media(id).digests[.md5] == Digest.hash([1, 2, 3, 4], .md5))
    }

    @Test("content that has not arrived, is too large, or ends a body by a flag is appended as it arrives")
    func others() async throws {
        let bench = ServiceBench(limits: UploadLimits(maximumBytes: 1 << 20, lifetime: 3600))
        let large = BlobStorageContract.pattern((64 << 10) + 1)
        let id = try await bench.upload(1 << 20)
        #expect(try await bench.append(large, to: id, at: 0).offset == Int64(large.count))
        let stalling = ScriptedSource([.bytes([1]), .stall, .bytes([2])], isLengthKnown: true)
        async let appending = bench.append(stalling, to: id, at: Int64(large.count))
        await stalling.waitUntilStalled()
        stalling.proceed()
        #expect(try await appending.offset == Int64(large.count) + 2)
        #expect(bench.services.recentLookups == (0, 0))
        #expect(try await bench.append([3], to: id, at: Int64(large.count) + 2).offset == Int64(large.count) + 3)
        #expect(bench.services.recentLookups == (0, 1))
    }

    @Test("a writer that is there is waited for or taken over from as by any append")
    func writer() async throws {
        let id = try await bench.upload(10)
        let stalling = ScriptedSource([.bytes([1, 2]), .stall])
        async let first = code { try await bench.append(stalling, to: id, at: 0) }
        await stalling.waitUntilStalled()
        #expect(try await bench.append([3], to: id, at: 2).offset == 3)
        #expect(await first == .interrupted)
        #expect(try await bench.contents(of: id).prefix(3) == [1, 2, 3])
    }

    @Test("no small append begins after the stop either")
    func shutdown() async throws {
        let id = try await bench.upload(10, holding: [1])
        bench.services.uploads.interruptAll()
        #expect(await code { try await bench.append([2], to: id, at: 1) } == .unavailable)
        #expect(try await bench.restarted().uploads.status(of: id).offset == 1)
    }

    @Test("a storage that fails leaves an upload that goes on, and the next append reads its record")
    func faults() async throws {
        let id = try await bench.upload(10, holding: [1])
        bench.storage.plan.fail(.append)
        #expect(await code { try await bench.append([2], to: id, at: 1) } == .storageFailure)
        #expect(bench.services.recentUploads == 0)
        bench.storage.failAppend(afterBytes: 2, with: UploadError(.storageFull, ""))
        #expect(await code { try await bench.append([2, 3, 4], to: id, at: 1) } == .storageFull)
        #expect(try await bench.services.uploads.status(of: id).offset == 3)
        bench.state.plan.fail(.complete)
        let rest: [UInt8] = [4, 5, 6, 7, 8, 9, 10]
        #expect(await code { try await bench.append(rest, to: id, at: 3) } == .storageFailure)
        #expect(try await bench.services.uploads.status(of: id).state == .completed)
        #expect(try await bench.contents(of: id) == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    }

    @Test("first bytes that a policy does not allow are refused, and end the upload")
    func content() async throws {
        let bench = ServiceBench(limits: UploadLimits(maximumBytes: 10_000, lifetime: 3600))
        var policy = Policy()
        policy.contentTypes = ["image/png"]
        policy.checksContent = true
        try await bench.services.quota.setPolicy(policy, of: Account(.subject, "alice"))
        let new = NewUpload(dialect: "tus", length: 2000, metadata: UploadMetadata(values: ["filetype": "image/png"]))
        let program: [UInt8] = [0x4D, 0x5A] + [UInt8](repeating: 0x90, count: 1000)
        let id = try await bench.services.uploads.create(new, under: bench.grant()).id
        #expect(await code { try await bench.append(program, to: id, at: 0) } == .contentTypeRefused)
        #expect(await code { try await bench.append(program, to: id, at: 0) } == .gone)
        let picture: [UInt8] = [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A] + [UInt8](repeating: 0, count: 1000)
        let other = try await bench.services.uploads.create(new, under: bench.grant()).id
        #expect(try await bench.append(picture, to: other, at: 0).offset == 1008)
    }

    @Test("without a length each content is counted before it is stored")
    func quota() async throws {
        var policy = Policy()
        policy.storedBytes = 6
        try await bench.services.quota.setPolicy(policy, of: Account(.subject, "alice"))
        let new = NewUpload(dialect: "tus", length: nil)
        let id = try await bench.services.uploads.create(new, under: bench.grant()).id
        #expect(try await bench.append([1, 2, 3, 4], to: id, at: 0).offset == 4)
        #expect(await code { try await bench.append([5, 6, 7, 8], to: id, at: 4) } != nil)
        #expect(try await bench.services.uploads.status(of: id).offset <= 6)
        #expect(try await bench.services.quota.quota(of: Account(.subject, "alice")).usage.storedBytes <= 6)
    }

    @Test("bytes that the storage does not take at this offset are there for the former way")
    func putBack() async throws {
        let id = try await bench.upload(4, holding: [1])
        bench.storage.plan.fail(.append, with: UploadError(.offsetMismatch(expected: 2), ""))
        #expect(try await bench.append([2, 3, 4], to: id, at: 1).state == .completed)
        #expect(try await bench.contents(of: id) == [1, 2, 3, 4])
    }

    @Test("a creation that is not recorded leaves nothing that is kept")
    func unrecorded() async throws {
        bench.state.plan.fail(.insertUpload)
        #expect(await code { try await bench.upload(10) } == .storageFailure)
        #expect(bench.services.recentUploads == 0)
    }

    @Test("only so many records are kept")
    func bound() async throws {
        let bench = ServiceBench(
            limits: UploadLimits(maximumBytes: 1000, lifetime: 3600, recent: RecentLimits(most: 3, age: .seconds(600)))
        )
        for _ in 0..<10 { _ = try await bench.upload(10) }
        #expect(bench.services.recentUploads == 3)
    }
}
