/// A snapshot of the bytes in a `PartBuffer`; it stays valid if the buffer is discarded.
struct BufferedBytes: Sendable {
    let count: Int64
    private let slabs: [Slab]
    private let inMemory: Int64
    private let file: SpoolFile?

    init(_ slabs: [Slab], _ inMemory: Int64, _ file: SpoolFile?, _ count: Int64) {
        self.slabs = slabs
        self.inMemory = inMemory
        self.file = file
        self.count = count
    }

    /// Contiguous bytes from `offset`: up to the end of a slab, or as many as fit into a slab.
    ///
    /// - Parameters:
    ///   - offset: Less than `count`.
    ///   - least: Minimum number of bytes, at most the size of a slab; fewer are returned only at the end.
    ///   - spare: Receives bytes that are not contiguous; allocated on demand.
    /// - Returns: Valid while this and `spare` are retained; `nil` if the file cannot be read.
    func piece(at offset: Int64, least: Int, spare: inout Slab?) async -> UnsafeRawBufferPointer? {
        var slab = UnsafeRawBufferPointer(start: nil, count: 0)
        if offset < inMemory {
            let start = Int(offset % Int64(Slab.size))
            let count = min(Slab.size - start, Int(inMemory - offset))
            slab = UnsafeRawBufferPointer(rebasing: slabs[Int(offset / Int64(Slab.size))].bytes[start..<start + count])
            if count >= least || offset + Int64(count) == self.count { return slab }
        }
        // The rest of the memory, and what follows it.
        let wanted = Int(min(Int64(Slab.size), count - offset))
        guard let file, slab.count <= wanted else { return nil }
        let own = spare ?? SlabStore.shared.make()
        spare = own
        own.room.copyMemory(from: slab)
        let position = offset - inMemory + Int64(slab.count)
        guard await file.read(at: position, into: own, slab.count..<wanted) else { return nil }
        return UnsafeRawBufferPointer(rebasing: own.bytes[..<wanted])
    }
}
