internal import Glibc

/// Where a system call finds a file.
package struct FilePlace: Sendable {
    /// A relative path begins here; by default in the current directory of the process.
    let directory: Int32
    /// Whether a symbolic link at the end of the path is followed.
    let followsLinks: Bool
    private let path: String
    /// The path that the kernel gets begins after so many bytes.
    private let start: Int

    /// - Parameter path: From the root, or from the current directory of the process.
    package init(_ path: String) {
        self.path = path
        start = 0
        directory = AT_FDCWD
        followsLinks = true
    }

    fileprivate init(_ path: String, from start: Int, below directory: Int32) {
        self.path = path
        self.start = start
        self.directory = directory
        followsLinks = false
    }

    /// Runs `body` with the path that the kernel gets; nothing is copied.
    func withPath<Value>(_ body: (UnsafePointer<CChar>) -> Value) -> Value {
        path.withCString { body($0 + start) }
    }
}

/// An open directory with a path by which its files are named.
///
/// Calls on such paths begin at the open directory, whatever is at its path by then, and follow no symbolic link. Only the size
/// and the times of a file are also read by way of a link that is not at the end.
package final class AnchoredDirectory: Sendable {
    package let file: OpenFile
    private let path: String
    private let prefix: String
    private let prefixSize: Int

    /// - Parameters:
    ///   - file: The open directory.
    ///   - path: How paths of its files begin, without a slash at the end.
    package init(_ file: OpenFile, path: String) {
        self.file = file
        self.path = path
        prefix = path + "/"
        prefixSize = prefix.utf8.count
    }

    func place(_ path: String) -> FilePlace? {
        if path.hasPrefix(prefix) { return FilePlace(path, from: prefixSize, below: file.descriptor) }
        return path == self.path ? FilePlace(".", from: 0, below: file.descriptor) : nil
    }
}
