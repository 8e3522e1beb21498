internal import Bytes
internal import Foundation

/// Limits of an account; `nil` and empty lists mean no limit.
package struct Policy: Sendable, Equatable, Codable {
    /// Bytes of media and of uploads that may become media.
    package var storedBytes: Int64?
    /// Bytes of uploads created in the period.
    package var periodBytes: Int64?
    /// Number of uploads open at the same time.
    package var openUploads: Int64?
    /// Number of uploads created in the period.
    package var periodUploads: Int64?
    /// Bytes of one upload.
    package var uploadBytes: Int64?
    /// Allowed media types: `type/subtype` or `type/*`.
    package var contentTypes: [String] = []
    /// Allowed file name extensions, in lower case, without the dot.
    package var extensions: [String] = []
    /// Whether the first bytes of the content must match the declared media type and `contentTypes`.
    package var checksContent = false

    package init() {}

    /// Whether the policy limits nothing.
    package var isEmpty: Bool { self == Policy() }
}

extension Policy {
    private enum CodingKeys: String, CodingKey {
        case storedBytes, periodBytes, openUploads, periodUploads, uploadBytes, contentTypes, extensions, checksContent
    }

    // Missing members mean no limit, so that a record can be read by other versions than the one that wrote it.
    package init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        storedBytes = try container.decodeIfPresent(Int64.self, forKey: .storedBytes)
        periodBytes = try container.decodeIfPresent(Int64.self, forKey: .periodBytes)
        openUploads = try container.decodeIfPresent(Int64.self, forKey: .openUploads)
        periodUploads = try container.decodeIfPresent(Int64.self, forKey: .periodUploads)
        uploadBytes = try container.decodeIfPresent(Int64.self, forKey: .uploadBytes)
        contentTypes = try container.decodeIfPresent([String].self, forKey: .contentTypes) ?? []
        extensions = try container.decodeIfPresent([String].self, forKey: .extensions) ?? []
        checksContent = try container.decodeIfPresent(Bool.self, forKey: .checksContent) ?? false
    }

    /// Checks the declared properties of a file.
    ///
    /// - Throws: `.contentTypeRefused`.
    package func check(_ metadata: UploadMetadata) throws(UploadError) {
        if !contentTypes.isEmpty {
            try MediaTypePattern.check(metadata.contentType, against: contentTypes)
        }
        guard !extensions.isEmpty, !allows(fileName: metadata.filename ?? "") else { return }
        throw UploadError(
            .contentTypeRefused,
            "The file name must be declared in the metadata (filename) and end in one of: \(namedExtensions)."
        )
    }

    /// Checks the file names in the Content-Disposition of an object, under which clients save it.
    ///
    /// - Parameter names: `nil` if they cannot be read.
    /// - Throws: `.contentTypeRefused`.
    package func check(fileNames names: [String]?) throws(UploadError) {
        guard !extensions.isEmpty, names?.allSatisfy(allows(fileName:)) != true else { return }
        throw UploadError(
            .contentTypeRefused,
            "Each file name in Content-Disposition must end in one of: \(namedExtensions)."
        )
    }

    private func allows(fileName name: String) -> Bool {
        let written = name.lastIndex(of: ".").map { name[name.index(after: $0)...] } ?? ""
        let suffix = written.lowercased()
        // Lowercasing turns the kelvin sign (U+212A) into the letter k, which is shorter; such a name must not match.
        let isSameLength = written.utf8.count == suffix.utf8.count
        return isSameLength && extensions.contains { $0.isExactly(suffix) }
    }

    private var namedExtensions: String { extensions.map { "." + $0 }.joined(separator: ", ") }
}

/// Matches declared media types (RFC 9110 §8.3.1) against `type/subtype`, `type/*` and `*/*`.
package enum MediaTypePattern {
    /// - Throws: `.contentTypeRefused` unless `contentType` matches `allowed`.
    package static func check(_ contentType: String?, against allowed: [String]) throws(UploadError) {
        guard let essence = essence(of: contentType), matches(essence, allowed) else {
            throw UploadError(
                .contentTypeRefused,
                "The media type must be declared in the metadata (filetype) and be one of: "
                    + allowed.joined(separator: ", ") + "."
            )
        }
    }

    /// The type without parameters, in lower case; `nil` for text that is not one media type.
    ///
    /// It is read byte by byte: the kelvin sign is no K, and the Greek question mark no semicolon.
    /// Of a list, even behind a parameter, browsers take the last type (WHATWG Fetch, "extract a MIME type").
    package static func essence(of contentType: String?) -> String? {
        guard let contentType, !isList(contentType) else { return nil }
        var essence = contentType.utf8.prefix { $0 != UInt8(ascii: ";") }
        while let first = essence.first, isSpace(first) { essence = essence.dropFirst() }
        while let last = essence.last, isSpace(last) { essence = essence.dropLast() }
        let parts = essence.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        guard parts.count == 2, parts.allSatisfy({ !$0.isEmpty && $0.allSatisfy(isInToken) }) else { return nil }
        return Substring(essence).lowercasedASCII()
    }

    private static func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }

    /// RFC 9110 §5.6.2.
    private static func isInToken(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
        }
    }

    /// Whether there is a comma outside of quotes.
    private static func isList(_ text: String) -> Bool {
        var isQuoted = false
        var isEscaped = false
        for byte in text.utf8 {
            switch byte {
            case _ where isEscaped: isEscaped = false
            case UInt8(ascii: "\\") where isQuoted: isEscaped = true
            case UInt8(ascii: "\""): isQuoted.toggle()
            case UInt8(ascii: ",") where !isQuoted: return true
            default: break
            }
        }
        return false
    }

    /// The patterns for types that two lists allow, each of which allows any type if it is empty.
    ///
    /// - Returns: `nil` if no type is in both.
    package static func common(_ one: [String], _ other: [String]) -> [String]? {
        if one.isEmpty || other.isEmpty { return one + other }
        func covers(_ wide: String, _ narrow: String) -> Bool { matches(narrow.lowercasedASCII(), [wide]) }
        let narrow = one.filter { pattern in other.contains { covers($0, pattern) } }
        let rest = other.filter { pattern in one.contains { covers($0, pattern) } && !narrow.contains(pattern) }
        return narrow.isEmpty && rest.isEmpty ? nil : narrow + rest
    }

    /// - Parameters:
    ///   - essence: A result of `essence(of:)`.
    ///   - allowed: Patterns, in any case.
    /// - Returns: Whether one of the patterns matches.
    package static func matches(_ essence: String, _ allowed: [String]) -> Bool {
        let type = essence.prefix { $0 != "/" }
        return allowed.contains { pattern in
            let pattern = pattern.lowercasedASCII()
            return pattern.isExactly(essence) || pattern.isExactly("\(type)/*") || pattern.isExactly("*/*")
        }
    }
}
