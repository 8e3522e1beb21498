internal import Bytes
internal import Foundation
internal import HTTPWire
internal import ObjectGateway
internal import ObjectStore
internal import RESTKit
internal import Signing
internal import UploadCore
internal import UploadModel

/// The query of a request to `CompanionAPI`; unknown parameters are ignored, as in Companion.
struct CompanionQuery: Sendable {
    private let items: QueryItems

    /// - Throws: `Problem` 400.
    init(_ request: Request) throws(Problem) {
        do throws(QueryItems.Failure) {
            items = try request.head.target.queryItems()
        } catch {
            throw CompanionAPI.refusal("the query is malformed: \(error.reason)")
        }
    }

    subscript(name: String) -> String? { items.first(name) }

    /// `metadata[name]=value`.
    var metadata: ExactNames<String> {
        items.items.reduce(into: ExactNames()) { metadata, item in
            guard item.name.hasPrefix("metadata["), item.name.hasSuffix("]") else { return }
            metadata[String(item.name.dropFirst("metadata[".count).dropLast())] = item.value
        }
    }
}

/// A file that a page wants to upload.
struct CompanionFile: Sendable {
    let filename: String?
    /// `nil` if it is not a media type.
    let contentType: String?
    let metadata: ExactNames<String>

    init(filename: String?, type: String?, metadata: ExactNames<String>) {
        self.filename = filename
        contentType = type.flatMap { MediaType($0) == nil || $0.hasSuffix("/*") ? nil : $0 }
        self.metadata = metadata
    }

    /// - Throws: `Problem` 400, 413 or 415.
    init(readingFrom request: Request, limit: Int) async throws(Problem) {
        let bytes = try await JSONFields.content(of: request, limit: limit)
        let refusal = CompanionAPI.refusal(
            "the content must be JSON without repeated names: {\"filename\": …, \"type\": …, \"metadata\": {…}}"
        )
        guard let content = JSONValue(json: bytes)?.members, JSONNames.areUnique(in: bytes) else { throw refusal }
        func text(_ name: String) throws(Problem) -> String? {
            switch content[name] {
            case nil, .null?: return nil
            case .string(let text)?: return text
            default: throw refusal
            }
        }
        let metadata: JSONMembers
        switch content["metadata"] {
        case nil, .null?: metadata = [:]
        case .object(let members)?: metadata = members
        default: throw refusal
        }
        self.init(
            filename: try text("filename"),
            type: try text("type"),
            metadata: ExactNames(
                uniqueKeysWithValues: metadata.compactMap { name, value in Self.text(value).map { (name, $0) } }
            )
        )
    }

    private static func text(_ value: JSONValue) -> String? {
        switch value {
        case .string(let text): text
        case .integer(let number): String(number)
        case .number(let number): String(number)
        case .bool(let flag): String(flag)
        case .null, .array, .object: nil
        }
    }

    // MARK: The object

    /// The key: prefixed with the user's name, so that credentials can be limited to one user's keys, and unique, so
    /// that no object is overwritten.
    ///
    /// - Throws: `Problem` 400.
    func key(for subject: String?, id: String) throws(Problem) -> String {
        guard let filename, !filename.isEmpty else {
            throw CompanionAPI.refusal("`filename` is required: the name of the file, not empty")
        }
        guard !filename.unicodeScalars.contains(where: { $0.value < 0x20 }) else {
            throw CompanionAPI.refusal("`filename` must have no control characters")
        }
        let start = (subject.flatMap { KeyPrefix(subject: $0) }?.text ?? "") + "\(id)-"
        // A slash would create segments, and clients remove `.` and `..` from URLs.
        let last = filename.split(whereSeparator: { $0 == "/" || $0 == "\\" }).last ?? "file"
        // The end of a long name is kept, because it shows the type, from the first whole character on.
        let end = last.utf8.suffix(S3Names.maximumKeyByteCount - start.utf8.count).drop { $0 & 0xC0 == 0x80 }
        return start + String(decoding: end, as: UTF8.self)
    }

    /// Header fields that are kept with the object.
    ///
    /// - Throws: `Problem` 400.
    func headers() throws(Problem) -> [SigningField] {
        let hint = "see `allowedMetaFields` of Uppy"
        let headers = metadata.sorted { $0.key < $1.key }
            .map { SigningField("x-amz-meta-\($0.key.lowercasedASCII())", $0.value) }
        for header in headers {
            guard FieldName(header.name) != nil, header.value.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7F }) else {
                throw CompanionAPI.refusal(
                    "the names in `metadata` must be valid names of header fields, without spaces, and the values must have no control "
                        + "characters; \(hint)"
                )
            }
        }
        guard Set(headers.map(\.name)).count == headers.count else {
            throw CompanionAPI.refusal("the names in `metadata` must differ in more than case; \(hint)")
        }
        let most = S3ObjectHeaders.maximumUserMetadata
        guard metadata.reduce(0, { $0 + $1.key.utf8.count + $1.value.utf8.count }) <= most else {
            throw CompanionAPI.refusal("`metadata` may have at most \(most) bytes; \(hint)")
        }
        return headers
    }
}

/// The parts that a page wants to join.
struct CompanionParts: Sendable {
    let named: [NamedPart]

    /// - Throws: `Problem` 400, 413 or 415.
    init(readingFrom request: Request, limit: Int) async throws(Problem) {
        var limits = JSONLimits()
        // Two members for each part.
        limits.members = 40_000
        let bytes = try await JSONFields.content(of: request, limit: limit, limits: limits)
        // Parsing 10,000 parts takes some tenths of a second; the event loop serves others meanwhile.
        let named = await Task.detached { Self.named(bytes) }.value
        guard let named else {
            throw CompanionAPI.refusal(
                "the content must be JSON without repeated names: {\"parts\": [{\"PartNumber\": 1, \"ETag\": …}, …]}"
            )
        }
        self.named = named
    }

    private static func named(_ json: [UInt8]) -> [NamedPart]? {
        guard case .array(let parts)? = JSONValue(json: json)?.members?["parts"], JSONNames.areUnique(in: json) else {
            return nil
        }
        var named: [NamedPart] = []
        for part in parts {
            guard case .object(let members) = part, case .integer(let number)? = members["PartNumber"],
                case .string(let tag)? = members["ETag"]
            else { return nil }
            named.append(NamedPart(number: Int(number), entityTag: tag.replacing("\"", with: "")))
        }
        return named
    }
}
