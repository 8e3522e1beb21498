#if canImport(Glibc)
package import Glibc
#endif

/// Files and directories that nobody but their owner has any right to.
package enum PrivatePath {
    /// Why others may have a right to a path still; for the operator, so it names the path.
    package struct Failure: Error, CustomStringConvertible {
        package let description: String
    }

    /// Takes all rights of group and others away.
    ///
    /// Whose file it is decides who can do that: what belongs to somebody else is not changed but refused, if anybody else has a
    /// right to it. Root may do it for everybody.
    ///
    /// - Parameters:
    ///   - path: Links are followed.
    ///   - user: Whom the process runs as.
    /// - Returns: Whether there were any; `false` also if there is nothing at this path.
    /// - Throws: `Failure`.
    package static func tighten(_ path: String, as user: uid_t = geteuid()) throws(Failure) -> Bool {
        var status = stat()
        guard stat(path, &status) == 0 else {
            if errno == ENOENT { return false }
            throw failure("can not be looked at", path)
        }
        guard status.st_mode & others != 0 else { return false }
        guard status.st_uid == user || user == 0 else {
            throw Failure(
                description:
                    "\(path) belongs to user \(status.st_uid), and others than its owner have rights to it (mode "
                    + "\(octal(status.st_mode))); give it to user \(user) with mode 0\(isDirectory(status) ? 7 : 6)00, "
                    + "or name a directory within it, which is made so"
            )
        }
        guard chmod(path, status.st_mode & 0o7700) == 0 else { throw failure("can not be made private", path) }
        return true
    }

    /// The rights of group and others.
    private static let others: mode_t = 0o077

    private static func isDirectory(_ status: stat) -> Bool { status.st_mode & S_IFMT == S_IFDIR }

    private static func octal(_ mode: mode_t) -> String { "0" + String(mode & 0o777, radix: 8) }

    private static func failure(_ what: String, _ path: String) -> Failure {
        Failure(description: "\(path) \(what): \(String(cString: strerror(errno)))")
    }
}
