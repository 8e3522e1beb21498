internal import Foundation
internal import Glibc
internal import Synchronization
package import SystemIO

/// System calls that fail or move fewer bytes when a test says so; everything else reaches the kernel.
package final class ScriptedCalls: SystemCalls {
    /// What happens instead of the call, or to it.
    package enum Fault: Sendable, Equatable {
        case fails(Int32)
        /// At most this many bytes are moved.
        case moves(Int)
    }

    /// A socket that never runs dry.
    private struct Flood {
        let bytes: [UInt8]
        let goesOn: @Sendable () -> Bool
        /// Bytes that come before the flood.
        let start: Int
        /// The first one read.
        var socket: Int32?
        /// Index in `bytes` of the next one.
        var position = 0
        var reads = 0
    }

    private struct Contents {
        var flood: Flood?
        var names: [String] = []
        var closed: [Int32] = []
        var fault: Fault?
        var name: String?
        /// Calls that still succeed before the fault.
        var before = 0
        /// Calls that still have the fault.
        var left = 0
        /// The next call of this name waits.
        var held: String?
        var isHolding = false
        /// Called with the descriptor after a fault of a socket call.
        var rearm: (@Sendable (Int32) -> Void)?
    }

    private let contents = Mutex(Contents())
    private let gate = DispatchSemaphore(value: 0)
    private let real = LinuxCalls()
    private let syncs: Bool

    /// - Parameter syncs: Whether syncs reach the kernel; without them a test is faster.
    package init(syncs: Bool = false) {
        self.syncs = syncs
    }

    /// The names of all calls since the start, or since `forget`, except `close`.
    package var names: [String] { contents.withLock { $0.names } }

    /// The descriptors that have been closed, in that order.
    package var closed: [Int32] { contents.withLock { $0.closed } }

    package func forget() { contents.withLock { $0.names = [] } }

    /// Plans a fault, instead of any earlier one.
    ///
    /// - Parameters:
    ///   - index: Number of calls from now on that succeed before it.
    ///   - name: Counts only calls of this name; `nil` counts all but `close`.
    ///   - fault: What happens.
    ///   - times: Number of calls that it happens to.
    package func plan(_ index: Int, of name: String? = nil, _ fault: Fault, times: Int = 1) {
        contents.withLock { contents in
            contents.fault = fault
            contents.name = name
            contents.before = index
            contents.left = times
        }
    }

    /// Makes the next call of this name wait until `letGo`.
    package func hold(_ name: String) { contents.withLock { $0.held = name } }

    /// Whether a call waits.
    package var isHolding: Bool { contents.withLock { $0.isHolding } }

    package func letGo() {
        contents.withLock { $0.isHolding = false }
        gate.signal()
    }

    /// From now on, all calls succeed.
    package func recover() { contents.withLock { $0.fault = nil } }

    /// Makes the readiness of a socket be reported again after a fault of it.
    ///
    /// With edge-triggered epoll, a call that moved less than it was asked to, or EAGAIN, means that an event will
    /// follow (epoll(7), question 9). After a fault of the script nothing else would cause one.
    package func afterSocketFaults(_ rearm: @escaping @Sendable (Int32) -> Void) {
        contents.withLock { $0.rearm = rearm }
    }

    /// Makes the next socket that is read never run dry.
    ///
    /// Its first read comes from the kernel, and all others are filled completely. What is sent to it is discarded.
    ///
    /// - Parameters:
    ///   - bytes: Repeated for ever.
    ///   - start: Number of bytes that the peer sends before them; it must really send some of `bytes`, too, so that the socket is
    ///     ready to be read.
    ///   - goesOn: Asked before each read; called with a lock held.
    package func flood(_ bytes: [UInt8], after start: Int, while goesOn: @escaping @Sendable () -> Bool) {
        contents.withLock { $0.flood = Flood(bytes: bytes, goesOn: goesOn, start: start) }
    }

    /// The number of reads that were filled so far.
    package var floodedReads: Int { contents.withLock { $0.flood?.reads ?? 0 } }

    private func fill(_ buffer: UnsafeMutableRawBufferPointer, from socket: Int32) -> Bool {
        contents.withLock { contents in
            guard let flood = contents.flood, flood.socket == socket, flood.goesOn() else { return false }
            var position = flood.position
            for index in buffer.indices {
                buffer[index] = flood.bytes[position]
                position = position + 1 == flood.bytes.count ? 0 : position + 1
            }
            contents.flood?.position = position
            contents.flood?.reads += 1
            return true
        }
    }

    private func noteFirstRead(_ socket: Int32, _ result: SystemResult) {
        contents.withLock { contents in
            guard let flood = contents.flood, flood.socket == nil, result.value > 0 else { return }
            contents.flood?.socket = socket
            contents.flood?.position = max(0, result.value - flood.start) % flood.bytes.count
        }
    }

    private func step(_ name: String) -> Fault? {
        let waits = contents.withLock { contents in
            guard contents.held == name else { return false }
            contents.held = nil
            contents.isHolding = true
            return true
        }
        if waits { gate.wait() }
        return contents.withLock { contents in
            contents.names.append(name)
            guard let fault = contents.fault, contents.name.map({ $0 == name }) ?? true else { return nil }
            if contents.before > 0 {
                contents.before -= 1
                return nil
            }
            guard contents.left > 0 else { return nil }
            contents.left -= 1
            return fault
        }
    }

    /// A call that moves no bytes.
    private func call(_ name: String, _ body: () -> SystemResult) -> SystemResult {
        if case .fails(let errno)? = step(name) { return .failed(errno) }
        return body()
    }

    /// A call that moves at most `count` bytes.
    private func move(_ name: String, _ count: Int, socket: Int32? = nil, _ body: (Int) -> SystemResult) -> SystemResult
    {
        guard let fault = step(name) else { return body(count) }
        defer { if fault != .fails(EINTR), let socket { contents.withLock { $0.rearm }?(socket) } }
        return switch fault {
        case .moves(let most): body(min(most, count))
        case .fails(let errno): .failed(errno)
        }
    }

    // MARK: Sockets

    package func recv(_ socket: Int32, into buffer: UnsafeMutableRawBufferPointer) -> SystemResult {
        if fill(buffer, from: socket) { return SystemResult(buffer.count) }
        return move("recv", buffer.count, socket: socket) { count in
            let result = real.recv(socket, into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<count]))
            noteFirstRead(socket, result)
            return result
        }
    }

    package func send(_ socket: Int32, _ bytes: UnsafeRawBufferPointer, flags: Int32) -> SystemResult {
        if contents.withLock({ $0.flood?.socket == socket }) { return SystemResult(bytes.count) }
        return move("send", bytes.count, socket: socket) { count in
            real.send(socket, UnsafeRawBufferPointer(rebasing: bytes[..<count]), flags: flags)
        }
    }

    package func splice(socket: Int32, toPipe pipe: Int32, count: Int) -> SystemResult {
        move("splice in", count, socket: socket) { real.splice(socket: socket, toPipe: pipe, count: $0) }
    }

    package func splice(pipe: Int32, toFile file: Int32, at offset: Int64, count: Int) -> SystemResult {
        move("splice out", count) { real.splice(pipe: pipe, toFile: file, at: offset, count: $0) }
    }

    package func sendfile(_ file: Int32, at offset: Int64, count: Int, to socket: Int32) -> SystemResult {
        move("sendfile", count, socket: socket) { real.sendfile(file, at: offset, count: $0, to: socket) }
    }

    // MARK: Open files

    package func open(_ place: FilePlace, flags: Int32, mode: UInt32) -> SystemResult {
        call("open") { real.open(place, flags: flags, mode: mode) }
    }

    package func openUnnamed(in directory: FilePlace) -> SystemResult {
        call("open") { real.openUnnamed(in: directory) }
    }

    /// Never fails, because nobody asks; a close that failed has closed the file, too (close(2)).
    package func close(_ file: Int32) -> SystemResult {
        contents.withLock { $0.closed.append(file) }
        return real.close(file)
    }

    package func fstat(_ file: Int32, _ status: inout FileStatus) -> SystemResult {
        call("fstat") { real.fstat(file, &status) }
    }

    package func pread(_ file: Int32, at offset: Int64, into buffer: UnsafeMutableRawBufferPointer) -> SystemResult {
        move("pread", buffer.count) { count in
            real.pread(file, at: offset, into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<count]))
        }
    }

    package func pwrite(_ file: Int32, at offset: Int64, _ bytes: UnsafeRawBufferPointer) -> SystemResult {
        move("pwrite", bytes.count) { count in
            real.pwrite(file, at: offset, UnsafeRawBufferPointer(rebasing: bytes[..<count]))
        }
    }

    package func ftruncate(_ file: Int32, to size: Int64) -> SystemResult {
        call("ftruncate") { real.ftruncate(file, to: size) }
    }

    package func fallocate(_ file: Int32, at offset: Int64, count: Int64) -> SystemResult {
        call("fallocate") { real.fallocate(file, at: offset, count: count) }
    }

    package func fdatasync(_ file: Int32) -> SystemResult {
        call("fdatasync") { syncs ? real.fdatasync(file) : .success }
    }

    package func fsync(_ file: Int32) -> SystemResult { call("fsync") { syncs ? real.fsync(file) : .success } }

    package func startWriteback(_ file: Int32, at offset: Int64, count: Int64) -> SystemResult {
        call("start writeback") { syncs ? real.startWriteback(file, at: offset, count: count) : .success }
    }

    package func writeOut(_ file: Int32, from offset: Int64) -> SystemResult {
        call("write out") { syncs ? real.writeOut(file, from: offset) : .success }
    }

    package func copyFileRange(
        _ input: Int32,
        at inputOffset: Int64,
        to output: Int32,
        at outputOffset: Int64,
        count: Int
    ) -> SystemResult {
        move("copy_file_range", count) { count in
            real.copyFileRange(input, at: inputOffset, to: output, at: outputOffset, count: count)
        }
    }

    package func fgetxattr(_ file: Int32, _ name: String, into buffer: UnsafeMutableRawBufferPointer) -> SystemResult {
        call("fgetxattr") { real.fgetxattr(file, name, into: buffer) }
    }

    package func fsetxattr(_ file: Int32, _ name: String, _ value: UnsafeRawBufferPointer) -> SystemResult {
        call("fsetxattr") { real.fsetxattr(file, name, value) }
    }

    package func isInMemory(_ file: Int32) -> SystemResult { call("fstatfs") { real.isInMemory(file) } }

    package func flock(_ file: Int32) -> SystemResult { call("flock") { real.flock(file) } }

    // MARK: Paths

    package func stat(_ place: FilePlace, _ status: inout FileStatus) -> SystemResult {
        call("stat") { real.stat(place, &status) }
    }

    package func rename(_ place: FilePlace, to other: FilePlace) -> SystemResult {
        call("rename") { real.rename(place, to: other) }
    }

    package func unlink(_ place: FilePlace) -> SystemResult { call("unlink") { real.unlink(place) } }

    package func mkdir(_ place: FilePlace, mode: UInt32) -> SystemResult {
        call("mkdir") { real.mkdir(place, mode: mode) }
    }

    package func rmdir(_ place: FilePlace) -> SystemResult { call("rmdir") { real.rmdir(place) } }

    package func list(_ directory: FilePlace, into names: inout [String]) -> SystemResult {
        call("readdir") { real.list(directory, into: &names) }
    }
}
