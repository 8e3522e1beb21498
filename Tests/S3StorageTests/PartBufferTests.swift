import Bytes
import Digests
import Foundation
import HTTPClient
import SluiceTesting
import Synchronization
import SystemIO
import Testing
import Transport
import UploadModel

@testable import S3Storage

@Suite("Buffered bytes of parts", .timeLimit(.minutes(10)))
struct PartBufferTests {
    private static func read(_ buffer: PartBuffer, at offset: Int64, _ count: Int) -> ([UInt8], HTTPContentRead) {
        var bytes = [UInt8](repeating: 0, count: count)
        let result = bytes.withUnsafeMutableBytes { buffer.read(at: offset, into: $0) }
        if case .bytes(let read) = result { return (Array(bytes.prefix(read)), result) }
        return ([], result)
    }

    /// Like `read`, but waits until bytes of a file are in memory.
    private static func readWaiting(
        _ buffer: PartBuffer,
        at offset: Int64,
        _ count: Int
    ) async -> ([UInt8], HTTPContentRead) {
        let (stream, wakes) = AsyncStream.makeStream(of: Void.self)
        buffer.whenReadable { wakes.yield() }
        var iterator = stream.makeAsyncIterator()
        while true {
            let found = read(buffer, at: offset, count)
            if found.1 != .later { return found }
            await iterator.next()
        }
    }

    @Test("they can be read in any pieces and again from any offset, after the prepended bytes")
    func reading() async {
        let bytes = BlobStorageContract.pattern(300_000)
        let buffer = PartBuffer()
        for start in stride(from: 0, to: bytes.count, by: 7001) {
            buffer.append(Array(bytes[start..<min(start + 7001, bytes.count)]))
        }
        let front = BlobStorageContract.pattern(1000, seed: 9)
        buffer.prepend(front)
        let all = front + bytes
        #expect(buffer.count == Int64(all.count))
        // 301,000 bytes in slabs.
        #expect(buffer.memory == 5 * Slab.size)
        #expect(buffer.memory(adding: 5 * Slab.size - all.count) == 0)
        #expect(buffer.memory(adding: 5 * Slab.size - all.count + 1) == Slab.size)
        #expect(await buffer.snapshot?.all() == all)
        for step in [1 << 20, 65_536, 999, 64_000] {
            var position = 0
            while position < all.count {
                let (piece, _) = Self.read(buffer, at: Int64(position), step)
                #expect(!piece.isEmpty)
                guard !piece.isEmpty else { return }
                #expect(all[position..<position + piece.count].elementsEqual(piece))
                position += piece.count
            }
        }
        // Backwards, like a request that is repeated.
        for position in [250_000, 100_000, 0] {
            #expect(Self.read(buffer, at: Int64(position), 10).0 == Array(all[position..<position + 10]))
        }
    }

    @Test("a reader that waits is woken once when bytes arrive, or when none will")
    func waking() async {
        let buffer = PartBuffer()
        let woken = Counter()
        buffer.whenReadable { woken.add() }
        buffer.append([1, 2])
        #expect(woken.value == 0)
        #expect(Self.read(buffer, at: 2, 5).1 == .later)
        buffer.append([3])
        buffer.append([4])
        #expect(woken.value == 1)
        #expect(Self.read(buffer, at: 2, 5).0 == [3, 4])
        #expect(Self.read(buffer, at: 4, 5).1 == .later)
        let snapshot = buffer.snapshot
        buffer.stopReaders()
        #expect(woken.value == 2)
        #expect(Self.read(buffer, at: 0, 5).1 == .failed)
        // Snapshots still hold the bytes.
        #expect(await snapshot?.all() == [1, 2, 3, 4])
    }

    @Test("a buffer is complete when it is closed and its digest is known, and never after it was stopped")
    func whole() async {
        let buffer = PartBuffer()
        buffer.setLength(3)
        buffer.append([1, 2, 3])
        async let waiting = buffer.whole()
        while !buffer.isAwaited { await Task.yield() }
        buffer.close()
        #expect(buffer.isAwaited)
        buffer.setMD5([9])
        #expect(!buffer.isAwaited)
        #expect(await waiting)
        #expect(await buffer.whole())
        #expect(buffer.md5 == [9])
        let stopped = PartBuffer()
        async let never = stopped.whole()
        while !stopped.isAwaited { await Task.yield() }
        stopped.stopReaders()
        #expect(await !never)
    }

    @Test("bytes after an offset are in a file, whose space is released with it")
    func spooled() async throws {
        let directory = try TemporaryDirectory()
        let pool = BlockingPool(threads: 1, label: "test")
        let spool = Spool(directory: directory.path, capacity: 10_000, pool: pool)
        let bytes = BlobStorageContract.pattern(9000)
        do {
            let buffer = PartBuffer()
            buffer.append(Array(bytes[..<1000]))
            let file = try #require(await spool.makeFile())
            buffer.spool(to: file)
            for start in stride(from: 1000, to: 9000, by: 4000) {
                let piece = Array(bytes[start..<start + 4000])
                #expect(await file.append(piece))
                buffer.appendSpooled(piece.count)
            }
            #expect(buffer.memory == Slab.size)
            #expect(await buffer.snapshot?.all() == bytes)
            #expect(Self.read(buffer, at: 990, 100).0 == Array(bytes[990..<1000]))
            #expect(await Self.readWaiting(buffer, at: 1000, 100).0 == Array(bytes[1000..<1100]))
            #expect(await Self.readWaiting(buffer, at: 1100, 100).0 == Array(bytes[1100..<1200]))
            #expect(await Self.readWaiting(buffer, at: 8999, 100).0 == [bytes[8999]])
            // Again, like a request that is repeated.
            #expect(await Self.readWaiting(buffer, at: 5000, 5000).0 == Array(bytes[5000...]))
            #expect(Self.read(buffer, at: 9000, 100).1 == .later)
            // More than the capacity is refused, without affecting earlier bytes.
            #expect(await !file.append([UInt8](repeating: 0, count: 3000)))
            #expect(await buffer.snapshot?.all() == bytes)
        }
        let next = try #require(await spool.makeFile())
        #expect(await next.append([UInt8](repeating: 0, count: 10_000)))
        #expect(spool.filesMade == 2)
        #expect(try FileManager.default.contentsOfDirectory(atPath: directory.path) == [])
        #expect(await Spool(directory: directory.path, capacity: 0, pool: pool).makeFile() == nil)
        #expect(await Spool(directory: "/nonexistent", capacity: 1, pool: pool).makeFile() == nil)
    }

    @Test("a reader of a spooled part never reads the file itself; a failed read is told once, and can be repeated")
    func readAhead() async throws {
        let directory = try TemporaryDirectory()
        let calls = ScriptedCalls()
        let pool = BlockingPool(threads: 1, label: "test", calls: calls)
        let spool = Spool(directory: directory.path, capacity: 1 << 30, pool: pool)
        let bytes = BlobStorageContract.pattern(700_000)
        let buffer = PartBuffer()
        let file = try #require(await spool.makeFile())
        buffer.spool(to: file)
        #expect(await file.append(bytes))
        buffer.appendSpooled(bytes.count)
        buffer.close()
        calls.plan(1, of: "pread", .fails(EIO))
        var read: [UInt8] = []
        var failures = 0
        while read.count < bytes.count {
            // A pool that is busy delays the reader, but does not block it.
            let mayEnd = DispatchSemaphore(value: 0)
            pool.submit { _ in mayEnd.wait() }
            let before = calls.names.count
            let first = Self.read(buffer, at: Int64(read.count), 50_000)
            #expect(calls.names.count == before)
            mayEnd.signal()
            let (piece, result) =
                first.1 == .later ? await Self.readWaiting(buffer, at: Int64(read.count), 50_000) : first
            read += piece
            if result == .failed { failures += 1 }
            try #require(failures < 2)
        }
        #expect(failures == 1)
        #expect(read == bytes)
    }

    @Test("a full disk under the spool is reported without losing bytes", .enabled(if: SmallFileSystem.isAvailable))
    func fullDisk() async throws {
        let disk = try SmallFileSystem(bytes: 1 << 20)
        let pool = BlockingPool(threads: 1, label: "test")
        let spool = Spool(directory: disk.path, capacity: 1 << 30, pool: pool)
        let buffer = PartBuffer()
        let file = try #require(await spool.makeFile())
        buffer.spool(to: file)
        let piece = BlobStorageContract.pattern(400_000)
        var kept: [UInt8] = []
        while await file.append(piece) {
            buffer.appendSpooled(piece.count)
            kept += piece
            #expect(kept.count < 2 << 20)
        }
        #expect(!kept.isEmpty)
        #expect(await buffer.snapshot?.all() == kept)
    }

    @Test("memory is taken in order of arrival, released, and waited for within a limit")
    func memory() async {
        let pool = MemoryPool(capacity: 100)
        #expect(pool.take(60))
        #expect(!pool.take(60))
        #expect(await !pool.take(60, within: .milliseconds(10)))
        async let first = pool.take(90, within: .seconds(600))
        while pool.take(1) { pool.release(1) }
        // Smaller, but later.
        #expect(!pool.take(10))
        pool.release(60)
        #expect(await first)
        #expect(pool.used == 90)
        pool.release(90)
        // A request for more than the capacity means all of it.
        #expect(await pool.take(1000, within: .seconds(600)))
        #expect(pool.used == 100)
        pool.release(1000)
        #expect(pool.used == 0)
    }
}

@Suite("The memory pool of all uploads", .timeLimit(.minutes(10)))
struct MemoryPoolTests {
    /// Who was served, in this order.
    private final class Served: Sendable {
        private let list = Mutex<[String]>([])

        var names: [String] { list.withLock { $0 } }

        func add(_ name: String) { list.withLock { $0.append(name) } }
    }

    @Test("a waiter behind one that times out is served at once")
    func servedAfterOneGaveUp() async {
        let pool = MemoryPool(capacity: 10)
        #expect(pool.take(5))
        async let tooMuch = pool.take(6, within: .milliseconds(200))
        try? await Task.sleep(for: .milliseconds(50))
        async let little = pool.take(5, within: .seconds(600))
        #expect(await !tooMuch)
        #expect(await little)
        #expect(pool.used == 10)
    }

    @Test("of those who wait, the user who has the least is served first")
    func turns() async {
        let pool = MemoryPool(capacity: 100)
        let (eve, bob) = (SubjectName("eve"), SubjectName("bob"))
        for _ in 0..<10 { #expect(pool.take(10, for: eve)) }
        let served = Served()
        await withTaskGroup(of: Void.self) { tasks in
            for (waiting, user) in [eve, eve, eve, bob, nil].enumerated() {
                tasks.addTask {
                    #expect(await pool.take(60, within: .seconds(600), for: user))
                    served.add(user?.text ?? "the app")
                }
                while pool.waiting <= waiting { await Task.yield() }
            }
            // Each of them needs what the one before it returns.
            for _ in 0..<6 { pool.release(10, of: eve) }
            while served.names != ["bob"] { await Task.yield() }
            pool.release(60, of: bob)
            while served.names.count < 2 { await Task.yield() }
            pool.release(60, of: nil)
            while served.names.count < 3 { await Task.yield() }
            pool.release(60, of: eve)
            while served.names.count < 4 { await Task.yield() }
            pool.release(60, of: eve)
        }
        #expect(served.names == ["bob", "the app", "eve", "eve", "eve"])
        #expect(pool.used == 100)
    }

    @Test("a user's part without a length has at most half of memory and spool")
    func partsWithoutLength() async throws {
        let store = try FakeStore()
        let records = InMemoryBlobRecords()
        let storage = store.storage(records, memory: 1 << 20)
        let id = UploadID.generate(at: Date(timeIntervalSince1970: 1_750_000_000))
        var record = BlobRecord(
            id: id,
            bucket: "bucket",
            key: "k",
            contentType: nil,
            partSize: 0,
            createdAt: id.createdAt
        )
        record.multipart = "m"
        try await records.insert(record)
        let bytes = [UInt8](repeating: 1, count: 600_000)
        func put(_ size: Int64?, for user: String?) async throws(UploadError) {
            _ = try await StorageUser.storing(for: user) { () async throws(UploadError) -> String in
                try await storage.storePart(
                    NewPart(number: 1, size: size, minimumSize: 1 << 30),
                    of: id,
                    replacing: nil,
                    from: ArraySource(bytes),
                    verifying: { Digest.hash(bytes, .md5) }
                )
            }
        }
        let error = await #expect(throws: UploadError.self) { try await put(nil, for: "eve") }
        #expect(error?.code == .tooLarge(limit: 512 << 10))
        #expect(storage.memory.used == 0)
        try await put(nil, for: nil)
        try await put(600_000, for: "eve")
        #expect(storage.memory.used == 0)
        await storage.finish(within: .seconds(600))
        await store.shutDown()
    }

    @Test("the spool files of a user have at most half of it together, a single one and those of the app all")
    func spoolShares() async throws {
        let directory = try TemporaryDirectory()
        let pool = BlockingPool(threads: 2, label: "test.spool")
        let spool = Spool(directory: directory.path, capacity: 100, pool: pool)
        let (eve, bob) = (SubjectName("eve"), SubjectName("bob"))
        let ten = [UInt8](repeating: 1, count: 10)
        var first = await spool.makeFile(for: eve)
        for _ in 0..<4 { #expect(await first?.append(ten) == true) }
        do {
            let second = try #require(await spool.makeFile(for: eve))
            #expect(await second.append(ten))
            #expect(await !second.append(ten))
            #expect(await first?.append(ten) == false)
            #expect(await spool.makeFile(for: eve) == nil)
            let other = try #require(await spool.makeFile(for: bob))
            for _ in 0..<5 { #expect(await other.append(ten)) }
            #expect(await !other.append(ten))
        }
        // They are gone.
        for _ in 0..<6 { #expect(await first?.append(ten) == true) }
        #expect(await first?.append(ten) == false)
        first = nil
        let (one, two) = (await spool.makeFile(for: nil), await spool.makeFile(for: nil))
        for _ in 0..<5 {
            #expect(await one?.append(ten) == true)
            #expect(await two?.append(ten) == true)
        }
    }
}

extension BufferedBytes {
    /// All bytes; `nil` if they cannot be read.
    fileprivate func all() async -> [UInt8]? {
        var bytes: [UInt8] = []
        var spare: Slab?
        while Int64(bytes.count) < count {
            guard let piece = await piece(at: Int64(bytes.count), least: 1, spare: &spare) else { return nil }
            bytes += piece
        }
        return bytes
    }
}
