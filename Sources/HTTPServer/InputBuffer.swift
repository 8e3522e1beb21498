internal import SystemIO
internal import Transport

/// Memory for the input buffers of one loop, where it must be used.
///
/// The block that was given back last is taken next, because it is in the CPU caches.
///
/// Invariant: all of `idle` are allocations of `blockSize` bytes that nothing else refers to.
final class InputMemory {
    static let blockSize = 4096
    private static let maximumIdle = 64

    private var idle: [UnsafeMutableRawPointer] = []

    deinit {
        for block in idle { block.deallocate() }
    }

    fileprivate func take(_ capacity: Int) -> UnsafeMutableRawPointer {
        if capacity == Self.blockSize, let block = idle.popLast() { return block }
        return .allocate(byteCount: capacity, alignment: 16)
    }

    fileprivate func put(_ block: UnsafeMutableRawPointer, capacity: Int) {
        if capacity == Self.blockSize, idle.count < Self.maximumIdle {
            idle.append(block)
        } else {
            block.deallocate()
        }
    }
}

/// Bytes that were read from a connection and not used yet.
///
/// Reading takes memory and `releaseIfEmpty` gives it back, so an idle connection has none.
///
/// Invariant: `storage` is `nil` or holds `capacity` bytes, of which `start..<end` are initialised and unused.
final class InputBuffer {
    private let memory: InputMemory
    private var storage: UnsafeMutableRawPointer?
    private var capacity = 0
    private var start = 0
    private var end = 0

    init(_ memory: InputMemory) { self.memory = memory }

    /// On any thread, so the memory is not given back.
    deinit {
        storage?.deallocate()
    }

    var count: Int { end - start }

    var isEmpty: Bool { start == end }

    /// Reads once from `channel`, after making room for at least `room` bytes.
    func fill(from channel: Channel, room: Int) -> IOResult {
        let base = reserve(room)
        let result = channel.read(into: UnsafeMutableRawBufferPointer(start: base + end, count: capacity - end))
        if case .moved(let count) = result { end += count }
        return result
    }

    /// Calls `body` with the unused bytes.
    func withSpan<Result, Failure: Error>(_ body: (Span<UInt8>) throws(Failure) -> Result) throws(Failure) -> Result {
        let bytes = UnsafeBufferPointer(
            start: storage.map { ($0 + start).assumingMemoryBound(to: UInt8.self) },
            count: count
        )
        return try body(Span(_unsafeElements: bytes))
    }

    /// Marks bytes as used.
    ///
    /// - Precondition: `amount <= count`.
    func consume(_ amount: Int) {
        precondition(amount <= count)
        start += amount
        if start == end {
            start = 0
            end = 0
        }
    }

    /// Removes and returns at most `maximum` bytes.
    func take(_ maximum: Int) -> [UInt8] {
        let amount = min(maximum, count)
        let bytes = [UInt8](
            UnsafeRawBufferPointer(start: storage.map { UnsafeRawPointer($0 + start) }, count: amount)
        )
        consume(amount)
        return bytes
    }

    func releaseIfEmpty() {
        guard isEmpty, let storage else { return }
        memory.put(storage, capacity: capacity)
        self.storage = nil
        capacity = 0
    }

    private func reserve(_ room: Int) -> UnsafeMutableRawPointer {
        if let storage, capacity - end >= room { return storage }
        if let storage, capacity - count >= room {
            storage.copyMemory(from: storage + start, byteCount: count)
            end -= start
            start = 0
            return storage
        }
        let newCapacity = max(InputMemory.blockSize, (count + room).nextPowerOfTwo)
        let newStorage = memory.take(newCapacity)
        if let storage {
            newStorage.copyMemory(from: storage + start, byteCount: count)
            memory.put(storage, capacity: capacity)
        }
        end -= start
        start = 0
        storage = newStorage
        capacity = newCapacity
        return newStorage
    }
}

extension Int {
    fileprivate var nextPowerOfTwo: Int {
        self <= 1 ? 1 : 1 << (Int.bitWidth - (self - 1).leadingZeroBitCount)
    }
}
