internal import Bytes

/// The JSON object of a call.
///
/// Names are compared without regard to case: the C++ SDK sends `VideoType` and `Covername`.
struct UGCFields {
    /// Bytes of a signature, at most.
    static let signatureLength = 16_384

    private let members: JSONMembers

    /// - Throws: `.invalidRequest`.
    init(json: [UInt8]) throws(VODError) {
        if let excess = JSONLimits().excess(in: json) { throw .invalid("invalid request: \(excess) are allowed") }
        guard let members = JSONValue(json: json)?.members,
            let repeated = JSONNames.repeated(in: json)
        else { throw .invalid("invalid request: the body must be one JSON object") }
        var lower: JSONMembers = [:]
        for (name, value) in members {
            guard lower.updateValue(value, forKey: name.lowercasedASCII()) == nil else {
                throw .invalid("invalid request: \(name) occurs twice")
            }
        }
        if let name = repeated.first { throw .invalid("invalid request: \(name) occurs twice") }
        self.members = lower
    }

    /// A text; `nil` if it is missing, `null` or empty, which SDKs do not distinguish.
    func text(_ name: String, atMost limit: Int = 16_384) throws(VODError) -> String? {
        switch members[name.lowercasedASCII()] {
        case nil, .null?: return nil
        case .string(let text)? where text.isEmpty: return nil
        case .string(let text)? where text.utf8.count <= limit && !text.utf8.contains(0): return text
        default: throw .invalid("invalid request: \(name) must be a text of at most \(limit) bytes")
        }
    }

    /// - Throws: `.invalidSignature` if it is missing.
    func signature() throws(VODError) -> String {
        guard let signature = try text("signature", atMost: Self.signatureLength) else {
            throw VODError(.invalidSignature, "invalid signature: it is missing")
        }
        return signature
    }

    /// Bytes of a file; `nil` if it is missing.
    func size(_ name: String) throws(VODError) -> Int64? {
        switch members[name.lowercasedASCII()] {
        case nil, .null?: return nil
        case .integer(let size)? where size > 0: return size
        case .integer(0)?: throw .invalid("invalid request: \(name) is 0: an empty file cannot be uploaded")
        default: throw .invalid("invalid request: \(name) must be a positive integer, the size in bytes")
        }
    }
}

extension VODNamedFiles {
    /// - Throws: `.invalidRequest`.
    init(_ fields: UGCFields) throws(VODError) {
        self.init(
            video: try VODNewFile(fields, "video"),
            cover: try VODNewFile(fields, "cover"),
            replacing: try fields.text("fileId", atMost: 64)
        )
    }
}

extension VODNewFile {
    /// The file whose name, type and size are in these members.
    ///
    /// - Parameters:
    ///   - fields: The members of a call.
    ///   - prefix: `video` or `cover`.
    /// - Throws: `.invalidRequest`.
    ///
    /// `nil` if neither name nor type is there.
    init?(_ fields: UGCFields, _ prefix: String) throws(VODError) {
        let name = try fields.text(prefix + "Name", atMost: 512)
        let type = try fields.text(prefix + "Type", atMost: 512)
        let size = try fields.size(prefix + "Size")
        if name == nil, type == nil {
            guard size == nil else { throw .invalid("invalid request: \(prefix)Type is missing") }
            return nil
        }
        guard let type else { throw .invalid("invalid request: \(prefix)Type is missing") }
        guard Self.isType(type) else {
            throw .invalid("invalid request: \(prefix)Type must be 1 to 16 letters and digits, such as mp4")
        }
        let given = name ?? ""
        guard Self.isName(given) else {
            throw .invalid("invalid request: \(prefix)Name must not contain \\ / : * ? \" < > | or control characters")
        }
        self.init(name: given, type: type, size: size)
    }

    /// Whether a text can be the extension of a file.
    static func isType(_ text: String) -> Bool {
        (1...16).contains(text.utf8.count) && text.utf8.allSatisfy(isLetterOrDigit)
    }

    /// Whether a text can be the name of a file: without what the SDKs refuse themselves.
    ///
    /// It never becomes a path.
    static func isName(_ text: String) -> Bool {
        let forbidden = Set("\\/:*?\"<>|".unicodeScalars)
        return !text.unicodeScalars.contains { scalar in
            forbidden.contains(scalar) || scalar.properties.generalCategory == .control
        }
    }

    private static func isLetterOrDigit(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: false
        }
    }
}
