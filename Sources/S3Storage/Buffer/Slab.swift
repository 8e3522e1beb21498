internal import Synchronization

/// A piece of memory of one size, which goes back to its store when the last reference goes.
///
/// Unchecked, because `PartBuffer` writes it before it shares it: behind the bytes that are there nobody reads.
final class Slab: @unchecked Sendable {
    static let size = 64 << 10

    private let memory: UnsafeMutableRawPointer
    private let store: SlabStore

    fileprivate init(_ memory: UnsafeMutableRawPointer, of store: SlabStore) {
        self.memory = memory
        self.store = store
    }

    deinit { store.takeBack(memory) }

    /// Puts bytes at `offset`, where nobody reads yet; they end before the slab does.
    func write(_ bytes: UnsafeRawBufferPointer, at offset: Int) {
        precondition(offset >= 0 && offset + bytes.count <= Self.size, "bytes end within a slab")
        UnsafeMutableRawBufferPointer(start: memory + offset, count: bytes.count).copyMemory(from: bytes)
    }

    /// Its memory, of which only what was written before may be read, and only while this is held.
    var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: memory, count: Self.size) }

    /// The same, to be written by whoever alone holds it.
    var room: UnsafeMutableRawBufferPointer { UnsafeMutableRawBufferPointer(start: memory, count: Self.size) }

    /// Copies bytes from `offset` on, which were written before.
    func read(at offset: Int, into buffer: UnsafeMutableRawBufferPointer) {
        precondition(offset >= 0 && offset + buffer.count <= Self.size, "bytes end within a slab")
        buffer.copyMemory(from: UnsafeRawBufferPointer(start: memory + offset, count: buffer.count))
    }
}

/// Memory for all bytes that wait for the store.
///
/// Taken from the system in large blocks and used again and again, so that it takes no more than was in use at one time,
/// however the sizes of pieces change.
final class SlabStore: Sendable {
    /// Invariant: each free piece is in the list once, and in no slab.
    private struct Contents: @unchecked Sendable {
        var free: [UnsafeMutableRawPointer] = []
    }

    static let shared = SlabStore()

    private static let slabsPerBlock = 16
    private let contents = Mutex(Contents())

    func make() -> Slab {
        let memory = contents.withLock { contents in
            if contents.free.isEmpty {
                // Never given back to the system: its slabs are somewhere in use nearly always.
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
