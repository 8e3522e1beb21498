import Foundation
import SluiceTesting
import SystemIO
import Testing

@Suite("Child programs", .serialized, .timeLimit(.minutes(10)))
struct ChildProgramTests {
    private let folder: TemporaryDirectory

    init() throws { folder = try TemporaryDirectory() }

    private func script(_ text: String, mode: Int = 0o755) throws -> String {
        let path = folder.path("script")
        try "#!/bin/sh\n\(text)\n".write(toFile: path, atomically: true, encoding: .utf8)
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
        return path
    }

    private func program(_ path: String, input: String = "", maximumOutput: Int = 100) -> ChildProgram {
        ChildProgram(
            path: path,
            directory: folder.path,
            environment: [("PATH", "/usr/bin:/bin"), ("WORD", "two words")],
            input: Array(input.utf8),
            maximumOutput: maximumOutput,
            grace: .milliseconds(200)
        )
    }

    private func run(
        _ program: ChildProgram,
        within limit: Duration = .seconds(30),
        stop: ChildProgramStop? = nil
    ) throws -> (end: ChildProgramEnd, errors: String) {
        while true {
            do {
                var errors: [UInt8] = []
                let end = try BlockingIO.onCallingThread.run(
                    program,
                    until: MonotonicClock.deadline(after: limit),
                    stop: try stop ?? ChildProgramStop(),
                    onErrors: { errors += $0 }
                )
                return (end, String(decoding: errors, as: UTF8.self))
            } catch let error as SystemError where error.errno == ETXTBSY {
                // A child of another test has inherited the script while it was written, and keeps it until its exec.
                usleep(10_000)
            }
        }
    }

    private func text(_ end: ChildProgramEnd) -> String { String(decoding: end.output, as: UTF8.self) }

    @Test("a program gets its input, directory and environment; its outputs are apart")
    func usual() throws {
        let path = try script("cat; pwd; echo \"$WORD\"; echo wrong >&2; exit 7")
        let (end, errors) = try run(program(path, input: "hello\n", maximumOutput: 10_000))
        #expect(end.cause == .exited(7) && errors == "wrong\n")
        let directory = try #require(realpath(folder.path, nil).map { String(cString: $0) })
        #expect(text(end) == "hello\n\(directory)\ntwo words\n")
    }

    @Test("a program that nothing reads from has an end, whatever it left behind")
    func leftovers() throws {
        let (end, _) = try run(program(try script("sleep 60 & echo $!")))
        #expect(end.cause == .exited(0))
        let process = try #require(Int32(text(end).trimmingCharacters(in: .whitespacesAndNewlines)))
        // A signal takes effect in a moment. It may then wait for whoever reaps it.
        var isAlive = true
        for _ in 0..<500 where isAlive {
            let state = (try? String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8)) ?? ") Z"
            isAlive = !state.contains(") Z") && !state.contains(") X")
            if isAlive { usleep(10_000) }
        }
        #expect(!isAlive)
    }

    @Test("a program is ended at its deadline, also if it ignores SIGTERM", arguments: ["", "trap '' TERM; "])
    func deadline(trap: String) throws {
        let start = ContinuousClock.now
        let path = try script("\(trap)echo begun; sleep 300; sleep 300")
        let (end, _) = try run(program(path), within: .milliseconds(500))
        #expect(end.cause == .timedOut && text(end) == "begun\n")
        // Long before its own end.
        #expect(.now - start < .seconds(200))
    }

    @Test("a program is ended from another thread, also before it starts")
    func stopping() throws {
        let stop = try ChildProgramStop()
        stop.stop()
        #expect(try run(program(try script("sleep 60")), stop: stop).end.cause == .stopped)
    }

    @Test("a program may write as much as it is allowed to, and is ended if it writes more")
    func limits() throws {
        let path = try script("printf '%0100d' 0")
        #expect(try run(program(path)).end.output.count == 100)
        #expect(try run(program(path, maximumOutput: 99)).end.cause == .outputTooLong)
    }

    @Test("a signal that ends a program is not a status")
    func signals() throws {
        #expect(try run(program(try script("kill -KILL $$"))).end.cause == .signalled(SIGKILL))
    }

    @Test("a program that cannot be started says why")
    func failures() throws {
        #expect(throws: SystemError("posix_spawn", errno: ENOENT)) { try run(program(folder.path("none"))) }
        let path = try script("exit 0", mode: 0o644)
        #expect(throws: SystemError("posix_spawn", errno: EACCES)) { try run(program(path)) }
        try "exit 0\n".write(toFile: path, atomically: false, encoding: .utf8)
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: path)
        #expect(throws: SystemError("posix_spawn", errno: ENOEXEC)) { try run(program(path)) }
    }
}
