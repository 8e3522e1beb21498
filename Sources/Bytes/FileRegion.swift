package import SystemIO

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
