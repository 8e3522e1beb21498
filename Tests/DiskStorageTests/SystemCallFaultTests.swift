import Bytes
import Digests
import Foundation
import Glibc
import SluiceTesting
import SystemIO
import Testing
import UploadModel

@testable import DiskStorage

/// Each test runs its work once to count the system calls, and then once for each call and each fault.
@Suite("Faults of system calls of the storage", .timeLimit(.minutes(10)))
struct SystemCallFaultTests {
    private static let bytes = BlobStorageContract.pattern(400_000)

    /// A storage whose calls fail as planned.
    private struct Bench {
        let temporary: TemporaryDirectory
        let directory: DataDirectory
        let storage: DiskStorage
        let calls = ScriptedCalls()

        init(_ durability: Durability) throws {
            temporary = try TemporaryDirectory()
            directory = try DataDirectory(at: temporary.path("data"))
            storage = DiskStorage(
                directory: directory,
                durability: durability,
                pool: BlockingPool(threads: 2, label: "test-disk", calls: calls),
                recent: RecentLimits(age: .seconds(600))
            )
        }

        /// The file names of a blob.
        func files(of id: UploadID) throws -> [String] {
            try FileManager.default.subpathsOfDirectory(atPath: directory.root + "/blobs").filter {
                $0.contains(id.text)
            }
        }
    }

    /// A fault, and whether all calls after it fail, too, until the failure was noticed.
    struct Plan: Sendable, CustomTestStringConvertible {
        let fault: ScriptedCalls.Fault
        var lasts = false
        /// The calls that can fail so; empty for all.
        var names: Set<String> = []

        var testDescription: String { "\(fault)\(lasts ? " from then on" : "")" }
    }

    private static let plans = [
        Plan(fault: .fails(EIO)),
        Plan(fault: .fails(EIO), lasts: true),
        Plan(
            fault: .fails(ENOSPC),
            names: ["open", "mkdir", "pwrite", "fsetxattr", "fsync", "write out", "copy_file_range", "rename"]
        ),
        Plan(fault: .fails(EINTR)),
        Plan(fault: .moves(1), names: ["pwrite", "pread", "copy_file_range"]),
    ]

    /// Repeats `work` with the fault at each call that it makes.
    private func sweep(
        _ plan: Plan,
        _ durability: Durability,
        _ work: (Bench) async throws -> Void
    ) async throws {
        let first = try Bench(durability)
        try await work(first)
        let names = first.calls.names
        #expect(names.count > 10)
        for (index, name) in names.enumerated() where plan.names.isEmpty || plan.names.contains(name) {
            let bench = try Bench(durability)
            bench.calls.plan(index, plan.fault, times: plan.lasts ? .max : 1)
            do {
                try await work(bench)
            } catch {
                Issue.record("call \(index), \(name): \(error)")
                return
            }
        }
    }

    /// Repeats a step, which may fail for the planned fault, until it succeeds.
    private func persist<Success>(
        _ bench: Bench,
        _ step: () async throws(UploadError) -> Success
    ) async throws -> Success {
        do throws(UploadError) {
            return try await step()
        } catch {
            try check(error)
        }
        bench.calls.recover()
        return try await step()
    }

    private func check(_ error: UploadError) throws {
        let cause = try #require(error.cause as? SystemError)
        #expect(error.code == (cause.errno == ENOSPC ? .storageFull : .storageFailure))
    }

    @Test(
        "bytes that were acknowledged can be read back, and the upload continues when the disk works again",
        arguments: plans,
        [Durability.acknowledged, .completed]
    )
    func appending(plan: Plan, durability: Durability) async throws {
        try await sweep(plan, durability) { bench in
            let storage = bench.storage
            var id = DiskBench.newID()
            _ = try await persist(bench) { () async throws(UploadError) in
                // The service never uses an id again after a failure.
                id = DiskBench.newID()
                try await storage.create(id)
            }
            // The ends of the appends: twice at once, by pieces, by a transfer, with a small body and with a large one that have
            // digests.
            var ends: [Int64] = [20_000, 40_000, 60_000, 90_000, 120_000, 400_000]
            var length: Int64 = 0
            var attempts = 0
            while let end = ends.first {
                let report = await append(to: id, in: storage, from: length, to: end, ends.count)
                if case .failed(let error) = report.end { try check(error) }
                bench.calls.recover()
                let counted = try await storage.durableLength(of: id)
                #expect(counted == length + report.stored)
                #expect(try await storage.currentLength(of: id) == counted)
                length = counted
                if length == end { ends.removeFirst() }
                attempts += 1
                try #require(attempts < 10)
            }
            let contents = try await BlobStorageContract.contents(of: id, in: storage)
            #expect(contents == Self.bytes)
        }
    }

    /// One of the ways to append, which `left` chooses.
    private func append(
        to id: UploadID,
        in storage: DiskStorage,
        from start: Int64,
        to end: Int64,
        _ left: Int
    ) async -> AppendReport {
        let piece = Array(Self.bytes[Int(start)..<Int(end)])
        // The first one into the file that its creation left open, the second into that of the first.
        if left > 4 { return await storage.append(piece, to: id, at: start, isLast: left == 5) }
        return await storage.append(
            to: id,
            at: start,
            from: ScriptedSource([.bytes(piece)], isLengthKnown: true, supportsTransfer: left == 3),
            limit: end - start,
            expecting: left <= 2 ? sha256(piece) : nil
        )
    }

    @Test(
        "what a failed sync leaves is never more than what can be read back",
        arguments: plans,
        [Durability.acknowledged, .completed]
    )
    func synchronising(plan: Plan, durability: Durability) async throws {
        try await sweep(plan, durability) { bench in
            let storage = bench.storage
            let id = DiskBench.newID()
            let bytes = Array(Self.bytes[..<50_000])
            do throws(UploadError) {
                try await storage.create(id)
                let report = await storage.append(
                    to: id,
                    at: 0,
                    from: ArraySource(bytes),
                    limit: 1 << 20,
                    expecting: nil
                )
                if case .failed(let error) = report.end { throw error }
                try await storage.synchronize(id)
                try await storage.empty(id)
                bench.calls.recover()
                #expect(try await storage.durableLength(of: id) == 0)
            } catch {
                try check(error)
                bench.calls.recover()
                guard let length = try? await storage.durableLength(of: id) else {
                    #expect(try bench.files(of: id).isEmpty || plan.lasts)
                    return
                }
                #expect(try await BlobStorageContract.contents(of: id, in: storage) == Array(bytes.prefix(Int(length))))
            }
            try await storage.remove(id)
            #expect(try bench.files(of: id) == [])
        }
    }

    /// The last one does not fit its place, so all are copied.
    private static let pieces = [65_536, 65_536, 100_000].enumerated().map { index, count in
        BlobStorageContract.pattern(count, seed: UInt8(index + 1))
    }

    @Test("parts are stored, joined and removed in spite of a fault", arguments: plans, [false, true])
    func parts(plan: Plan, isWhole: Bool) async throws {
        try await sweep(plan, .acknowledged) { bench in
            let storage = bench.storage
            var id = DiskBench.newID()
            _ = try await persist(bench) { () async throws(UploadError) in
                id = DiskBench.newID()
                try await storage.createForParts(NewBlob(id, createdAt: id.createdAt))
            }
            var records: [PartRecord] = []
            for (index, piece) in Self.pieces.enumerated() {
                let number = index + 1
                let upload = id
                let location = try await persist(bench) { () async throws(UploadError) in
                    let part = NewPart(number: number, size: Int64(piece.count), minimumSize: 0)
                    guard isWhole else {
                        return try await storage.storePart(
                            part,
                            of: upload,
                            replacing: nil,
                            from: ArraySource(piece),
                            verifying: { [] }
                        )
                    }
                    return try await storage.storePart(
                        part,
                        of: upload,
                        replacing: nil,
                        content: piece,
                        hashing: { _ in },
                        verifying: { [] }
                    )
                }
                records.append(
                    PartRecord(
                        number: number,
                        size: Int64(piece.count),
                        md5: [],
                        crc64: 0,
                        location: location,
                        storedAt: id.createdAt
                    )
                )
            }
            let upload = id
            let parts = records
            try await persist(bench) { () async throws(UploadError) in try await storage.join(parts, of: upload) }
            bench.calls.recover()
            #expect(try await BlobStorageContract.contents(of: id, in: storage) == Self.pieces.flatMap(\.self))
            try await storage.remove(id)
            #expect(try bench.files(of: id) == [])
        }
    }

    @Test("bytes with the right digest whose marker stays are not reported as stored, and are discarded")
    func markerThatStays() async throws {
        let bench = try Bench(.acknowledged)
        let id = DiskBench.newID()
        try await bench.storage.create(id)
        let source = ScriptedSource([.bytes(Self.bytes)])
        bench.calls.plan(0, of: "unlink", .fails(EIO), times: .max)
        let report = await bench.storage.append(
            to: id,
            at: 0,
            from: source,
            limit: 1 << 30,
            expecting: sha256(Self.bytes)
        )
        #expect(report.stored == 0 && report.end.code == .storageFailure)
        #expect(try await bench.storage.currentLength(of: id) == 0)
        bench.calls.recover()
        #expect(try await bench.storage.durableLength(of: id) == 0)
        #expect(try bench.files(of: id).count == 1)
    }

    @Test("a file without a name is closed by the pool, and not where its last reference ends")
    func closing() async throws {
        let temporary = try TemporaryDirectory()
        let calls = ScriptedCalls()
        let pool = BlockingPool(threads: 1, label: "test-disk", calls: calls)
        var file: OpenFile? = await pool.run { io in try? io.openUnnamed(in: temporary.path) }
        let descriptor = try #require(file?.descriptor)
        let mayEnd = DispatchSemaphore(value: 0)
        pool.submit { _ in mayEnd.wait() }
        file = nil
        // The only thread of the pool is busy.
        #expect(calls.closed == [])
        mayEnd.signal()
        await pool.run {}
        #expect(calls.closed == [descriptor])
    }
}
