internal import Foundation

/// What an account may do; `nil` and empty lists are no limit.
package struct Policy: Sendable, Equatable, Codable {
    /// Bytes of media, and of uploads that may become media.
    package var storedBytes: Int64?
    /// Bytes of uploads that began in the period.
    package var periodBytes: Int64?
    /// Uploads that are open at the same time.
    package var openUploads: Int64?
    /// Uploads that began in the period.
    package var periodUploads: Int64?
    /// Bytes of one upload.
    package var uploadBytes: Int64?
    /// Allowed media types, `type/subtype` or `type/*`.
    package var contentTypes: [String] = []
    /// Allowed extensions of file names, in lower case and without the dot.
    package var extensions: [String] = []
    /// The first bytes of the content must fit the declared media type and `contentTypes`.
    package var checksContent = false

    package init() {}

    /// Whether there is anything that this does not allow.
    package var isEmpty: Bool { self == Policy() }
}

extension Policy {
    private enum CodingKeys: String, CodingKey {
        case storedBytes, periodBytes, openUploads, periodUploads, uploadBytes, contentTypes, extensions, checksContent
    }

    // Members that are missing are no limit, so that a record outlives the version that wrote it.
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

    /// Checks what is declared about a file.
    ///
    /// - Throws: `.contentTypeRefused`.
    func check(_ metadata: UploadMetadata) throws(UploadError) {
        if !contentTypes.isEmpty {
            try MediaTypePattern.check(metadata.contentType, against: contentTypes)
        }
        guard !extensions.isEmpty else { return }
        let name = metadata.filename ?? ""
        let suffix = name.lastIndex(of: ".").map { name[name.index(after: $0)...].lowercased() } ?? ""
        guard extensions.contains(suffix) else {
            let allowed = extensions.map { "." + $0 }.joined(separator: ", ")
            throw UploadError(
                .contentTypeRefused,
                "The file name must be declared in the metadata (filename) and end in one of: \(allowed)."
            )
        }
    }
}

/// Matching of declared media types (RFC 9110 §8.3.1) against `type/subtype`, `type/*` and `*/*`.
enum MediaTypePattern {
    /// - Throws: `.contentTypeRefused` unless `contentType` is among `allowed`.
    static func check(_ contentType: String?, against allowed: [String]) throws(UploadError) {
        guard let essence = essence(of: contentType), matches(essence, allowed) else {
            throw UploadError(
                .contentTypeRefused,
                "The media type must be declared in the metadata (filetype) and be one of: "
                    + allowed.joined(separator: ", ") + "."
            )
        }
    }

    /// The type without its parameters, in lower case; `nil` for what is no media type.
    static func essence(of contentType: String?) -> String? {
        guard let essence = contentType?.split(separator: ";", omittingEmptySubsequences: false).first else {
            return nil
        }
        let wanted = essence.trimmingCharacters(in: .whitespaces).lowercased()
        let parts = wanted.split(separator: "/", omittingEmptySubsequences: false)
        return parts.count == 2 && parts.allSatisfy { !$0.isEmpty } ? wanted : nil
    }

    /// - Parameters:
    ///   - essence: As `essence(of:)` gives it.
    ///   - allowed: Patterns, in any case.
    /// - Returns: Whether one of them matches.
    static func matches(_ essence: String, _ allowed: [String]) -> Bool {
        let type = essence.prefix { $0 != "/" }
        return allowed.contains { pattern in
            let pattern = pattern.lowercased()
            return pattern == essence || pattern == "\(type)/*" || pattern == "*/*"
        }
    }
}
