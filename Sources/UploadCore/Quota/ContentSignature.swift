internal import UploadModel

/// Detects the media type of a file from its first bytes (WHATWG MIME Sniffing §6, and the documents of the formats).
package enum ContentSignature {
    /// Number of bytes that suffice to recognise every type in the table.
    package static let length = 512

    private struct Signature {
        /// One type, or several with the same first bytes.
        let types: [String]
        let offset: Int
        /// `nil` matches any byte.
        let bytes: [UInt8?]

        init(_ types: String..., hex: String) {
            self.types = types
            offset = 0
            bytes = hex.split(separator: " ").map { UInt8($0, radix: 16) }
        }

        init(_ types: String..., at offset: Int = 0, text: String) {
            self.types = types
            self.offset = offset
            bytes = text.utf8.map { (byte: UInt8) -> UInt8? in
                if byte == UInt8(ascii: "?") { return nil }
                return byte
            }
        }

        func matches(_ content: ArraySlice<UInt8>) -> Bool {
            guard content.count >= offset + bytes.count else { return false }
            let part = content.dropFirst(offset)
            return zip(part, bytes).allSatisfy { byte, expected in expected == nil || byte == expected }
        }
    }

    /// More specific signatures come first.
    private static let table: [Signature] = [
        Signature("image/png", hex: "89 50 4E 47 0D 0A 1A 0A"),
        Signature("image/jpeg", hex: "FF D8 FF"),
        Signature("image/gif", text: "GIF87a"),
        Signature("image/gif", text: "GIF89a"),
        Signature("image/webp", text: "RIFF????WEBPVP"),
        Signature("image/bmp", text: "BM"),
        Signature("image/tiff", hex: "49 49 2A 00"),
        Signature("image/tiff", hex: "4D 4D 00 2A"),
        Signature("image/avif", at: 4, text: "ftypavif"),
        Signature("image/avif", at: 4, text: "ftypavis"),
        Signature("image/heic", "image/heif", at: 4, text: "ftyphei"),
        Signature("image/heic", "image/heif", at: 4, text: "ftyphev"),
        Signature("image/heif", "image/heic", at: 4, text: "ftypmif1"),
        Signature("image/heif", "image/heic", at: 4, text: "ftypmsf1"),
        Signature("video/quicktime", "video/mp4", at: 4, text: "ftypqt  "),
        Signature("video/quicktime", at: 4, text: "moov"),
        Signature("video/quicktime", at: 4, text: "mdat"),
        Signature("audio/mp4", "audio/x-m4a", "audio/m4a", "video/mp4", at: 4, text: "ftypM4A"),
        Signature("video/3gpp", "video/3gpp2", "video/mp4", at: 4, text: "ftyp3g"),
        Signature("video/mp4", "audio/mp4", "video/quicktime", "video/x-m4v", at: 4, text: "ftyp"),
        Signature(
            "video/webm",
            "video/x-matroska",
            "video/matroska",
            "audio/webm",
            "audio/x-matroska",
            hex: "1A 45 DF A3"
        ),
        Signature("video/x-msvideo", "video/avi", "video/msvideo", text: "RIFF????AVI "),
        Signature("audio/wav", "audio/wave", "audio/x-wav", "audio/vnd.wave", text: "RIFF????WAVE"),
        Signature("audio/aiff", "audio/x-aiff", text: "FORM????AIFF"),
        Signature("audio/ogg", "video/ogg", "application/ogg", "audio/opus", text: "OggS"),
        Signature("audio/flac", "audio/x-flac", text: "fLaC"),
        Signature("audio/mpeg", "audio/mp3", text: "ID3"),
        Signature("audio/mpeg", "audio/mp3", hex: "FF FB"),
        Signature("audio/mpeg", "audio/mp3", hex: "FF F3"),
        Signature("audio/mpeg", "audio/mp3", hex: "FF F2"),
        Signature("audio/aac", "audio/aacp", "audio/x-aac", hex: "FF F1"),
        Signature("audio/aac", "audio/aacp", "audio/x-aac", hex: "FF F9"),
        Signature("audio/midi", "audio/x-midi", text: "MThd"),
        Signature("video/mpeg", hex: "00 00 01 BA"),
        Signature("video/mpeg", hex: "00 00 01 B3"),
        Signature("video/x-flv", text: "FLV"),
        Signature(
            "video/x-ms-wmv",
            "audio/x-ms-wma",
            "video/x-ms-asf",
            hex: "30 26 B2 75 8E 66 CF 11"
        ),
        Signature("application/pdf", text: "%PDF-"),
        Signature("application/gzip", "application/x-gzip", hex: "1F 8B 08"),
        Signature("application/x-7z-compressed", hex: "37 7A BC AF 27 1C"),
        Signature("application/vnd.rar", "application/x-rar-compressed", text: "Rar!"),
        Signature("application/zstd", hex: "28 B5 2F FD"),
        Signature("application/x-bzip2", text: "BZh"),
        Signature("application/x-xz", hex: "FD 37 7A 58 5A 00"),
        // Many formats are zip files: office documents, app packages, e-books.
        Signature("application/zip", "application/x-zip-compressed", hex: "50 4B 03 04"),
        Signature("application/zip", "application/x-zip-compressed", hex: "50 4B 05 06"),
        Signature("application/x-executable", "application/x-elf", hex: "7F 45 4C 46"),
        Signature("application/vnd.microsoft.portable-executable", "application/x-msdownload", text: "MZ"),
    ]

    /// Whether files of this type are zip files with a type of their own.
    private static func isZipBased(_ essence: String) -> Bool {
        essence.hasSuffix("+zip") || essence.hasPrefix("application/vnd.openxmlformats-officedocument.")
            || essence.hasPrefix("application/vnd.oasis.opendocument.")
            || ["application/java-archive", "application/vnd.android.package-archive"].contains(essence)
    }

    /// The possible types of content with these first bytes; empty if it is not recognised.
    package static func types(of content: ArraySlice<UInt8>) -> [String] {
        if let signature = table.first(where: { $0.matches(content) }) { return signature.types }
        return isTransportStream(content) ? ["video/mp2t"] : []
    }

    /// Packets of 188 bytes that start with the same byte (ISO/IEC 13818-1 §2.4.3.2).
    private static func isTransportStream(_ content: ArraySlice<UInt8>) -> Bool {
        content.count > 376
            && [0, 188, 376].allSatisfy { content[content.startIndex + $0] == 0x47 }
    }

    /// Checks the first bytes of a file against the declared and the allowed media types.
    ///
    /// Unrecognised content passes, unless content of the declared type would be recognised.
    ///
    /// - Parameters:
    ///   - content: The first `length` bytes, or all bytes of a shorter file.
    ///   - declared: The declared media type.
    ///   - allowed: Media type patterns; empty allows any.
    /// - Throws: `.contentTypeRefused`.
    static func check(
        _ content: ArraySlice<UInt8>,
        declared: String?,
        allowed: [String]
    ) throws(UploadError) {
        let declared = MediaTypePattern.essence(of: declared)
        let found = types(of: content)
        if found.isEmpty {
            guard let declared, table.contains(where: { $0.types.contains(declared) }) else { return }
            throw UploadError(.contentTypeRefused, "The content is not \(declared), which was declared.")
        }
        let isZip = found.contains("application/zip")
        if let declared, !found.contains(declared), !(isZip && isZipBased(declared)),
            table.contains(where: { $0.types.contains(declared) }) || !allowed.isEmpty
        {
            throw UploadError(.contentTypeRefused, "The content is \(found[0]), and \(declared) was declared.")
        }
        let possible = isZip ? found + [declared].compactMap { $0 } : found
        guard allowed.isEmpty || possible.contains(where: { MediaTypePattern.matches($0, allowed) }) else {
            throw UploadError(
                .contentTypeRefused,
                "The content is \(found[0]); allowed are: \(allowed.joined(separator: ", "))."
            )
        }
    }
}
