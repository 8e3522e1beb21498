internal import Glibc
package import Logging
internal import Synchronization
package import SystemIO
internal import Tracing
internal import UploadModel

/// Runs programs as hooks, as tusd does with `-hooks-dir`: the payload on standard input, the response on standard output.
///
/// A program is trusted: it runs as the user of the gateway. Its environment has no setting of the gateway.
package final class HookPrograms: HookTransport {
    private let directory: String
    private let pool: BlockingPool
    private let logger: Logger
    private let running = Mutex(Running())

    private struct Running {
        var programs: [ObjectIdentifier: (stop: ChildProgramStop, isBlocking: Bool)] = [:]
        /// Whether programs of blocking hooks are started.
        var isCutOff = false
        var isClosed = false
    }

    /// - Parameters:
    ///   - directory: Where the programs are; absolute.
    ///   - pool: Each of its threads looks after one running program.
    ///   - logger: Takes what the programs write to standard error.
    package init(in directory: String, pool: BlockingPool, _ logger: Logger) {
        self.directory = directory
        self.pool = pool
        self.logger = logger
    }

    package func send(_ message: HookMessage, within timeout: Duration) async throws(HookFailure) -> [UInt8] {
        guard timeout > .zero else {
            throw HookFailure("the program did not end in time", isTransient: true, isOutage: true)
        }
        let deadline = MonotonicClock.deadline(after: timeout)
        let stop: ChildProgramStop
        do throws(SystemError) {
            stop = try ChildProgramStop()
        } catch {
            throw .noTurn("the program cannot be started: \(error)")
        }
        let span = TraceScope.current?.child()
        let program = program(message, span)
        let result = await withTaskCancellationHandler {
            await pool.run { [self] io in run(program, message, until: deadline, stop, io) }
        } onCancel: {
            stop.stop()
        }
        if let span { end(span, message, result) }
        switch result {
        case .ended(let end): return try content(of: end, message)
        case .failed(let error):
            let reason = "the program cannot be started: \(Self.reason(error))"
            var failure =
                Self.own.contains(error.errno)
                ? HookFailure.noTurn(reason) : HookFailure(reason, isOutage: error.errno != ECANCELED)
            failure.isTransient = Self.passing.contains(error.errno)
            throw failure
        case .late: throw .noTurn("the program was not started in time, because others ran (hooks.concurrency)")
        }
    }

    private enum Outcome: Sendable {
        case ended(ChildProgramEnd)
        case failed(SystemError)
        /// Its time was over before a thread was free.
        case late
    }

    private func run(
        _ program: ChildProgram,
        _ message: HookMessage,
        until deadline: Nanoseconds,
        _ stop: ChildProgramStop,
        _ io: BlockingIO
    ) -> Outcome {
        guard MonotonicClock.now < deadline else { return .late }
        let isTooLate = running.withLock { running in
            running.programs[ObjectIdentifier(stop)] = (stop, message.name.isBlocking)
            return running.isClosed || running.isCutOff && message.name.isBlocking
        }
        defer { running.withLock { _ = $0.programs.removeValue(forKey: ObjectIdentifier(stop)) } }
        if isTooLate { return .failed(SystemError("posix_spawn", errno: ECANCELED)) }
        var lines = HookErrorLines()
        let log = { [logger] (line: String) in
            logger.warning(
                "a hook program wrote to standard error",
                metadata: [
                    "hook": "\(message.name.rawValue)", "upload": "\(message.upload.id)", "event": "\(message.id)",
                    "text": "\(line)",
                ]
            )
        }
        defer { lines.end(log) }
        do throws(SystemError) {
            return .ended(try io.run(program, until: deadline, stop: stop) { lines.add($0, log) })
        } catch {
            return .failed(error)
        }
    }

    // MARK: What a program gets

    private func program(_ message: HookMessage, _ span: TraceScope?) -> ChildProgram {
        let file = HookPayload.FileInfo(message.upload, isCreated: message.name != .preCreate)
        var environment = [
            (name: "PATH", value: "/usr/local/bin:/usr/bin:/bin"),
            (name: "LANG", value: "C.UTF-8"),
            // As of tusd.
            (name: "TUS_ID", value: file.id),
            (name: "TUS_SIZE", value: String(file.size)),
            (name: "TUS_OFFSET", value: String(file.offset)),
            (name: "SLUICE_HOOK_ID", value: message.id),
        ]
        // https://opentelemetry.io/docs/specs/otel/context/env-carriers/, without TRACESTATE: a client chose its text.
        if let span { environment.append((name: "TRACEPARENT", value: span.context.parent)) }
        return ChildProgram(
            path: directory + "/" + message.name.rawValue,
            directory: directory,
            environment: environment,
            input: message.content,
            maximumOutput: WebhookPoster.maximumReplyBytes
        )
    }

    // MARK: How it ended

    private func content(of end: ChildProgramEnd, _ message: HookMessage) throws(HookFailure) -> [UInt8] {
        switch end.cause {
        case .exited(0): return end.output
        case .exited(let status):
            // Any other status is an answer: with it, programs for tusd reject an upload.
            throw HookFailure(
                "the program exited with status \(status)",
                isTransient: status == Self.temporaryFailure,
                isOutage: status == Self.temporaryFailure
            )
        case .signalled(let signal): throw HookFailure("signal \(signal) ended the program", isOutage: true)
        case .timedOut:
            throw HookFailure("the program did not end within hooks.timeout, and was killed", isOutage: true)
        case .outputTooLong:
            throw HookFailure(
                "the program wrote more than \(WebhookPoster.maximumReplyBytes) bytes to standard output, and was killed"
            )
        case .stopped: throw HookFailure("the program was ended, because its request or the gateway ended")
        }
    }

    private static func reason(_ error: SystemError) -> String {
        switch error.errno {
        case ENOENT: "it is missing, or what its first line names after #! is"
        case ENOEXEC: "it is neither a program for this machine nor a script that begins with #!"
        default: error.description
        }
    }

    /// EX_TEMPFAIL of sysexits.h: another attempt may succeed.
    private static let temporaryFailure: Int32 = 75
    /// Failures to start that may be over soon.
    private static let passing: Set<Int32> = own.union([ETXTBSY])
    /// Those for which many other requests can be the reason.
    private static let own: Set<Int32> = [EAGAIN, ENOMEM, EMFILE, ENFILE]

    /// Attributes: https://opentelemetry.io/docs/specs/semconv/cli/cli-spans/.
    private func end(_ span: TraceScope, _ message: HookMessage, _ outcome: Outcome) {
        var attributes = [
            FinishedSpan.Attribute("process.executable.name", message.name.rawValue),
            FinishedSpan.Attribute("sluice.purpose", "hook"),
        ]
        var failure: String?
        switch outcome {
        case .ended(let end):
            attributes.append(FinishedSpan.Attribute("process.pid", Int64(end.process)))
            if case .exited(let status) = end.cause {
                attributes.append(FinishedSpan.Attribute("process.exit.code", Int64(status)))
            }
            failure =
                switch end.cause {
                case .exited(0): nil
                case .exited(let status): String(status)
                case .signalled: "signalled"
                case .timedOut: "timed_out"
                case .outputTooLong: "too_large"
                case .stopped: "cancelled"
                }
        case .failed: failure = "not_started"
        case .late: failure = "timed_out"
        }
        if let failure { attributes.append(FinishedSpan.Attribute("error.type", failure)) }
        span.end("run \(message.name.rawValue)", .client, attributes, error: failure)
    }

    // MARK: The end

    package func cutOff() {
        let programs = running.withLock { running in
            running.isCutOff = true
            return Array(running.programs.values)
        }
        for program in programs where program.isBlocking { program.stop.stop() }
    }

    package func close() {
        let programs = running.withLock { running in
            running.isClosed = true
            return Array(running.programs.values)
        }
        for program in programs { program.stop.stop() }
        let end = MonotonicClock.deadline(after: Self.closingTime)
        while running.withLock({ !$0.programs.isEmpty }), MonotonicClock.now < end { usleep(5000) }
    }

    /// More than the grace of a program.
    private static let closingTime = Duration.seconds(4)
}
