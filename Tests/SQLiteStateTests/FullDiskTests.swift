import Foundation
import SluiceTesting
import SystemIO
import Testing
import UploadCore
import UploadModel

@testable import SQLiteState

/// What the state records on a disk without a free block.
@Suite(
    "State on a full disk",
    .enabled(
        if: SmallFileSystem.isAvailable,
        "this process may not mount a file system (it needs to be the superuser)"
    ),
    .timeLimit(.minutes(10))
)
struct FullDiskTests {
    private static let start = Date(timeIntervalSince1970: 1_750_000_000)

    /// A state with a reserve of 2 MiB, on a file system of 12 MiB.
    private struct Bench {
        let fileSystem: SmallFileSystem
        let reserve: SpaceReserve
        private(set) var state: SQLiteState
        private let io = BlockingIO.onCallingThread

        init() throws {
            fileSystem = try SmallFileSystem(bytes: 12 << 20)
            reserve = SpaceReserve(try io.open(fileSystem.path + "/reserve", O_RDWR | O_CREAT), size: 2 << 20)
            #expect(reserve.hasRoom(io))
            state = try Self.open(fileSystem.path, reserve)
        }

        private static func open(_ folder: String, _ reserve: SpaceReserve) throws -> SQLiteState {
            let pool = BlockingPool(threads: 3, label: "test-state")
            return try SQLiteState(path: folder + "/state.sqlite", pool: pool, reserve: reserve)
        }

        func takeAll() throws {
            let file = try io.open(fileSystem.path + "/ballast", O_WRONLY | O_CREAT)
            let size = try io.size(of: file)
            #expect(io.write([UInt8](repeating: 1, count: 12 << 20), to: file, at: size).failure?.errno == ENOSPC)
        }

        /// Takes a part of the reserve, as another process can while work uses it.
        func steal() throws {
            try reserve.lend(io) { (_: any Error) in
                false
            } to: {
                Result { try takeAll() }
            }.get()
            #expect(!isWhole)
        }

        /// Gives back less than what was stolen.
        func giveBack() throws {
            let file = try io.open(fileSystem.path + "/ballast", O_WRONLY)
            try io.truncate(file, to: io.size(of: file) - (768 << 10))
        }

        func removeBallast() throws { try io.remove(fileSystem.path + "/ballast") }

        var reserveSize: Int64 { get throws { try io.size(of: fileSystem.path + "/reserve") } }

        var isWhole: Bool { reserve.hasRoom(io) }

        /// Records 150 uploads, and then more until nothing can be recorded.
        func fill() async throws -> [Upload] {
            var made: [Upload] = []
            var failures = 0
            while failures < 5 {
                if made.count >= 150 { try takeAll() }
                let upload = FullDiskTests.upload(made.count)
                do throws(UploadError) {
                    try await state.insert(upload, consuming: nil)
                    made.append(upload)
                    failures = 0
                } catch {
                    #expect(error.code == .storageFull)
                    failures += 1
                }
            }
            try takeAll()
            return made
        }

        mutating func reopen() throws {
            state.close()
            try takeAll()
            state = try Self.open(fileSystem.path, reserve)
        }
    }

    private static func upload(_ number: Int) -> Upload {
        let values = ["note": String(repeating: "x", count: 3000)]
        return Upload(
            id: UploadID.generate(at: start.addingTimeInterval(Double(number))),
            dialect: "tus",
            subject: "alice",
            principal: "key_1",
            length: 5,
            metadata: UploadMetadata(raw: "", values: values),
            createdAt: start
        )
    }

    @Test("deletions and revocations are recorded, also after the state was opened again", arguments: [false, true])
    func frees(reopens: Bool) async throws {
        var bench = try Bench()
        let made = try await bench.fill()
        #expect(made.count > 100)
        if reopens { try bench.reopen() }
        for upload in made.prefix(50) {
            try bench.takeAll()
            #expect(try await bench.state.end(upload.id, as: .terminated, at: Self.start))
        }
        // Many that share transactions.
        try await withThrowingTaskGroup(of: Bool.self) { [state = bench.state] group in
            for upload in made.dropFirst(50).prefix(40) {
                group.addTask { try await state.end(upload.id, as: .terminated, at: Self.start) }
            }
            for try await hasEnded in group { #expect(hasEnded) }
        }
        let revocation = Revocation(subject: "bob", issuedBefore: Self.start, createdAt: Self.start)
        try await bench.state.insert(revocation)
        try await bench.state.forgetEnded(before: .distantFuture, dead: .distantFuture)
        #expect(try await bench.state.upload(made[0].id) == nil)
        bench.state.close()
    }

    private static func record(_ key: String) -> DialectRecord {
        DialectRecord(kind: "k", key: key, text: "{}", createdAt: start)
    }

    @Test("what does not free space waits until the reserve is whole, except within work that frees some")
    func waits() async throws {
        let bench = try Bench()
        _ = try await bench.fill()
        try bench.steal()
        let error = await #expect(throws: UploadError.self) {
            try await bench.state.insert(Self.record("a"), at: Self.start)
        }
        #expect(error?.code == .storageFull)
        let isNew = try await FreeingWork.$isRunning.withValue(true) {
            try await bench.state.insert(Self.record("a"), at: Self.start)
        }
        #expect(isNew)
        try bench.removeBallast()
        #expect(try await bench.state.insert(Self.record("b"), at: Self.start))
        #expect(bench.isWhole)
        bench.state.close()
    }

    @Test("what only adds records, as often as it is repeated, leaves half of the reserve to what frees space")
    func additions() async throws {
        let bench = try Bench()
        let made = try await bench.fill()
        var count = 0
        await #expect(throws: UploadError.self) {
            try await FreeingWork.$isRunning.withValue(true) {
                try await FreeingWork.$onlyAdds.withValue(true) {
                    while count < 100_000 {
                        count += 1
                        if count % 100 == 0 { try bench.takeAll() }
                        _ = try await bench.state.insert(Self.record("added-\(count)"), at: Self.start)
                    }
                }
            }
        }
        // Some are recorded: a token can be revoked on a full disk.
        #expect(count > 1)
        #expect(try bench.reserveSize >= 1 << 20)
        try bench.takeAll()
        for upload in made.prefix(20) {
            #expect(try await bench.state.end(upload.id, as: .terminated, at: Self.start))
        }
        let revocation = Revocation(subject: "bob", issuedBefore: Self.start, createdAt: Self.start)
        try await bench.state.insert(revocation)
        bench.state.close()
    }

    @Test("deliveries are claimed and settled although nothing else is recorded, and use nothing of the reserve")
    func deliveries() async throws {
        let bench = try Bench()
        _ = try await bench.fill()
        try bench.steal()
        try bench.giveBack()
        let left = try bench.reserveSize
        let claimed = try await bench.state.claimDeliveries(limit: 5, for: 60)
        #expect(claimed.count == 5)
        for event in claimed { try await bench.state.settle(event, as: .delivered) }
        #expect(try await bench.state.claimPulls(limit: 5, for: 60).isEmpty)
        #expect(try bench.reserveSize == left)
        await #expect(throws: UploadError.self) { try await bench.state.insert(Self.record("a"), at: Self.start) }
        bench.state.close()
    }
}
