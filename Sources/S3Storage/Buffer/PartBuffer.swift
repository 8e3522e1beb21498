internal import Digests
internal import HTTPClient
internal import Synchronization

/// Bytes on their way to the store: written by whoever receives them, read by the requests that send them, from the
/// beginning again if one of these fails.
///
/// They are in memory, and from some byte on in a spool file. Memory is accounted for by the caller.
final class PartBuffer: HTTPRequestContent, Sendable {
    private struct Contents {
        /// Full, but for the last one.
        var slabs: [Slab] = []
        /// Bytes in `slabs`.
        var inMemory: Int64 = 0
        /// What comes after `inMemory` is here.
        var file: SpoolFile?
        var count: Int64 = 0
        /// Bytes in the end; `nil` while nobody knows.
        var length: Int64?
        /// They are all there.
        var isWhole = false
        /// MD5 of all bytes, once it is known.
        var md5: [UInt8]?
        /// Nobody is to read it any more.
        var isStopped = false
        var wake: (@Sendable () -> Void)?
        var isReaderWaiting = false
        var completion: CheckedContinuation<Bool, Never>?
    }

    private let contents = Mutex(Contents())

    /// The same bytes for other readers; there will be no more.
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

    /// Bytes that are there.
    var count: Int64 { contents.withLock { $0.count } }

    /// Bytes of memory that it holds: those of its slabs, full or not.
    var memory: Int { contents.withLock { $0.slabs.count * Slab.size } }

    /// Bytes of memory that it holds more once so many bytes are added in memory, at either end.
    func memory(adding count: Int) -> Int {
        contents.withLock { contents in
            let slabs = (Int(contents.inMemory) + count + Slab.size - 1) / Slab.size
            return (slabs - contents.slabs.count) * Slab.size
        }
    }

    /// Where further bytes go; `nil` while they are in memory.
    var file: SpoolFile? { contents.withLock { $0.file } }

    var isLengthKnown: Bool { contents.withLock { $0.length != nil } }

    /// 16 bytes; `nil` while nobody has said it.
    var md5: [UInt8]? { contents.withLock { $0.md5 } }

    init() {}

    /// Bytes that are all there.
    convenience init(whole bytes: [UInt8]) {
        self.init()
        append(bytes)
        close()
        tell(md5: Digest.hash(bytes, .md5))
    }

    /// Adds bytes in memory; not after `spool`.
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

    /// Adds bytes in front of all others, before anything was read.
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

    /// Has all further bytes in a file.
    func spool(to file: SpoolFile) {
        contents.withLock { $0.file = file }
    }

    /// Counts bytes that were written to the file.
    func appendSpooled(_ count: Int) {
        change { $0.count += Int64(count) }
    }

    /// Tells how many bytes there will be, which a request that sends them must say first.
    func settle(length: Int64) {
        change { $0.length = length }
    }

    /// Says that all bytes are there.
    func close() {
        change { contents in
            contents.length = contents.count
            contents.isWhole = true
        }
    }

    /// Says which digest they have, once they are all there.
    func tell(md5: [UInt8]) {
        change { $0.md5 = md5 }
    }

    /// Ends all requests that send it: the rest does not come.
    func stopReaders() {
        change { $0.isStopped = true }
    }

    /// Gives up what it holds, whoever still knows it.
    ///
    /// - Returns: Bytes of memory that are free now.
    func discard() -> Int {
        stopReaders()
        return contents.withLock { contents in
            let bytes = contents.slabs.count * Slab.size
            contents.slabs = []
            contents.inMemory = 0
            contents.count = 0
            contents.file = nil
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

    /// Waits until all bytes are there, and their digest is known.
    ///
    /// - Returns: `false` when they will never be.
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

    func whenReadable(_ wake: @escaping @Sendable () -> Void) {
        contents.withLock { $0.wake = wake }
    }

    func read(at offset: Int64, into buffer: UnsafeMutableRawBufferPointer) -> HTTPContentRead {
        contents.withLock { contents in contents.isStopped ? .failed : Self.read(&contents, at: offset, into: buffer) }
    }

    private static func read(
        _ contents: inout Contents,
        at offset: Int64,
        into buffer: UnsafeMutableRawBufferPointer
    ) -> HTTPContentRead {
        guard offset < contents.count else {
            contents.isReaderWaiting = true
            return .later
        }
        if offset >= contents.inMemory {
            guard let file = contents.file else { return .failed }
            let room = min(Int64(buffer.count), contents.count - offset)
            let count = file.read(
                at: offset - contents.inMemory,
                into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<Int(room)])
            )
            return count > 0 ? .bytes(count) : .failed
        }
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

    /// What is there now, to be read without asking for each byte; `nil` when nobody is to read it any more.
    var snapshot: BufferedBytes? {
        contents.withLock { contents in
            contents.isStopped ? nil : BufferedBytes(contents.slabs, contents.inMemory, contents.file, contents.count)
        }
    }

    var isStopped: Bool { contents.withLock { $0.isStopped } }

    /// All its bytes, which have come; for what is small.
    func bytes() -> [UInt8]? {
        let count = Int(self.count)
        var position = 0
        var failed = false
        let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
            let raw = UnsafeMutableRawBufferPointer(buffer)
            while position < count {
                let rest = UnsafeMutableRawBufferPointer(rebasing: raw[position...])
                guard case .bytes(let read) = contents.withLock({ Self.read(&$0, at: Int64(position), into: rest) })
                else {
                    failed = true
                    break
                }
                position += read
            }
            initialized = position
        }
        return failed ? nil : bytes
    }
}
