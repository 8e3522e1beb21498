import Bytes
import Digests
import SluiceTesting
import Testing

@testable import UploadCore

@Suite("Digests of whole uploads")
struct UploadServiceDigestTests {
    private static let bytes: [UInt8] = [1, 2, 3, 4, 5]

    private static func digests(_ bytes: [UInt8], _ algorithms: DigestAlgorithm...) -> DigestValues {
        Dictionary(uniqueKeysWithValues: algorithms.map { ($0, Digest.hash(bytes, $0)) })
    }

    private func create(
        _ bench: ServiceBench,
        expecting digests: DigestValues,
        length: Int64? = 5,
        completesWhenFull: Bool = false
    ) async throws -> UploadID {
        let new = NewUpload(
            dialect: "http",
            length: length,
            expectedDigests: digests,
            completesWhenFull: completesWhenFull
        )
        return try await bench.service.create(new, under: bench.grant()).id
    }

    private func append(
        _ bytes: [UInt8],
        to id: UploadID,
        at offset: Int64,
        _ finish: Finish,
        expecting digest: ExpectedDigest? = nil,
        _ bench: ServiceBench
    ) async throws -> Upload {
        try await bench.service.append(
            to: id,
            at: offset,
            contentLength: Int64(bytes.count),
            finish: finish,
            expecting: digest.map { .known($0) },
            from: ArraySource(bytes)
        )
    }

    @Test("bytes that come in pieces are read when they are complete, and kept if they are right")
    func acceptsRight() async throws {
        let bench = ServiceBench()
        let expected = Self.digests(Self.bytes, .sha256, .sha512)
        let id = try await create(bench, expecting: expected)
        _ = try await append([1, 2], to: id, at: 0, .told(isLast: false), bench)
        #expect(bench.storage.plan.calls(of: .digests) == 0)
        // By another protocol than the one that began.
        #expect(try await append([3, 4, 5], to: id, at: 2, .whenFull, bench).state == .completed)
        #expect(bench.storage.plan.calls(of: .digests) == 1)
        #expect(try await bench.service.media(id).digests == expected)
    }

    @Test(
        "bytes that are wrong end the upload, whoever finds out",
        arguments: [Finish.whenFull, .told(isLast: true)],
        [true, false]
    )
    func refusesWrong(finish: Finish, isSecond: Bool) async throws {
        let bench = ServiceBench()
        var expected = Self.digests(Self.bytes, .sha256, .sha512)
        expected[isSecond ? .sha512 : .sha256]?[0] ^= 1
        let id = try await create(bench, expecting: expected)
        #expect(await code { try await append(Self.bytes, to: id, at: 0, finish, bench) } == .digestMismatch)
        #expect(try await bench.service.inspect(id).state == .terminated)
        #expect(await code { try await bench.service.media(id) } == .gone)
        #expect(await code { try await bench.service.status(of: id) } == .gone)
        #expect(await code { try await bench.contents(of: id) } == .notFound)
        #expect(bench.observer.events.contains { if case .completed = $0 { true } else { false } } == false)
    }

    @Test("after a crash they are still checked", arguments: [true, false])
    func checksAfterCrash(isRight: Bool) async throws {
        for byStatus in [true, false] {
            let bench = ServiceBench()
            let expected = Self.digests(isRight ? Self.bytes : [0], .sha256)
            let id = try await create(bench, expecting: expected, completesWhenFull: true)
            bench.state.plan.fail(.complete)
            bench.storage.plan.fail(.synchronize)
            #expect(await code { try await append(Self.bytes, to: id, at: 0, .whenFull, bench) } == .storageFailure)
            bench.state.plan.recover()
            bench.storage.plan.recover()
            let service = bench.restarted()
            if byStatus {
                #expect(await code { try await service.status(of: id) } == (isRight ? nil : .digestMismatch))
            } else {
                let report = await service.sweep()
                #expect(report.completed == (isRight ? 1 : 0))
                #expect(report.failures == 0)
            }
            #expect(try await service.inspect(id).state == (isRight ? .completed : .terminated))
        }
    }

    @Test("a storage that can not be read completes nothing, and ends nothing")
    func survivesFaults() async throws {
        let bench = ServiceBench()
        let id = try await create(bench, expecting: Self.digests(Self.bytes, .sha256))
        bench.storage.plan.fail(.digests)
        #expect(
            await code { try await append(Self.bytes, to: id, at: 0, .told(isLast: true), bench) } == .storageFailure
        )
        #expect(try await bench.service.status(of: id, .told(isLast: false)).offset == 5)
        #expect(try await append([], to: id, at: 5, .told(isLast: true), bench).state == .completed)
    }

    @Test("what was checked while it came is not read again")
    func readsNothingTwice() async throws {
        let bench = ServiceBench()
        let expected = Self.digests(Self.bytes, .sha256)
        let known = ExpectedDigest(algorithm: .sha256, value: Digest.hash(Self.bytes, .sha256))
        let id = try await create(bench, expecting: expected)
        _ = try await append(Self.bytes, to: id, at: 0, .told(isLast: true), expecting: known, bench)
        #expect(bench.storage.plan.calls(of: .digests) == 0)
        #expect(try await bench.service.media(id).digests == expected)
        // Only of the last bytes.
        let other = try await create(bench, expecting: expected)
        _ = try await append([1, 2], to: other, at: 0, .told(isLast: false), bench)
        let rest = ExpectedDigest(algorithm: .sha256, value: Digest.hash([3, 4, 5], .sha256))
        _ = try await append([3, 4, 5], to: other, at: 2, .told(isLast: true), expecting: rest, bench)
        #expect(bench.storage.plan.calls(of: .digests) == 1)
        #expect(try await bench.service.media(other).digests == expected)
        // Only of the first.
        let third = try await create(bench, expecting: expected)
        let first = ExpectedDigest(algorithm: .sha256, value: Digest.hash([1, 2], .sha256))
        _ = try await append([1, 2], to: third, at: 0, .told(isLast: false), expecting: first, bench)
        _ = try await append([3, 4, 5], to: third, at: 2, .told(isLast: true), bench)
        #expect(try await bench.service.media(third).digests == expected)
    }

    @Test("the digest of media is computed once, when it is asked for")
    func computesOnce() async throws {
        let bench = ServiceBench()
        let id = try await bench.upload(5, holding: Self.bytes)
        #expect(bench.storage.plan.calls(of: .digests) == 0)
        async let first = bench.service.digest(of: id, by: .sha256)
        async let second = bench.service.digest(of: id, by: .sha256)
        let wanted = Digest.hash(Self.bytes, .sha256)
        let both = try await [first, second]
        #expect(both == [wanted, wanted])
        #expect(try await bench.service.digest(of: id, by: .sha256) == wanted)
        #expect(bench.storage.plan.calls(of: .digests) == 1)
        #expect(try await bench.service.digest(of: id, by: .sha512) == Digest.hash(Self.bytes, .sha512))
        #expect(try await bench.service.media(id).digests == Self.digests(Self.bytes, .sha256, .sha512))
    }

    @Test("what is no media has no digest")
    func knowsNoOthers() async throws {
        let bench = ServiceBench()
        let open = try await bench.upload(5)
        #expect(await code { try await bench.service.digest(of: open, by: .sha256) } == .notFound)
        try await bench.service.terminate(open)
        #expect(await code { try await bench.service.digest(of: open, by: .sha256) } == .gone)
    }
}
