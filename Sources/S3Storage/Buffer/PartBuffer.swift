internal import Digests
internal import HTTPClient
internal import Synchronization

/// Bytes to be sent to the store.
///
/// An upload writes them while requests read them; a request that is repeated starts again at the first byte.
///
/// The bytes are in memory, and from some offset on in a spool file. The caller accounts for the memory.
final class PartBuffer: HTTPRequestContent, Sendable {
    private struct Contents {
        /// All are full except the last one.
        var slabs: [Slab] = []
        /// Number of bytes in `slabs`.
        var inMemory: Int64 = 0
        /// Holds the bytes after `inMemory`.
        var file: SpoolFile?
        var count: Int64 = 0
        /// Final length in bytes; `nil` while it is unknown.
        var length: Int64?
        /// Whether all bytes have been added.
        var isWhole = false
        /// MD5 of all bytes; `nil` while it is unknown.
        var md5: [UInt8]?
        /// Whether reading has been stopped.
        var isStopped = false
        var wake: (@Sendable () -> Void)?
        var isReaderWaiting = false
        var readAhead = ReadAhead()
        var completion: CheckedContinuation<Bool, Never>?
    }

    /// Bytes of the file in memory, so that the reader, which must not block, need not read the file.
    private struct ReadAhead {
        /// Where the bytes begin, in the whole buffer.
        var offset: Int64 = 0
        /// Holds `count` bytes, as many as libcurl takes at once; not counted as memory.
        var slab: Slab?
        /// 0 after a failure.
        var count = 0
        var state = State.none

        enum State { case none, reading, done }
    }

    private let contents = Mutex(Contents())

    /// A buffer with the same bytes for other readers; it must not grow any more.
    func copy() -> PartBuffer {
        let copy = PartBuffer()
        contents.withLock { contents in
            copy.contents.withLock { other in
                other.slabs = contents.slabs
                other.inMemory = contents.inMemory
                other.file = contents.file
                other.count = contents.count
                other.length = contents.count
                other.isWhole = true
            }
        }
        return copy
    }

    // MARK: Writing

    /// Number of bytes added so far.
    var count: Int64 { contents.withLock { $0.count } }

    /// Memory of its slabs in bytes, full or not.
    var memory: Int { contents.withLock { $0.slabs.count * Slab.size } }

    /// Additional memory in bytes after adding `count` bytes at either end.
    func memory(adding count: Int) -> Int {
        contents.withLock { contents in
            let slabs = (Int(contents.inMemory) + count + Slab.size - 1) / Slab.size
            return (slabs - contents.slabs.count) * Slab.size
        }
    }

    /// The file for further bytes; `nil` while they are added in memory.
    var file: SpoolFile? { contents.withLock { $0.file } }

    var isLengthKnown: Bool { contents.withLock { $0.length != nil } }

    /// 16 bytes; `nil` while it is unknown.
    var md5: [UInt8]? { contents.withLock { $0.md5 } }

    init() {}

    /// A complete buffer with these bytes.
    convenience init(whole bytes: [UInt8]) {
        self.init()
        append(bytes)
        close()
        setMD5(Digest.hash(bytes, .md5))
    }

    /// Adds bytes in memory; must not be called after `spool`.
    func append(_ bytes: [UInt8]) {
        change { contents in
            Self.copy(bytes, into: &contents)
            contents.count = contents.inMemory
        }
    }

    private static func copy(_ bytes: [UInt8], into contents: inout Contents) {
        bytes.withUnsafeBytes { bytes in
            var position = 0
            while position < bytes.count {
                let offset = Int(contents.inMemory % Int64(Slab.size))
                if offset == 0 { contents.slabs.append(SlabStore.shared.make()) }
                let count = min(bytes.count - position, Slab.size - offset)
                contents.slabs[contents.slabs.count - 1].write(
                    UnsafeRawBufferPointer(rebasing: bytes[position..<position + count]),
                    at: offset
                )
                position += count
                contents.inMemory += Int64(count)
            }
        }
    }

    /// Inserts bytes before all others; only before the first read.
    func prepend(_ bytes: [UInt8]) {
        guard !bytes.isEmpty else { return }
        let old = contents.withLock { contents in
            let old = (contents.slabs, contents.inMemory)
            contents.slabs = []
            contents.inMemory = 0
            contents.count += Int64(bytes.count)
            Self.copy(bytes, into: &contents)
            return old
        }
        var left = Int(old.1)
        for slab in old.0 {
            let count = min(left, Slab.size)
            let piece = [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
                slab.read(
                    at: 0,
                    into: UnsafeMutableRawBufferPointer(UnsafeMutableBufferPointer(rebasing: buffer[..<count]))
                )
                initialized = count
            }
            contents.withLock { Self.copy(piece, into: &$0) }
            left -= count
        }
    }

    /// Redirects all further bytes to a file.
    func spool(to file: SpoolFile) {
        contents.withLock { $0.file = file }
    }

    /// Adds the number of bytes that were written to the file.
    func appendSpooled(_ count: Int) {
        change { $0.count += Int64(count) }
    }

    /// Sets the final length, which a request must announce before it sends the bytes.
    func setLength(_ length: Int64) {
        change { $0.length = length }
    }

    /// Marks the bytes as complete.
    func close() {
        change { contents in
            contents.length = contents.count
            contents.isWhole = true
        }
    }

    /// Sets the MD5 of the complete bytes.
    func setMD5(_ md5: [UInt8]) {
        change { $0.md5 = md5 }
    }

    /// Fails all requests that send the buffer: the rest will not be added.
    func stopReaders() {
        change { $0.isStopped = true }
    }

    /// Releases its memory, even if it is still referenced.
    ///
    /// - Returns: Number of bytes of memory released.
    func discard() -> Int {
        stopReaders()
        return contents.withLock { contents in
            let bytes = contents.slabs.count * Slab.size
            contents.slabs = []
            contents.inMemory = 0
            contents.count = 0
            contents.file = nil
            contents.readAhead = ReadAhead()
            return bytes
        }
    }

    private func change(_ change: (inout Contents) -> Void) {
        let (wake, completion, verdict) = contents.withLock { contents in
            change(&contents)
            let wakes = contents.isReaderWaiting
            contents.isReaderWaiting = false
            let verdict = Self.verdict(contents)
            return (wakes ? contents.wake : nil, verdict == nil ? nil : contents.completion.take(), verdict ?? false)
        }
        wake?()
        completion?.resume(returning: verdict)
    }

    private static func verdict(_ contents: borrowing Contents) -> Bool? {
        if contents.isStopped { return false }
        guard contents.isWhole else { return nil }
        return contents.md5 == nil ? nil : true
    }

    // MARK: Reading

    var length: Int64 { contents.withLock { $0.length ?? $0.count } }

    /// Waits until all bytes were added and their digest is known.
    ///
    /// - Returns: `false` if that will never happen.
    func whole() async -> Bool {
        await withCheckedContinuation { continuation in
            let verdict: Bool? = contents.withLock { contents in
                let verdict = Self.verdict(contents)
                if verdict == nil { contents.completion = continuation }
                return verdict
            }
            if let verdict { continuation.resume(returning: verdict) }
        }
    }

    /// Whether `whole` waits.
    var isAwaited: Bool { contents.withLock { $0.completion != nil } }

    func whenReadable(_ wake: @escaping @Sendable () -> Void) {
        contents.withLock { $0.wake = wake }
    }

    func read(at offset: Int64, into buffer: UnsafeMutableRawBufferPointer) -> HTTPContentRead {
        let (result, file) = contents.withLock { contents -> (HTTPContentRead, (SpoolFile, Int64, Int)?) in
            guard !contents.isStopped else { return (.failed, nil) }
            guard offset < contents.count else {
                contents.isReaderWaiting = true
                return (.later, nil)
            }
            guard offset >= contents.inMemory else {
                return (Self.copy(from: &contents, at: offset, into: buffer), nil)
            }
            return Self.readAhead(&contents, at: offset, into: buffer)
        }
        if let (file, position, count) = file {
            file.read(at: position, maximum: count) { [weak self] slab, count in self?.didRead(slab, count, of: file) }
        }
        return result
    }

    /// Copies bytes of the file, if they are in memory.
    ///
    /// - Returns: Also what has to be read from the file, if they are not.
    private static func readAhead(
        _ contents: inout Contents,
        at offset: Int64,
        into buffer: UnsafeMutableRawBufferPointer
    ) -> (HTTPContentRead, (SpoolFile, Int64, Int)?) {
        guard let file = contents.file else { return (.failed, nil) }
        let ahead = contents.readAhead
        switch ahead.state {
        case .reading:
            contents.isReaderWaiting = true
            return (.later, nil)
        case .done where ahead.offset == offset && ahead.count == 0:
            contents.readAhead = ReadAhead()
            return (.failed, nil)
        case .done where (ahead.offset..<ahead.offset + Int64(ahead.count)).contains(offset):
            let start = Int(offset - ahead.offset)
            let count = min(buffer.count, ahead.count - start)
            ahead.slab?.read(at: start, into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<count]))
            // The last ones of the buffer: their memory is not needed any more.
            if offset + Int64(count) == contents.count { contents.readAhead = ReadAhead() }
            return (.bytes(count), nil)
        case .none, .done:
            contents.readAhead = ReadAhead(offset: offset, state: .reading)
            contents.isReaderWaiting = true
            let count = Int(min(Int64(Slab.size), contents.count - offset))
            return (.later, (file, offset - contents.inMemory, count))
        }
    }

    /// The bytes at the offset of `readAhead` have arrived; none if the file could not be read.
    private func didRead(_ slab: Slab, _ count: Int, of file: SpoolFile) {
        change { contents in
            guard contents.file === file else { return }
            contents.readAhead.slab = slab
            contents.readAhead.count = count
            contents.readAhead.state = .done
        }
    }

    /// Copies bytes that are in memory.
    private static func copy(
        from contents: inout Contents,
        at offset: Int64,
        into buffer: UnsafeMutableRawBufferPointer
    ) -> HTTPContentRead {
        var copied = 0
        var position = offset
        while copied < buffer.count, position < contents.inMemory {
            let start = Int(position % Int64(Slab.size))
            let count = min(buffer.count - copied, Slab.size - start, Int(contents.inMemory - position))
            contents.slabs[Int(position / Int64(Slab.size))].read(
                at: start,
                into: UnsafeMutableRawBufferPointer(rebasing: buffer[copied..<copied + count])
            )
            copied += count
            position += Int64(count)
        }
        return .bytes(copied)
    }

    /// The current bytes, for reading without a lock per piece; `nil` if reading has been stopped.
    var snapshot: BufferedBytes? {
        contents.withLock { contents in
            contents.isStopped ? nil : BufferedBytes(contents.slabs, contents.inMemory, contents.file, contents.count)
        }
    }

    var isStopped: Bool { contents.withLock { $0.isStopped } }
}
