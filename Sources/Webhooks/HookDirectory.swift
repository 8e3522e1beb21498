internal import Glibc
package import SystemIO

/// What is in the directory of the programs: which hooks they serve, and what is wrong with them.
package struct HookDirectory: Sendable {
    /// The hooks that are run.
    package private(set) var hooks: Set<HookName> = []
    /// With each of these, the gateway does not start.
    package private(set) var problems: [String] = []
    /// What is probably not meant.
    package private(set) var remarks: [String] = []

    private let path: String

    /// - Parameters:
    ///   - path: The directory; absolute.
    ///   - wanted: The hooks of the settings.
    ///   - io: Reads it.
    package init(_ path: String, running wanted: Set<HookName>, _ io: BlockingIO) {
        self.path = path
        let names: [String]
        do throws(SystemError) {
            guard try io.status(of: path).isDirectory else {
                problems = ["\(path) is not a directory"]
                return
            }
            try check(path, io)
            names = try io.entries(of: path).sorted()
        } catch {
            problems = ["\(path) cannot be read: \(error.reason)"]
            return
        }
        for name in names { examine(name, wanted, io) }
        if hooks.isEmpty, problems.isEmpty {
            let wanted = HookName.allCases.filter(wanted.contains).map(\.rawValue).joined(separator: ", ")
            problems = ["\(path) has no program for a hook of hooks.events: \(wanted)"]
        }
        if !unknown.isEmpty {
            let shown = unknown.prefix(Self.shownNames).joined(separator: ", ")
            let more = unknown.count > Self.shownNames ? " and \(unknown.count - Self.shownNames) more" : ""
            let all = HookName.allCases.map(\.rawValue).joined(separator: ", ")
            remarks.append("\(path) has files that no hook is named after: \(shown)\(more); the hooks are \(all)")
        }
    }

    private var unknown: [String] = []

    private mutating func examine(_ name: String, _ wanted: Set<HookName>, _ io: BlockingIO) {
        let file = path + "/" + name
        guard let hook = HookName(rawValue: name) else {
            // Kubernetes puts its own names into a volume, with dots.
            guard !name.hasPrefix("."), let status = try? io.status(of: file), status.isFile else { return }
            unknown.append(name)
            return
        }
        guard wanted.contains(hook) else {
            remarks.append("\(file) is not run, because hooks.events does not have \(name)")
            return
        }
        do throws(SystemError) {
            guard try io.status(of: file).isFile else {
                problems.append("\(file) is not a file")
                return
            }
            try check(file, io)
            try io.checkExecutable(file)
        } catch {
            let hint = error.errno == EACCES ? ": run `chmod +x \(file)`, or mount its file system without noexec" : ""
            problems.append("\(file) cannot be executed by user \(geteuid()): \(error.reason)\(hint)")
            return
        }
        if let interpreter = interpreter(of: file, io) {
            do throws(SystemError) {
                try io.checkExecutable(interpreter)
            } catch {
                problems.append("\(file) needs \(interpreter), which cannot be executed: \(error.reason)")
                return
            }
        }
        hooks.insert(hook)
    }

    /// Whoever can change a program decides about uploads, and has the rights of the gateway.
    private mutating func check(_ path: String, _ io: BlockingIO) throws(SystemError) {
        guard try io.status(of: path).mode & 0o002 != 0 else { return }
        // A ConfigMap of Kubernetes is such a directory, mounted for reading only.
        guard try !io.isReadOnly(path) else { return }
        problems.append("every user can change \(path): run `chmod o-w \(path)`")
    }

    /// The program in the first line of a script, after `#!`; `nil` if the file is no script.
    private func interpreter(of file: String, _ io: BlockingIO) -> String? {
        // It need not be readable.
        guard let opened = try? io.open(file, O_RDONLY), let bytes = try? io.read(opened, at: 0, maximum: 256),
            bytes.starts(with: Array("#!".utf8))
        else { return nil }
        let line = bytes.dropFirst(2).prefix { $0 != UInt8(ascii: "\n") }
        let words = line.split(whereSeparator: { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\t") })
        return words.first.map { String(decoding: $0, as: UTF8.self) }
    }

    private static let shownNames = 10
}

extension FileStatus {
    fileprivate var isDirectory: Bool { mode & S_IFMT == S_IFDIR }
    fileprivate var isFile: Bool { mode & S_IFMT == S_IFREG }
}
