import Bytes
import Digests
import SluiceTesting
import Testing

@testable import UploadCore
@testable import UploadModel

@Suite("Digests of whole uploads", .timeLimit(.minutes(10)))
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
        return try await bench.services.uploads.create(new, under: bench.grant()).id
    }

    private func append(
        _ bytes: [UInt8],
        to id: UploadID,
        at offset: Int64,
        _ finish: Finish,
        expecting digest: ExpectedDigest? = nil,
        _ bench: ServiceBench
    ) async throws -> Upload {
        try await bench.services.uploads.append(
            to: id,
            at: offset,
            contentLength: Int64(bytes.count),
            finish: finish,
            expecting: digest.map { .known($0) },
            from: ArraySource(bytes)
        )
    }

    @Test("bytes sent in pieces are verified at completion, and kept if they are correct")
    func acceptsRight() async throws {
        let bench = ServiceBench()
        let expected = Self.digests(Self.bytes, .sha256, .sha512)
        let id = try await create(bench, expecting: expected)
        _ = try await append([1, 2], to: id, at: 0, .explicit(isLast: false), bench)
        #expect(bench.storage.plan.calls(of: .digests) == 0)
        // With another protocol than the first request.
        #expect(try await append([3, 4, 5], to: id, at: 2, .whenFull, bench).state == .completed)
        #expect(bench.storage.plan.calls(of: .digests) == 1)
        #expect(try await bench.services.media.media(id).digests == expected)
    }

    @Test(
        "wrong bytes end the upload, whichever step detects them",
        arguments: [Finish.whenFull, .explicit(isLast: true)],
        [true, false]
    )
    func refusesWrong(finish: Finish, isSecond: Bool) async throws {
        let bench = ServiceBench()
        var expected = Self.digests(Self.bytes, .sha256, .sha512)
        expected[isSecond ? .sha512 : .sha256]?[0] ^= 1
        let id = try await create(bench, expecting: expected)
        #expect(await code { try await append(Self.bytes, to: id, at: 0, finish, bench) } == .digestMismatch)
        #expect(try await bench.services.uploads.inspect(id).state == .terminated)
        #expect(await code { try await bench.services.media.media(id) } == .gone)
        #expect(await code { try await bench.services.uploads.status(of: id) } == .gone)
        #expect(await code { try await bench.contents(of: id) } == .notFound)
        #expect(bench.observer.events.contains { if case .completed = $0 { true } else { false } } == false)
    }

    @Test("digests are verified after a crash, too", arguments: [true, false])
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
            let services = bench.restarted()
            if byStatus {
                #expect(await code { try await services.uploads.status(of: id) } == (isRight ? nil : .digestMismatch))
            } else {
                let report = await services.sweep.run()
                #expect(report.completed == (isRight ? 1 : 0))
                #expect(report.failures == 0)
            }
            #expect(try await services.uploads.inspect(id).state == (isRight ? .completed : .terminated))
        }
    }

    @Test("if the storage cannot be read, nothing is completed and nothing is ended")
    func survivesFaults() async throws {
        let bench = ServiceBench()
        let id = try await create(bench, expecting: Self.digests(Self.bytes, .sha256))
        bench.storage.plan.fail(.digests)
        #expect(
            await code { try await append(Self.bytes, to: id, at: 0, .explicit(isLast: true), bench) }
                == .storageFailure
        )
        #expect(try await bench.services.uploads.status(of: id, .explicit(isLast: false)).offset == 5)
        #expect(try await append([], to: id, at: 5, .explicit(isLast: true), bench).state == .completed)
    }

    @Test("bytes verified while they arrived are not read again")
    func readsNothingTwice() async throws {
        let bench = ServiceBench()
        let expected = Self.digests(Self.bytes, .sha256)
        let known = ExpectedDigest(algorithm: .sha256, value: Digest.hash(Self.bytes, .sha256))
        let id = try await create(bench, expecting: expected)
        _ = try await append(Self.bytes, to: id, at: 0, .explicit(isLast: true), expecting: known, bench)
        #expect(bench.storage.plan.calls(of: .digests) == 0)
        #expect(try await bench.services.media.media(id).digests == expected)
        // A digest of the last bytes only.
        let other = try await create(bench, expecting: expected)
        _ = try await append([1, 2], to: other, at: 0, .explicit(isLast: false), bench)
        let rest = ExpectedDigest(algorithm: .sha256, value: Digest.hash([3, 4, 5], .sha256))
        _ = try await append([3, 4, 5], to: other, at: 2, .explicit(isLast: true), expecting: rest, bench)
        #expect(bench.storage.plan.calls(of: .digests) == 1)
        #expect(try await bench.services.media.media(other).digests == expected)
        // A digest of the first bytes only.
        let third = try await create(bench, expecting: expected)
        let first = ExpectedDigest(algorithm: .sha256, value: Digest.hash([1, 2], .sha256))
        _ = try await append([1, 2], to: third, at: 0, .explicit(isLast: false), expecting: first, bench)
        _ = try await append([3, 4, 5], to: third, at: 2, .explicit(isLast: true), bench)
        #expect(try await bench.services.media.media(third).digests == expected)
    }

    @Test("the digest of media is computed once, on request")
    func computesOnce() async throws {
        let bench = ServiceBench()
        let id = try await bench.upload(5, holding: Self.bytes)
        #expect(bench.storage.plan.calls(of: .digests) == 0)
        async let first = bench.services.media.digest(of: id, by: .sha256)
        async let second = bench.services.media.digest(of: id, by: .sha256)
        let wanted = Digest.hash(Self.bytes, .sha256)
        let both = try await [first, second]
        #expect(both == [wanted, wanted])
        #expect(try await bench.services.media.digest(of: id, by: .sha256) == wanted)
        #expect(bench.storage.plan.calls(of: .digests) == 1)
        #expect(try await bench.services.media.digest(of: id, by: .sha512) == Digest.hash(Self.bytes, .sha512))
        #expect(try await bench.services.media.media(id).digests == Self.digests(Self.bytes, .sha256, .sha512))
    }

    @Test("an upload that is not media has no digest")
    func knowsNoOthers() async throws {
        let bench = ServiceBench()
        let open = try await bench.upload(5)
        #expect(await code { try await bench.services.media.digest(of: open, by: .sha256) } == .notFound)
        try await bench.services.uploads.terminate(open)
        #expect(await code { try await bench.services.media.digest(of: open, by: .sha256) } == .gone)
    }
}
