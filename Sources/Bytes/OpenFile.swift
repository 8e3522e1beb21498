#if canImport(Glibc)
internal import Glibc
#endif

/// Sole owner of an open file descriptor, closed when the last reference goes.
package final class OpenFile: Sendable {
    /// The descriptor, valid while this object lives.
    package let descriptor: Int32

    /// Takes over `descriptor`; nobody else may close it.
    package init(owning descriptor: Int32) {
        self.descriptor = descriptor
    }

    deinit {
        _ = close(descriptor)
    }
}

/// A piece of a file.
package struct FileRegion: Sendable {
    package let file: OpenFile
    /// First byte, zero-based.
    package let offset: Int64
    /// Number of bytes.
    package let length: Int64

    package init(file: OpenFile, offset: Int64, length: Int64) {
        self.file = file
        self.offset = offset
        self.length = length
    }
}
