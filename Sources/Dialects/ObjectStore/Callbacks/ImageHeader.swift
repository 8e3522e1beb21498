/// Format and size of an image, read from the beginning of its file.
struct ImageHeader: Sendable, Equatable {
    /// `jpg`, `png`, `gif`, `webp` or `bmp`.
    let format: String
    /// In pixels.
    let width: Int
    /// In pixels.
    let height: Int

    /// The size is searched for only in this many bytes at the beginning of a file.
    static let maximumBytes = 256 << 10

    /// - Parameter bytes: The beginning of a file. The result is `nil` if it is not an image or too short.
    init?(_ bytes: [UInt8]) {
        let file = FileStart(bytes: bytes)
        guard
            let found = Self.png(file) ?? Self.gif(file) ?? Self.bmp(file) ?? Self.webp(file) ?? Self.jpeg(file),
            found.width > 0, found.height > 0
        else { return nil }
        self = found
    }

    private init(_ format: String, _ width: Int, _ height: Int) {
        self.format = format
        self.width = width
        self.height = height
    }

    /// "Portable Network Graphics (PNG) Specification", §11.2.2.
    private static func png(_ file: FileStart) -> ImageHeader? {
        guard file.has("\u{89}PNG\r\n\u{1A}\n".unicodeScalars.map { UInt8($0.value) }, at: 0),
            file.has("IHDR".utf8, at: 12), let width = file.big(16, 4), let height = file.big(20, 4)
        else { return nil }
        return ImageHeader("png", width, height)
    }

    /// "Graphics Interchange Format", version 89a, §18.
    private static func gif(_ file: FileStart) -> ImageHeader? {
        guard file.has("GIF87a".utf8, at: 0) || file.has("GIF89a".utf8, at: 0), let width = file.little(6, 2),
            let height = file.little(8, 2)
        else { return nil }
        return ImageHeader("gif", width, height)
    }

    /// A BITMAPINFOHEADER; a negative height means rows from top to bottom.
    private static func bmp(_ file: FileStart) -> ImageHeader? {
        guard file.has("BM".utf8, at: 0), let width = file.little(18, 4), let height = file.little(22, 4) else {
            return nil
        }
        return ImageHeader("bmp", width, height < 1 << 31 ? height : 1 << 32 - height)
    }

    /// RFC 9649 §2.5 to §2.7.
    private static func webp(_ file: FileStart) -> ImageHeader? {
        guard file.has("RIFF".utf8, at: 0), file.has("WEBP".utf8, at: 8) else { return nil }
        if file.has("VP8X".utf8, at: 12), let width = file.little(24, 3), let height = file.little(27, 3) {
            return ImageHeader("webp", width + 1, height + 1)
        }
        if file.has("VP8L".utf8, at: 12), let bits = file.little(21, 4) {
            return ImageHeader("webp", bits & 0x3FFF + 1, bits >> 14 & 0x3FFF + 1)
        }
        if file.has("VP8 ".utf8, at: 12), let width = file.little(26, 2), let height = file.little(28, 2) {
            return ImageHeader("webp", width & 0x3FFF, height & 0x3FFF)
        }
        return nil
    }

    /// ITU-T T.81 §B.2.2: the size is in the first frame header.
    private static func jpeg(_ file: FileStart) -> ImageHeader? {
        guard file.has([0xFF, 0xD8], at: 0) else { return nil }
        var index = 2
        while file.big(index, 1) == 0xFF, let marker = file.big(index + 1, 1) {
            switch marker {
            case 0xFF: index += 1
            // Standalone markers without a length.
            case 0x01, 0xD0...0xD7: index += 2
            // Tables and the like, which share the number range of frames.
            case 0xC0...0xCF where ![0xC4, 0xC8, 0xCC].contains(marker):
                guard let height = file.big(index + 5, 2), let width = file.big(index + 7, 2) else { return nil }
                return ImageHeader("jpg", width, height)
            default:
                guard let length = file.big(index + 2, 2), length >= 2 else { return nil }
                index += 2 + length
            }
        }
        return nil
    }
}

/// Bounds-checked access to the first bytes of a file.
private struct FileStart {
    let bytes: [UInt8]

    func has(_ other: some Collection<UInt8>, at start: Int) -> Bool {
        bytes.dropFirst(start).starts(with: other)
    }

    /// A big-endian integer.
    func big(_ start: Int, _ count: Int) -> Int? {
        guard start + count <= bytes.count else { return nil }
        return bytes[start..<start + count].reduce(0) { $0 << 8 | Int($1) }
    }

    /// A little-endian integer.
    func little(_ start: Int, _ count: Int) -> Int? {
        guard start + count <= bytes.count else { return nil }
        return bytes[start..<start + count].reversed().reduce(0) { $0 << 8 | Int($1) }
    }
}
