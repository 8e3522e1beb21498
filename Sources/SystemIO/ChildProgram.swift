internal import CSystem
internal import Glibc

/// A program that runs once, as a child process.
///
/// The child is in a session and process group of its own. It inherits nothing but its environment here, its working
/// directory, and descriptors 0 to 2: signals have their defaults, and all other descriptors are closed.
package struct ChildProgram: Sendable {
    /// Absolute.
    package var path: String
    /// The working directory.
    package var directory: String
    /// All variables.
    package var environment: [(name: String, value: String)]
    /// The content of its standard input.
    ///
    /// It is given as a file, so nothing waits if the program does not read it.
    package var input: [UInt8]
    /// The program is ended when it writes more bytes than these to standard output.
    package var maximumOutput: Int
    /// Between SIGTERM and SIGKILL.
    package var grace: Duration

    package init(
        path: String,
        directory: String,
        environment: [(name: String, value: String)],
        input: [UInt8],
        maximumOutput: Int,
        grace: Duration = .seconds(2)
    ) {
        self.path = path
        self.directory = directory
        self.environment = environment
        self.input = input
        self.maximumOutput = maximumOutput
        self.grace = grace
    }
}

/// How a program ended, and what it wrote.
package struct ChildProgramEnd: Sendable {
    package enum Cause: Sendable, Equatable {
        /// By itself, with this status.
        case exited(Int32)
        /// By this signal, which was not ours.
        case signalled(Int32)
        /// We ended it at its deadline.
        case timedOut
        /// We ended it because it wrote too much to standard output.
        case outputTooLong
        /// We ended it at the wish of `ChildProgramStop`.
        case stopped
    }

    package let cause: Cause
    /// Standard output.
    package let output: [UInt8]
    package let process: Int32
}

/// Ends a running program from another thread.
package final class ChildProgramStop: Sendable {
    private let event: OpenFile

    /// - Throws: The failure of `eventfd`.
    package init() throws(SystemError) {
        event = OpenFile(owning: Int32(try SystemError.check("eventfd") { SystemResult(csys_eventfd()) }))
    }

    /// Returns at once; the program gets SIGTERM, and SIGKILL after its grace.
    package func stop() {
        var one: UInt64 = 1
        // Fails only if it was called 2^64 - 1 times before.
        _ = Glibc.write(event.descriptor, &one, 8)
    }

    fileprivate var descriptor: Int32 { event.descriptor }
}

extension BlockingIO {
    /// Runs a program and waits for its end.
    ///
    /// When the program ends, the processes that it left in its group are killed. None of them is left as a zombie.
    ///
    /// - Parameters:
    ///   - program: The program.
    ///   - deadline: Then the group of the program gets SIGTERM, and SIGKILL after its grace.
    ///   - stop: Ends the program earlier.
    ///   - onErrors: Called with what the program writes to standard error, piece by piece.
    /// - Returns: How it ended.
    /// - Throws: Why the program cannot be started, such as ENOENT (it, or the interpreter in its first line, is missing),
    ///   EACCES (it may not be executed) or ENOEXEC (it is not a program).
    package func run(
        _ program: ChildProgram,
        until deadline: Nanoseconds,
        stop: ChildProgramStop,
        onErrors: (UnsafeRawBufferPointer) -> Void
    ) throws(SystemError) -> ChildProgramEnd {
        var child = try Child(program, self)
        return child.supervise(until: deadline, stop: stop, onErrors: onErrors)
    }
}

/// A child process between its start and its end.
///
/// Invariant: `process` is reaped only by `finish`, so that until then its number, and that of its group, belong to it.
private struct Child {
    private let program: ChildProgram
    private let process: Int32
    private let standardOutput: OpenFile
    private let standardError: OpenFile
    /// Readable when the process has ended; `nil` on kernels that have no such descriptor.
    private let ending: OpenFile?
    private var output: [UInt8] = []
    /// Why the process was told to end; the first reason counts.
    private var reason: ChildProgramEnd.Cause?
    /// When SIGKILL, or giving up, is due; `.max` before the process was told to end.
    private var nextStep = Nanoseconds.max
    private var isKilled = false
    private var piece = [UInt8](repeating: 0, count: 16 << 10)

    init(_ program: ChildProgram, _ io: BlockingIO) throws(SystemError) {
        self.program = program
        let input = OpenFile(
            owning: Int32(
                try SystemError.check("memfd_create") {
                    SystemResult(csys_memory_file("input", program.input, program.input.count))
                }
            )
        )
        let (output, outputOfChild) = try Self.pipe()
        let (errors, errorsOfChild) = try Self.pipe()
        var process: Int32 = 0
        let variables = program.environment.map { $0.name + "=" + $0.value }
        try Self.withPointers([program.path]) { arguments throws(SystemError) in
            try Self.withPointers(variables) { environment throws(SystemError) in
                try SystemError.check("posix_spawn") {
                    SystemResult(
                        csys_spawn(
                            program.path,
                            program.directory,
                            arguments,
                            environment,
                            input.descriptor,
                            outputOfChild.descriptor,
                            errorsOfChild.descriptor,
                            &process
                        )
                    )
                }
            }
        }
        for file in [input, outputOfChild, errorsOfChild] { io.close(file) }
        self.process = process
        standardOutput = output
        standardError = errors
        let descriptor = csys_process_descriptor(process)
        ending = descriptor < 0 ? nil : OpenFile(owning: descriptor)
    }

    /// A pipe that is read here, without blocking, and written by the child.
    private static func pipe() throws(SystemError) -> (reading: OpenFile, writing: OpenFile) {
        var ends: [Int32] = [-1, -1]
        try SystemError.check("pipe2") { SystemResult(csys_pipe(&ends, 0)) }
        let (reading, writing) = (OpenFile(owning: ends[0]), OpenFile(owning: ends[1]))
        try SystemError.check("fcntl") { SystemResult(fcntl(ends[0], F_SETFL, O_NONBLOCK)) }
        return (reading, writing)
    }

    /// Calls `body` with an array of C strings that ends with a null pointer.
    private static func withPointers(
        _ texts: [String],
        _ body: (UnsafePointer<UnsafeMutablePointer<CChar>?>) throws(SystemError) -> Void
    ) throws(SystemError) {
        var pointers: [UnsafeMutablePointer<CChar>?] = texts.map { strdup($0) }
        defer { pointers.forEach { free($0) } }
        pointers.append(nil)
        try body(pointers)
    }

    mutating func supervise(
        until deadline: Nanoseconds,
        stop: ChildProgramStop,
        onErrors: (UnsafeRawBufferPointer) -> Void
    ) -> ChildProgramEnd {
        var waits = [
            Self.wait(standardOutput.descriptor), Self.wait(standardError.descriptor), Self.wait(stop.descriptor),
            Self.wait(ending?.descriptor ?? -1),
        ]
        while true {
            let due = reason == nil ? deadline : nextStep
            _ = poll(&waits, nfds_t(waits.count), milliseconds(until: due))
            if waits[0].revents != 0, takeOutput() == .ended { waits[0].fd = -1 }
            if waits[1].revents != 0, takeErrors(onErrors) == .ended { waits[1].fd = -1 }
            if waits[2].revents != 0 {
                waits[2].fd = -1
                end(.stopped)
            }
            var status: Int32 = -1
            var signal: Int32 = 0
            switch csys_child_end(process, &status, &signal) {
            case 0: break
            // Somebody else reaped it: how it ended is unknown, which is no success.
            case -1: return finish(.exited(-1), onErrors)
            default: return finish(status >= 0 ? .exited(status) : .signalled(signal), onErrors)
            }
            let now = MonotonicClock.now
            if reason == nil, now >= deadline { end(.timedOut) }
            if now >= nextStep {
                // It waits in the kernel for a device, and nothing can end it.
                if isKilled { return ChildProgramEnd(cause: reason ?? .timedOut, output: [], process: process) }
                signalGroup(SIGKILL)
                isKilled = true
                nextStep = MonotonicClock.deadline(after: Self.patience)
            }
        }
    }

    private static func wait(_ descriptor: Int32) -> pollfd {
        pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
    }

    /// At most a minute; without a descriptor of the process, soon enough to notice its end.
    private func milliseconds(until time: Nanoseconds) -> Int32 {
        let now = MonotonicClock.now
        let left = time > now ? (time - now - 1) / 1_000_000 + 1 : 0
        return Int32(min(left, ending == nil ? 20 : 60_000))
    }

    /// Tells the group to end.
    private mutating func end(_ cause: ChildProgramEnd.Cause) {
        guard reason == nil else { return }
        reason = cause
        signalGroup(SIGTERM)
        // A process that was stopped could not obey.
        signalGroup(SIGCONT)
        nextStep = MonotonicClock.deadline(after: program.grace)
    }

    private func signalGroup(_ signal: Int32) { _ = kill(-process, signal) }

    private mutating func takeOutput() -> Taken {
        let taken = take(from: standardOutput)
        // What follows is read and dropped, until the process has ended.
        if case .bytes(let count) = taken, output.count <= program.maximumOutput {
            output += piece[..<count]
            if output.count > program.maximumOutput { end(.outputTooLong) }
        }
        return taken
    }

    private mutating func takeErrors(_ onErrors: (UnsafeRawBufferPointer) -> Void) -> Taken {
        let taken = take(from: standardError)
        if case .bytes(let count) = taken {
            piece.withUnsafeBytes { onErrors(UnsafeRawBufferPointer(rebasing: $0[..<count])) }
        }
        return taken
    }

    private enum Taken: Equatable {
        /// This many, at least 1.
        case bytes(Int)
        case noneNow
        case ended
    }

    /// Reads into `piece`.
    private mutating func take(from file: OpenFile) -> Taken {
        let descriptor = file.descriptor
        let result = SystemResult.repeating {
            piece.withUnsafeMutableBytes { SystemResult(Glibc.read(descriptor, $0.baseAddress, $0.count)) }
        }
        if result.errno == EAGAIN { return .noneNow }
        return result.value > 0 ? .bytes(result.value) : .ended
    }

    /// The process has ended: kills what it left in its group, takes what it wrote last, and reaps it.
    private mutating func finish(
        _ cause: ChildProgramEnd.Cause,
        _ onErrors: (UnsafeRawBufferPointer) -> Void
    ) -> ChildProgramEnd {
        signalGroup(SIGKILL)
        for _ in 0..<Self.lastPieces { guard case .bytes = takeOutput() else { break } }
        for _ in 0..<Self.lastPieces { guard case .bytes = takeErrors(onErrors) else { break } }
        csys_reap(process)
        reapGroup()
        return ChildProgramEnd(cause: reason ?? cause, output: output, process: process)
    }

    /// If this is the first process of a container, the processes that the program left are its children now.
    private func reapGroup() {
        for _ in 0..<100 {
            switch csys_reap_group(process) {
            case 1: continue
            case 0: usleep(1000)
            default: return
            }
        }
    }

    /// After SIGKILL.
    private static let patience = Duration.seconds(5)
    /// As much as a pipe holds and more: a process that left the group could write for ever.
    private static let lastPieces = 8
}
