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
    /// Only the owner of a file and root can do this. A file of another user is refused if anyone besides its owner has
    /// access to it.
    ///
    /// - Parameters:
    ///   - path: Symbolic links are followed.
    ///   - user: The user of the process.
    /// - Returns: Whether there were any such permissions; `false` also if nothing is at this path.
    /// - Throws: `Failure`.
    package static func tighten(_ path: String, as user: uid_t = geteuid()) throws(Failure) -> Bool {
        var status = stat()
        guard stat(path, &status) == 0 else {
            if errno == ENOENT { return false }
            throw failure("cannot be examined", path)
        }
        guard status.st_mode & others != 0 else { return false }
        guard status.st_uid == user || user == 0 else {
            throw Failure(
                description:
                    "\(path) belongs to user \(status.st_uid), and other users have access to it (mode "
                    + "\(octal(status.st_mode))); give it to user \(user) with mode 0\(isDirectory(status) ? 7 : 6)00, "
                    + "or use a directory inside it, which Sluice creates with that mode"
            )
        }
        guard chmod(path, status.st_mode & 0o7700) == 0 else { throw failure("cannot be made private", path) }
        return true
    }

    /// Permissions of group and others.
    private static let others: mode_t = 0o077

    private static func isDirectory(_ status: stat) -> Bool { status.st_mode & S_IFMT == S_IFDIR }

    private static func octal(_ mode: mode_t) -> String { "0" + String(mode & 0o777, radix: 8) }

    private static func failure(_ what: String, _ path: String) -> Failure {
        Failure(description: "\(path) \(what): \(String(cString: strerror(errno)))")
    }
}
