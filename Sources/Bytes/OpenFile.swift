#if canImport(Glibc)
internal import Glibc
#endif

/// The sole owner of an open file descriptor; closes it when the last reference is released.
package final class OpenFile: Sendable {
    /// The descriptor, valid while this object lives.
    package let descriptor: Int32

    /// Takes ownership of `descriptor`; nothing else may close it.
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
