package import SystemIO

#if canImport(Glibc)
package import Glibc
#endif

/// Restricts files and directories to their owner.
package enum PrivatePath {
    /// Why a path could not be restricted; for the operator, so it includes the path.
    package struct Failure: Error, CustomStringConvertible {
        package let description: String
    }

    /// Removes all permissions of group and others.
    ///
    /// - Parameters:
    ///   - path: Must not be a symbolic link.
    ///   - user: The user of the process.
    ///   - rootMayBorrow: Whether root accepts a file of another user, for commands beside that user's gateway.
    ///   - io: Looks up the path.
    /// - Returns: Whether there were any such permissions; `false` also if nothing is at this path.
    /// - Throws: `Failure`, also for a file of another user: its owner could change it at any time.
    package static func tighten(
        _ path: String,
        as user: uid_t = geteuid(),
        rootMayBorrow: Bool = false,
        _ io: BlockingIO = .onCallingThread
    ) throws(Failure) -> Bool {
        let file: OpenFile
        do throws(SystemError) {
            file = try io.open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
        } catch {
            switch error.errno {
            case ENOENT: return false
            case ELOOP:
                throw Failure(
                    description:
                        "\(path) is a symbolic link, and Sluice follows none in a data directory; move what it points to here, or mount it"
                )
            default: throw failure("cannot be opened", path, error)
            }
        }
        return try tighten(file, named: path, as: user, rootMayBorrow: rootMayBorrow) { () throws(SystemError) in
            try io.entries(of: path).isEmpty
        }
    }

    /// The same for an open file or directory; a directory that others can write to is refused unless it is empty, because they
    /// may have put links there.
    ///
    /// - Parameters:
    ///   - file: The open file.
    ///   - path: Its name in errors.
    ///   - user: The user of the process.
    ///   - rootMayBorrow: As above.
    ///   - isEmpty: Asked about a directory that others can write to.
    /// - Returns: Whether there were any such permissions.
    /// - Throws: `Failure`.
    package static func tighten(
        _ file: OpenFile,
        named path: String,
        as user: uid_t = geteuid(),
        rootMayBorrow: Bool = false,
        isEmpty: () throws(SystemError) -> Bool
    ) throws(Failure) -> Bool {
        let status: FileStatus
        let mayHaveForeignFiles: Bool
        do throws(SystemError) {
            status = try BlockingIO.onCallingThread.status(of: file)
            let isOpen = status.mode & writing != 0 && isDirectory(status)
            mayHaveForeignFiles = isOpen ? !(try isEmpty()) : false
        } catch {
            throw failure("cannot be examined", path, error)
        }
        let mode = isDirectory(status) ? "0700" : "0600"
        guard status.owner == user || rootMayBorrow && user == 0 && status.links == 1 else {
            throw Failure(
                description:
                    "\(path) belongs to user \(status.owner), and Sluice runs as user \(user); give it to user \(user) with mode "
                    + "\(mode), or run Sluice as user \(status.owner)"
            )
        }
        guard !mayHaveForeignFiles else {
            throw Failure(
                description:
                    "other users can write to \(path) (mode \(octal(status))); remove what is not of Sluice, and then run "
                    + "`chmod \(mode) \(path)`"
            )
        }
        guard status.mode & others != 0 else { return false }
        guard fchmod(file.descriptor, status.mode & 0o7700) == 0 else {
            throw failure("cannot be made private", path, SystemError("fchmod", errno: errno))
        }
        return true
    }

    /// Permissions of group and others.
    private static let others: mode_t = 0o077
    private static let writing: mode_t = 0o022

    private static func isDirectory(_ status: FileStatus) -> Bool { status.mode & S_IFMT == S_IFDIR }

    private static func octal(_ status: FileStatus) -> String { "0" + String(status.mode & 0o777, radix: 8) }

    private static func failure(_ what: String, _ path: String, _ error: SystemError) -> Failure {
        Failure(description: "\(path) \(what): \(error.reason)")
    }
}
