internal import Glibc

/// The permission to block, and what it allows: reading, writing and changing files.
///
/// Only a `BlockingPool` hands it out, to the work that runs on one of its threads. It cannot be kept or passed on,
/// because it is not `Sendable`. Code on an event loop therefore cannot call any of this.
package struct BlockingIO {
    /// For calls that have no function here.
    package let calls: any SystemCalls
    /// Closes the files that are opened.
    private let pool: BlockingPool?
    private let anchor: AnchoredDirectory?

    init(_ calls: any SystemCalls, pool: BlockingPool?, anchor: AnchoredDirectory? = nil) {
        self.calls = calls
        self.pool = pool
        self.anchor = anchor
    }

    /// The same, but paths below this directory are looked up there.
    package func anchored(in directory: AnchoredDirectory) -> BlockingIO {
        BlockingIO(calls, pool: pool, anchor: directory)
    }

    func place(_ path: String) -> FilePlace { anchor?.place(path) ?? FilePlace(path) }

    /// The exception: blocks the thread of the caller.
    ///
    /// For the start of the process, for commands and for tests; never while a server serves.
    package static var onCallingThread: BlockingIO { BlockingIO(LinuxCalls(), pool: nil) }

    // MARK: Opening and closing

    /// - Parameters:
    ///   - path: The file.
    ///   - flags: As of open(2); O_CLOEXEC is added.
    ///   - mode: Permissions of a new file; by default for this user only.
    /// - Returns: The file; it is closed with its last reference.
    /// - Throws: The failure of `open`.
    package func open(_ path: String, _ flags: Int32, mode: UInt32 = 0o600) throws(SystemError) -> OpenFile {
        adopt(try SystemError.check("open") { calls.open(place(path), flags: flags, mode: mode) })
    }

    /// Creates a file without a name in this directory, for reading and writing; it ends with its last reference.
    ///
    /// - Throws: The failure of `open`.
    package func openUnnamed(in directory: String) throws(SystemError) -> OpenFile {
        adopt(try SystemError.check("open") { calls.openUnnamed(in: place(directory)) })
    }

    private func adopt(_ descriptor: Int) -> OpenFile { OpenFile(owning: Int32(descriptor), pool: pool) }

    /// Closes a file here and now, so that its last reference can be released anywhere.
    ///
    /// Nothing may use it afterwards.
    package func close(_ file: OpenFile) {
        let descriptor = file.descriptor
        if file.takeForClosing() { _ = calls.close(descriptor) }
    }

    // MARK: Bytes

    /// Writes all of `bytes` at `offset`.
    ///
    /// - Returns: Number of bytes written, and why not all of them.
    package func write(
        _ bytes: UnsafeRawBufferPointer,
        to file: OpenFile,
        at offset: Int64
    ) -> (count: Int, failure: SystemError?) {
        var written = 0
        while written < bytes.count {
            let rest = UnsafeRawBufferPointer(rebasing: bytes[written...])
            do throws(SystemError) {
                let count = try SystemError.check("pwrite") {
                    calls.pwrite(file.descriptor, at: offset + Int64(written), rest)
                }
                // A result of zero does not say why; treat it as a full disk instead of looping for ever.
                if count == 0 { return (written, SystemError("pwrite", errno: ENOSPC)) }
                written += count
            } catch {
                return (written, error)
            }
        }
        return (written, nil)
    }

    /// The same for an array.
    package func write(
        _ bytes: [UInt8],
        to file: OpenFile,
        at offset: Int64
    ) -> (count: Int, failure: SystemError?) {
        bytes.withUnsafeBytes { write($0, to: file, at: offset) }
    }

    /// Fills `buffer` with the bytes from `offset`.
    ///
    /// - Returns: Number of bytes read; fewer than the buffer has room for only at the end of the file.
    /// - Throws: The failure of `pread`.
    package func read(
        _ file: OpenFile,
        at offset: Int64,
        into buffer: UnsafeMutableRawBufferPointer
    ) throws(SystemError) -> Int {
        var filled = 0
        while filled < buffer.count {
            let room = UnsafeMutableRawBufferPointer(rebasing: buffer[filled...])
            let count = try SystemError.check("pread") {
                calls.pread(file.descriptor, at: offset + Int64(filled), into: room)
            }
            if count == 0 { break }
            filled += count
        }
        return filled
    }

    /// Reads bytes from `offset`; returns fewer than `maximum` only at the end of the file.
    ///
    /// - Throws: The failure of `pread`.
    package func read(_ file: OpenFile, at offset: Int64, maximum: Int) throws(SystemError) -> [UInt8] {
        var failure: SystemError?
        let bytes = [UInt8](unsafeUninitializedCapacity: maximum) { buffer, count in
            let room = UnsafeMutableRawBufferPointer(buffer)
            do throws(SystemError) {
                count = try read(file, at: offset, into: UnsafeMutableRawBufferPointer(rebasing: room[..<maximum]))
            } catch {
                failure = error
            }
        }
        if let failure { throw failure }
        return bytes
    }

    /// Copies bytes within the kernel, at most `count`.
    ///
    /// - Returns: Number of bytes copied; 0 at the end of `input`.
    /// - Throws: The failure of `copy_file_range`.
    package func copy(
        from input: OpenFile,
        at inputOffset: Int64,
        to output: OpenFile,
        at outputOffset: Int64,
        count: Int
    ) throws(SystemError) -> Int {
        try SystemError.check("copy_file_range") {
            calls.copyFileRange(
                input.descriptor,
                at: inputOffset,
                to: output.descriptor,
                at: outputOffset,
                count: count
            )
        }
    }

    // MARK: Size and durability

    package func status(of file: OpenFile) throws(SystemError) -> FileStatus {
        var status = FileStatus()
        try SystemError.check("fstat") { calls.fstat(file.descriptor, &status) }
        return status
    }

    /// In bytes.
    package func size(of file: OpenFile) throws(SystemError) -> Int64 { try status(of: file).size }

    package func truncate(_ file: OpenFile, to size: Int64) throws(SystemError) {
        try SystemError.check("ftruncate") { calls.ftruncate(file.descriptor, to: size) }
    }

    /// Forces the bytes and the size to stable storage.
    package func synchronizeData(of file: OpenFile) throws(SystemError) {
        try SystemError.check("fdatasync") { synchronizing { calls.fdatasync(file.descriptor) } }
    }

    /// Forces everything to stable storage; for a directory, its entries.
    package func synchronizeAll(of file: OpenFile) throws(SystemError) {
        try SystemError.check("fsync") { synchronizing { calls.fsync(file.descriptor) } }
    }

    /// Measures a call, if somebody asks.
    private func synchronizing(_ call: () -> SystemResult) -> SystemResult {
        guard let observer = pool?.observer else { return call() }
        let start = MonotonicClock.now
        let result = call()
        observer.synchronized(in: MonotonicClock.now - start, isDone: result.errno == nil)
        return result
    }

    /// Writes the bytes from `offset` to the disk and waits; the disk may still hold them in its cache.
    package func writeOut(_ file: OpenFile, from offset: Int64) throws(SystemError) {
        try SystemError.check("sync_file_range") { calls.writeOut(file.descriptor, from: offset) }
    }

    // MARK: Hints: their failures recur where they are reported

    /// Starts writing a range to the disk.
    package func startWriteback(of file: OpenFile, at offset: Int64, count: Int64) {
        _ = calls.startWriteback(file.descriptor, at: offset, count: count)
    }

    /// Reserves space for a range, without changing the size.
    package func preallocate(_ file: OpenFile, at offset: Int64, count: Int64) {
        _ = calls.fallocate(file.descriptor, at: offset, count: count)
    }
}

@available(*, unavailable)
extension BlockingIO: Sendable {}
