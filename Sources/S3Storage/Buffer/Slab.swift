internal import Synchronization

/// A block of memory of fixed size; it returns to its store when the last reference is released.
///
/// Unchecked because `PartBuffer` writes bytes before it shares them: bytes not written yet are never read.
final class Slab: @unchecked Sendable {
    static let size = 64 << 10

    private let memory: UnsafeMutableRawPointer
    private let store: SlabStore

    fileprivate init(_ memory: UnsafeMutableRawPointer, of store: SlabStore) {
        self.memory = memory
        self.store = store
    }

    deinit { store.takeBack(memory) }

    /// Writes bytes at `offset`, where nothing reads yet; they must fit into the slab.
    func write(_ bytes: UnsafeRawBufferPointer, at offset: Int) {
        precondition(offset >= 0 && offset + bytes.count <= Self.size, "bytes end within a slab")
        UnsafeMutableRawBufferPointer(start: memory + offset, count: bytes.count).copyMemory(from: bytes)
    }

    /// Its memory.
    ///
    /// Only bytes that were written may be read, and only while the slab is retained.
    var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: memory, count: Self.size) }

    /// The same, for writing by the only owner.
    var room: UnsafeMutableRawBufferPointer { UnsafeMutableRawBufferPointer(start: memory, count: Self.size) }

    /// Copies bytes from `offset`, which must have been written.
    func read(at offset: Int, into buffer: UnsafeMutableRawBufferPointer) {
        precondition(offset >= 0 && offset + buffer.count <= Self.size, "bytes end within a slab")
        buffer.copyMemory(from: UnsafeRawBufferPointer(start: memory + offset, count: buffer.count))
    }
}

/// Memory for all bytes that wait for the store.
///
/// It is allocated in large blocks and reused, so it never exceeds the maximum that was in use at one time, however the
/// sizes of pieces vary.
final class SlabStore: Sendable {
    /// Invariant: each free piece is in the list once, and belongs to no slab.
    private struct Contents: @unchecked Sendable {
        var free: [UnsafeMutableRawPointer] = []
    }

    static let shared = SlabStore()

    private static let slabsPerBlock = 16
    private let contents = Mutex(Contents())

    func make() -> Slab {
        let memory = contents.withLock { contents in
            if contents.free.isEmpty {
                // Never released to the system: some of its slabs are nearly always in use.
                let block = UnsafeMutableRawPointer.allocate(
                    byteCount: Slab.size * Self.slabsPerBlock,
                    alignment: 4096
                )
                contents.free = (0..<Self.slabsPerBlock).map { block + $0 * Slab.size }
            }
            return contents.free.removeLast()
        }
        return Slab(memory, of: self)
    }

    fileprivate func takeBack(_ memory: UnsafeMutableRawPointer) {
        contents.withLock { $0.free.append(memory) }
    }
}
