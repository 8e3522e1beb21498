internal import Bytes
internal import Foundation
internal import HTTPWire

/// The content of a callback with variables in it, such as `${size}` ("Callback", OSS documentation).
///
/// In a form a variable stands for its value percent-encoded. In JSON it stands for a value, as in `{"size":${size}}`; within
/// quotation marks for a part of the text, as in `{"place":"${bucket}/${object}"}`.
struct CallbackTemplate: Sendable, Equatable {
    enum Format: String, Sendable, CaseIterable {
        case form = "application/x-www-form-urlencoded"
        case json = "application/json"
    }

    private enum Piece: Sendable, Equatable {
        case text(String)
        /// Within quotation marks, or not.
        case variable(CallbackVariable, isPartOfText: Bool)
    }

    let format: Format
    private let pieces: [Piece]

    static let maximumVariables = 100
    /// Bytes of the content with values in it, so that little that is sent here does not become much that is sent from here.
    static let maximumBytes = 64 << 10

    /// The template in `text`.
    ///
    /// - Throws: `InvalidArgument`.
    init(_ text: String, _ format: Format) throws(S3Error) {
        func problem(_ message: String) -> S3Error { .argument("callbackBody", text, message) }
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
                    "The variable ${\(name)} must not stand behind a backslash, or within \\u and its digits."
                )
            }
            pieces.append(.variable(variable, isPartOfText: quotes.areOpen))
            rest = rest[end...].dropFirst()
            variables += 1
        }
        pieces.append(.text(String(Substring(rest))))
        guard variables <= Self.maximumVariables else {
            throw problem("The callback body may have \(Self.maximumVariables) variables at most.")
        }
        self.format = format
        self.pieces = pieces
        // A text could be a name, and a number a part of another one: what is JSON with both is so with every value.
        if format == .json,
            ![.text(""), .number(0)].allSatisfy({ value in JSONSyntax.isValid(content { _ in value }) })
        {
            throw problem("The callback body is invalid: it must be JSON in which each variable stands for a value.")
        }
    }

    /// Whether something is asked for that only the bytes of an image tell.
    var asksForImage: Bool {
        pieces.contains { piece in
            guard case .variable(let variable, _) = piece else { return false }
            return [.imageHeight, .imageWidth, .imageFormat].contains(variable)
        }
    }

    /// The content with values in it.
    func content(_ value: (CallbackVariable) -> CallbackValue) -> [UInt8] {
        pieces.reduce(into: []) { $0 += bytes($1, value) }
    }

    /// Whether the content with values in it has at most `maximumBytes`; it is not made for that.
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

/// What stands for a variable.
enum CallbackValue: Sendable, Equatable {
    case text(String)
    case number(Int64)
    /// A number that there is none of.
    case nothing

    var text: String {
        switch self {
        case .text(let text): text
        case .number(let number): String(number)
        case .nothing: ""
        }
    }
}

/// What a template can ask for.
enum CallbackVariable: Sendable, Hashable {
    case bucket, object, etag, size, mimeType, crc64, contentMD5, clientIP, requestID, operation
    case imageHeight, imageWidth, imageFormat
    /// There is none here.
    case vpcID
    /// One of the client's own, with its `x:`, in lower case.
    case custom(String)

    private static let names: [String: CallbackVariable] = [
        "bucket": .bucket, "object": .object, "etag": .etag, "size": .size, "mimeType": .mimeType, "crc64": .crc64,
        "contentMd5": .contentMD5, "clientIp": .clientIP, "reqId": .requestID, "operation": .operation,
        "imageInfo.height": .imageHeight, "imageInfo.width": .imageWidth, "imageInfo.format": .imageFormat,
        "vpcId": .vpcID,
    ]

    /// - Parameter name: Upper and lower case make a difference, but for those of the client.
    init?(_ name: String) {
        if let custom = Self.customName(name) {
            self = .custom(custom)
        } else {
            guard let known = Self.names[name] else { return nil }
            self = known
        }
    }

    /// In lower case, as fields of forms are compared; `nil` for what is no name of a variable of the client.
    static func customName(_ name: String) -> String? {
        let name = name.lowercased()
        return name.hasPrefix("x:") && name.utf8.count > 2 ? name : nil
    }
}

/// Whether a place of a JSON text lies within quotation marks, and there in an escape sequence (RFC 8259 §7).
private struct JSONQuotes {
    private enum Escape: Equatable {
        case none
        /// Behind the backslash.
        case begun
        /// So many digits are to come.
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
