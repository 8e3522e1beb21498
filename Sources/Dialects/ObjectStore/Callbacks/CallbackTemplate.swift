internal import Bytes
internal import Foundation
internal import HTTPWire

/// The content of a callback, with variables such as `${size}` ("Callback", OSS documentation).
///
/// In a form, a variable is replaced by its percent-encoded value. In JSON it is replaced by a value, as in
/// `{"size":${size}}`, or, within quotation marks, by part of a string, as in `{"place":"${bucket}/${object}"}`.
struct CallbackTemplate: Sendable, Equatable {
    enum Format: String, Sendable, CaseIterable {
        case form = "application/x-www-form-urlencoded"
        case json = "application/json"
    }

    private enum Piece: Sendable, Equatable {
        case text(String)
        /// Whether the variable stands within quotation marks.
        case variable(CallbackVariable, isPartOfText: Bool)
    }

    let format: Format
    private let pieces: [Piece]

    static let maximumVariables = 100
    /// Maximum content after substitution, in bytes, so that a small request cannot cause a large callback.
    static let maximumBytes = 64 << 10

    /// Parses a template.
    ///
    /// - Throws: `InvalidArgument`.
    init(_ text: String, _ format: Format) throws(ObjectError) {
        func problem(_ message: String) -> ObjectError { .argument("callbackBody", text, message) }
        var pieces: [Piece] = []
        var quotes = JSONQuotes()
        var rest = text.utf8[...]
        var variables = 0
        while let dollar = rest.firstIndex(of: UInt8(ascii: "$")) {
            pieces.append(.text(String(Substring(rest[..<dollar]))))
            quotes.pass(rest[..<dollar])
            rest = rest[dollar...].dropFirst()
            guard rest.first == UInt8(ascii: "{") else { throw problem("Left brace must be adjacent to dollar sign.") }
            guard let end = rest.firstIndex(of: UInt8(ascii: "}")) else {
                throw problem("A variable lacks its right brace.")
            }
            let name = String(Substring(rest[..<end].dropFirst()))
            guard let variable = CallbackVariable(name) else { throw problem("There is no variable ${\(name)}.") }
            guard format == .form || !quotes.areEscaping else {
                throw problem(
                    "The variable ${\(name)} must not follow a backslash, or be within \\u and its digits."
                )
            }
            pieces.append(.variable(variable, isPartOfText: quotes.areOpen))
            rest = rest[end...].dropFirst()
            variables += 1
        }
        pieces.append(.text(String(Substring(rest))))
        guard variables <= Self.maximumVariables else {
            throw problem("The callback body must have at most \(Self.maximumVariables) variables.")
        }
        self.format = format
        self.pieces = pieces
        // A string could become a name, and a number part of another one. If the template is valid JSON with both, it
        // is valid with every value.
        if format == .json,
            ![.text(""), .number(0)].allSatisfy({ value in JSONSyntax.isValid(content { _ in value }) })
        {
            throw problem("The callback body is invalid: it must be JSON in which each variable stands for a value.")
        }
    }

    /// Whether it needs facts that only the bytes of an image provide.
    var asksForImage: Bool {
        pieces.contains { piece in
            guard case .variable(let variable, _) = piece else { return false }
            return [.imageHeight, .imageWidth, .imageFormat].contains(variable)
        }
    }

    /// The content after substitution.
    func content(_ value: (CallbackVariable) -> CallbackValue) -> [UInt8] {
        pieces.reduce(into: []) { $0 += bytes($1, value) }
    }

    /// Whether the content after substitution fits into `maximumBytes`; computed without building it.
    func fits(_ value: (CallbackVariable) -> CallbackValue) -> Bool {
        var count = 0
        return pieces.allSatisfy { piece in
            count += bytes(piece, value).count
            return count <= Self.maximumBytes
        }
    }

    private func bytes(_ piece: Piece, _ value: (CallbackVariable) -> CallbackValue) -> [UInt8] {
        switch (piece, format) {
        case (.text(let text), _): Array(text.utf8)
        case (.variable(let variable, _), .form): Array(PercentEncoding.encode(value(variable).text).utf8)
        case (.variable(let variable, isPartOfText: true), .json):
            Array(Self.quoted(value(variable).text).dropFirst().dropLast())
        case (.variable(let variable, isPartOfText: false), .json):
            switch value(variable) {
            case .text(let text): Self.quoted(text)
            case .number(let number): Array(String(number).utf8)
            case .nothing: Array("null".utf8)
            }
        }
    }

    private static func quoted(_ text: String) -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .withoutEscapingSlashes
        return (try? encoder.encode(text)).map { [UInt8]($0) } ?? Array("\"\"".utf8)
    }
}

/// The value of a variable.
enum CallbackValue: Sendable, Equatable {
    case text(String)
    case number(Int64)
    /// A number that does not exist.
    case nothing

    var text: String {
        switch self {
        case .text(let text): text
        case .number(let number): String(number)
        case .nothing: ""
        }
    }
}

/// A variable of a template.
enum CallbackVariable: Sendable, Hashable {
    case bucket, object, etag, size, mimeType, crc64, contentMD5, clientIP, requestID, operation
    case imageHeight, imageWidth, imageFormat
    /// Always empty here.
    case vpcID
    /// A variable of the client, with its `x:` prefix, in lower case.
    case custom(String)

    private static let names: [String: CallbackVariable] = [
        "bucket": .bucket, "object": .object, "etag": .etag, "size": .size, "mimeType": .mimeType, "crc64": .crc64,
        "contentMd5": .contentMD5, "clientIp": .clientIP, "reqId": .requestID, "operation": .operation,
        "imageInfo.height": .imageHeight, "imageInfo.width": .imageWidth, "imageInfo.format": .imageFormat,
        "vpcId": .vpcID,
    ]

    /// - Parameter name: Case-sensitive, except for the client's own variables.
    init?(_ name: String) {
        if let custom = Self.customName(name) {
            self = .custom(custom)
        } else {
            guard let known = Self.names[name] else { return nil }
            self = known
        }
    }

    /// The name in lower case, as form fields are compared; `nil` if it is not a custom variable's name.
    static func customName(_ name: String) -> String? {
        let name = name.lowercasedASCII()
        return name.hasPrefix("x:") && name.utf8.count > 2 ? name : nil
    }
}

/// Tracks whether a position in a JSON text is inside a string, and there inside an escape sequence (RFC 8259 §7).
private struct JSONQuotes {
    private enum Escape: Equatable {
        case none
        /// After the backslash.
        case begun
        /// Number of hexadecimal digits still expected.
        case digits(Int)
    }

    private(set) var areOpen = false
    private var escape = Escape.none

    var areEscaping: Bool { escape != .none }

    mutating func pass(_ bytes: some Sequence<UInt8>) {
        for byte in bytes {
            switch escape {
            case .begun: escape = byte == UInt8(ascii: "u") ? .digits(4) : .none
            case .digits(let count): escape = count > 1 ? .digits(count - 1) : .none
            case .none where byte == UInt8(ascii: "\""): areOpen.toggle()
            case .none: if areOpen, byte == UInt8(ascii: "\\") { escape = .begun }
            }
        }
    }
}
