import CPostgres
import Foundation
import Glibc
import SluiceTesting

@testable import PostgresState

/// A private PostgreSQL server in a temporary directory, reached by a socket there; it ends with the process, however
/// that ends.
final class PostgresServer: Sendable {
    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    /// The directory of `postgres` and `initdb`, from the search path or Debian's location; `nil` if they are missing.
    static let programs: String? = {
        let path = ProcessInfo.processInfo.environment["PATH"] ?? ""
        let versions = (try? FileManager.default.contentsOfDirectory(atPath: "/usr/lib/postgresql")) ?? []
        let debian = versions.sorted { (Int($0) ?? 0) > (Int($1) ?? 0) }.map { "/usr/lib/postgresql/\($0)/bin" }
        return (path.split(separator: ":").map(String.init) + debian).first { directory in
            ["postgres", "initdb"].allSatisfy { FileManager.default.isExecutableFile(atPath: "\(directory)/\($0)") }
        }
    }()

    static let isAvailable = programs != nil
    static let missing = "there is no postgres in PATH or /usr/lib/postgresql; scripts/setup --test installs it"

    /// Shared by all tests that do not stop it.
    static let shared = Result { try PostgresServer() }

    let password = "p-\(UUID().uuidString)"
    private let directory: TemporaryDirectory
    private let programs: String
    /// A command that runs a program as another user: PostgreSQL refuses to run as root.
    private let prefix: [String]
    private let watcher = Watcher()

    /// The shell that started the server, and stops it when its own input ends.
    ///
    /// Invariant: used by one test, or under the lock of `shared`.
    private final class Watcher: @unchecked Sendable {
        var process: Process?
        var input: Pipe?
    }

    init() throws {
        guard let programs = Self.programs else { throw Failure(description: Self.missing) }
        self.programs = programs
        directory = try TemporaryDirectory()
        try Data(password.utf8).write(to: URL(fileURLWithPath: directory.path("password")))
        if geteuid() == 0 {
            guard let user = getpwnam("postgres") ?? getpwnam("nobody") else {
                throw Failure(description: "there is no user to run postgres as")
            }
            let (uid, gid) = (user.pointee.pw_uid, user.pointee.pw_gid)
            for path in [directory.path, directory.path("password")] {
                guard chown(path, uid, gid) == 0 else { throw Failure(description: "chown: errno \(errno)") }
            }
            prefix = ["setpriv", "--reuid", "\(uid)", "--regid", "\(gid)", "--clear-groups", "--"]
        } else {
            prefix = []
        }
        let initdb = Process()
        initdb.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        initdb.arguments =
            prefix + [
                "\(programs)/initdb", "-D", directory.path("data"), "-U", "sluice", "-A", "scram-sha-256",
                "--pwfile", directory.path("password"), "-E", "UTF8", "--locale=C", "--no-sync",
            ]
        initdb.currentDirectoryURL = URL(fileURLWithPath: "/")
        initdb.standardInput = FileHandle.nullDevice
        initdb.standardOutput = FileHandle.nullDevice
        initdb.standardError = FileHandle.nullDevice
        try Self.run(initdb)
        Self.wait(for: initdb)
        guard initdb.terminationStatus == 0 else { throw Failure(description: "initdb failed") }
        try start()
    }

    deinit { stop(keepingData: false) }

    /// Starts the server, and waits until it is ready.
    func start() throws {
        let script = """
            directory=$1
            shift
            "$@" </dev/null >>"$directory/log" 2>&1 &
            server=$!
            read -r answer
            kill -INT "$server"
            wait "$server"
            [ "$answer" = keep ] || rm -rf "$directory"
            """
        let arguments = [
            "\(programs)/postgres", "-D", directory.path("data"), "-k", directory.path, "-c", "listen_addresses=",
            "-c", "fsync=off", "-c", "full_page_writes=off", "-c", "max_connections=800", "-c", "shared_buffers=32MB",
        ]
        let input = Pipe()
        // No other child may keep it open.
        _ = fcntl(input.fileHandleForWriting.fileDescriptor, F_SETFD, FD_CLOEXEC)
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/bin/sh")
        process.arguments = ["-c", script, "sh", directory.path] + prefix + arguments
        process.currentDirectoryURL = URL(fileURLWithPath: "/")
        process.standardInput = input
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try Self.run(process)
        watcher.process = process
        watcher.input = input
        for _ in 0..<1200 {
            if PQping(url()) == PQPING_OK { return }
            usleep(50_000)
        }
        stop(keepingData: true)
        let log = (try? String(contentsOfFile: directory.path("log"), encoding: .utf8)) ?? ""
        throw Failure(description: "postgres did not start: \(log.suffix(2000))")
    }

    /// Starts a program with no blocked signals; Swift's threads block them, so a shell would never learn of its
    /// children.
    private static func run(_ process: Process) throws {
        var none = sigset_t()
        var before = sigset_t()
        sigemptyset(&none)
        pthread_sigmask(SIG_SETMASK, &none, &before)
        defer { pthread_sigmask(SIG_SETMASK, &before, nil) }
        try process.run()
    }

    /// `waitUntilExit` leaks memory.
    private static func wait(for process: Process) {
        while process.isRunning { usleep(5000) }
    }

    /// Stops the server with all its connections, and waits until it is gone.
    func stop(keepingData isKept: Bool = true) {
        guard let process = watcher.process, let input = watcher.input else { return }
        try? input.fileHandleForWriting.write(contentsOf: Data((isKept ? "keep\n" : "\n").utf8))
        try? input.fileHandleForWriting.close()
        Self.wait(for: process)
        watcher.process = nil
        watcher.input = nil
    }

    /// - Parameters:
    ///   - schema: The schema of unqualified names; `nil` for the default.
    ///   - options: Settings of the session, such as `synchronous_commit=off`.
    ///   - name: The application name of the connections.
    ///   - password: Replaces the right password.
    /// - Returns: A URL.
    func url(
        schema: String? = nil,
        options: [String] = [],
        name: String = "tests",
        password: String? = nil
    ) -> String {
        let all = (schema.map { ["search_path=\($0)"] } ?? []) + options
        let words = all.map { "-c%20" + $0.split(separator: "=").joined(separator: "%3D") }.joined(separator: "%20")
        return "postgresql://sluice:\(password ?? self.password)@/postgres?host=\(directory.path)"
            + "&application_name=\(name)&options=\(words)"
    }

    /// A connection in addition to those of a state.
    func connection() throws -> Connection {
        try Connection(to: Target(PostgresSettings(url: url())))
    }

    /// Creates a new, empty schema and returns its name.
    func makeSchema() throws -> String {
        let name = "s" + UUID().uuidString.lowercased().filter { $0 != "-" }
        try connection().execute("CREATE SCHEMA \(name)")
        return name
    }
}
