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

    /// So that little that is sent here does not become much that is sent from here.
    static let maximumVariables = 100

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
        if format == .json, !JSONSyntax.isValid(content { _ in .text("") }) {
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
        var content: [UInt8] = []
        for piece in pieces {
            switch (piece, format) {
            case (.text(let text), _): content += text.utf8
            case (.variable(let variable, _), .form): content += PercentEncoding.encode(value(variable).text).utf8
            case (.variable(let variable, isPartOfText: true), .json):
                content += Self.quoted(value(variable).text).dropFirst().dropLast()
            case (.variable(let variable, isPartOfText: false), .json):
                switch value(variable) {
                case .text(let text): content += Self.quoted(text)
                case .number(let number): content += String(number).utf8
                case .nothing: content += "null".utf8
                }
            }
        }
        return content
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
    /// One of the client's own, with its `x:`.
    case custom(String)

    private static let names: [String: CallbackVariable] = [
        "bucket": .bucket, "object": .object, "etag": .etag, "size": .size, "mimeType": .mimeType, "crc64": .crc64,
        "contentMd5": .contentMD5, "clientIp": .clientIP, "reqId": .requestID, "operation": .operation,
        "imageInfo.height": .imageHeight, "imageInfo.width": .imageWidth, "imageInfo.format": .imageFormat,
        "vpcId": .vpcID,
    ]

    /// - Parameter name: Upper and lower case make a difference.
    init?(_ name: String) {
        if name.hasPrefix("x:"), name.utf8.count > 2 {
            self = .custom(name)
        } else {
            guard let known = Self.names[name] else { return nil }
            self = known
        }
    }
}

/// Whether a place of a JSON text lies within quotation marks.
private struct JSONQuotes {
    private(set) var areOpen = false
    private var isEscaped = false

    mutating func pass(_ bytes: some Sequence<UInt8>) {
        for byte in bytes {
            if isEscaped {
                isEscaped = false
            } else if byte == UInt8(ascii: "\"") {
                areOpen.toggle()
            } else {
                isEscaped = areOpen && byte == UInt8(ascii: "\\")
            }
        }
    }
}
