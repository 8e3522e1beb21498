internal import Bytes
internal import Foundation
internal import UploadModel

/// The keys of objects: text with `{subject}`, `{yyyy}`, `{mm}`, `{dd}`, `{id}`, `{name}` and `{ext}`.
///
/// `{ext}` is the extension of the file name with its dot, if it has a common form. Values from outside are restricted
/// to letters, digits, `.`, `_` and `-`; other characters become `-`.
package struct KeyTemplate: Sendable, Equatable {
    private enum Piece: Sendable, Equatable {
        case text(String)
        case field(Field)
    }

    private enum Field: String {
        case subject, yyyy, mm, dd, id, name, ext
    }

    package let text: String
    private let pieces: [Piece]

    package static let `default` = KeyTemplate(text: "{id}{ext}", pieces: [.field(.id), .field(.ext)])

    private init(text: String, pieces: [Piece]) {
        self.text = text
        self.pieces = pieces
    }

    /// - Throws: The problem of the template.
    package init(_ text: String) throws(Invalid) {
        var pieces: [Piece] = []
        var rest = text[...]
        while let open = rest.firstIndex(of: "{") {
            if open > rest.startIndex { pieces.append(.text(String(rest[..<open]))) }
            guard let close = rest[open...].firstIndex(of: "}") else { throw Invalid(reason: "has a { without its }") }
            let name = String(rest[rest.index(after: open)..<close])
            guard let field = Field(rawValue: name) else {
                throw Invalid(reason: "has {\(name)}; use only {subject}, {yyyy}, {mm}, {dd}, {id}, {name} and {ext}")
            }
            pieces.append(.field(field))
            rest = rest[rest.index(after: close)...]
        }
        if !rest.isEmpty { pieces.append(.text(String(rest))) }
        guard pieces.contains(.field(.id)) else {
            throw Invalid(reason: "needs {id}, so that two uploads never have the same key")
        }
        let isClean = !text.hasPrefix("/") && !text.utf8.contains { $0 < 0x20 || $0 == 0x7F }
        let segments = text.split(separator: "/", omittingEmptySubsequences: false)
        guard isClean, !segments.contains(where: { $0.isEmpty || $0 == "." || $0 == ".." }) else {
            throw Invalid(reason: "must not begin with / or have empty, . or .. segments")
        }
        guard text.utf8.count <= 400 else { throw Invalid(reason: "is longer than 400 bytes") }
        self.text = text
        self.pieces = pieces
    }

    package struct Invalid: Error {
        package let reason: String
    }

    /// The key of a blob.
    func key(for blob: NewBlob) -> String {
        let day = CivilDay(of: blob.createdAt)
        return pieces.map { piece in
            switch piece {
            case .text(let text): text
            case .field(.subject): Self.segment(blob.subject ?? "_")
            case .field(.yyyy): day.year
            case .field(.mm): day.month
            case .field(.dd): day.day
            case .field(.id): blob.id.text
            case .field(.name): Self.segment(blob.filename ?? "_")
            case .field(.ext): Self.fileExtension(of: blob.filename)
            }
        }.joined()
    }

    /// At most 100 bytes, not empty, and not only dots.
    private static func segment(_ text: String) -> String {
        let allowed = text.utf8.prefix(100).map { isPlain($0) || $0 == UInt8(ascii: ".") ? $0 : UInt8(ascii: "-") }
        let segment = String(decoding: allowed, as: UTF8.self)
        return segment.allSatisfy { $0 == "." } ? "_" : segment
    }

    private static func fileExtension(of name: String?) -> String {
        guard let name, let dot = name.lastIndex(of: "."), dot > name.startIndex else { return "" }
        let text = name[name.index(after: dot)...]
        guard (1...10).contains(text.utf8.count), text.utf8.allSatisfy({ isPlain($0) }) else { return "" }
        return "." + text.lowercased()
    }

    private static func isPlain(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "-"):
            true
        default: false
        }
    }
}

/// Year, month and day in UTC, with leading zeros.
private struct CivilDay {
    let year: String
    let month: String
    let day: String

    init(of date: Date) {
        let days = Int64((date.timeIntervalSince1970 / 86_400).rounded(.down))
        let civil = CivilCalendar.date(fromDays: days)
        year = String(civil.year)
        month = (civil.month < 10 ? "0" : "") + String(civil.month)
        day = (civil.day < 10 ? "0" : "") + String(civil.day)
    }
}
