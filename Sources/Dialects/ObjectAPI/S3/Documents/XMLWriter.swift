package import Foundation
internal import Bytes
internal import UploadCore
internal import XMLText

/// Writes a document of one root, as the answers of object stores are.
package struct XMLWriter {
    /// That of the documents of S3.
    package static let s3Namespace = "http://s3.amazonaws.com/doc/2006-03-01/"

    private var bytes: [UInt8] = []
    private let root: String
    private let dialect: ObjectDialect

    /// - Parameters:
    ///   - root: Name of the root.
    ///   - dialect: Whose clients read it; only those of S3 know a namespace.
    ///   - hasNamespace: Not of errors.
    package init(_ root: String, _ dialect: ObjectDialect, hasNamespace: Bool = true) {
        self.root = root
        self.dialect = dialect
        append("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n")
        append(hasNamespace && dialect == .s3 ? "<\(root) xmlns=\"\(Self.s3Namespace)\">" : "<\(root)>")
    }

    /// An element with a text.
    package mutating func element(_ name: String, _ value: String) {
        element(name) { $0.text(value) }
    }

    /// An element with a text, if there is one.
    package mutating func element(_ name: String, ifPresent value: String?) {
        if let value { element(name, value) }
    }

    package mutating func element(_ name: String, _ value: Bool) { element(name, value ? "true" : "false") }

    package mutating func element(_ name: String, _ value: some BinaryInteger) { element(name, String(value)) }

    /// An element with a time, see `timestamp`.
    ///
    /// Of the others' clients some read whole seconds only, which are written as `.000Z`.
    package mutating func element(_ name: String, _ date: Date) {
        element(name, Self.timestamp(dialect == .s3 ? date : Date(timeIntervalSince1970: Double(date.unixSeconds))))
    }

    /// An element `ETag`, in quotes.
    ///
    /// - Parameter entityTag: Without them, as it is recorded.
    package mutating func element(entityTag: String) { element("ETag", dialect.quoted(entityTag)) }

    /// An element that holds what `content` writes.
    package mutating func element(_ name: String, _ content: (inout XMLWriter) -> Void) {
        append("<")
        append(name)
        append(">")
        content(&self)
        append("</")
        append(name)
        append(">")
    }

    /// Text of the element that is open.
    package mutating func text(_ value: String) {
        append(value.utf8.allSatisfy(Self.isPlain) ? value : Self.escaped(value))
    }

    /// The whole document, in UTF-8.
    package func finished() -> [UInt8] { bytes + Array("</\(root)>".utf8) }

    private mutating func append(_ text: String) { bytes.append(contentsOf: text.utf8) }

    /// Whether a byte of UTF-8 is none that `escaped` may change; characters that XML can not hold begin with 0xEF.
    private static func isPlain(_ byte: UInt8) -> Bool {
        switch byte {
        case 0..<0x20, 0xEF, UInt8(ascii: "&"), UInt8(ascii: "<"), UInt8(ascii: ">"), UInt8(ascii: "\""): false
        default: true
        }
    }

    /// Text for an element, so that parsers give it back as it is.
    ///
    /// Tabs and ends of lines are written as references, because parsers change some of them (XML 1.0 §2.11). What a document
    /// of XML 1.0 can not hold at all (§2.2) becomes U+FFFD: one such key must not make a whole listing unreadable. Whoever has
    /// such keys asks for `encoding-type=url`.
    static func escaped(_ value: String) -> String {
        let escaped = xmlEscaped(value)
        guard escaped.unicodeScalars.contains(where: { $0.value < 0x20 || $0.value == 0xFFFE || $0.value == 0xFFFF })
        else { return escaped }
        var text = ""
        for scalar in escaped.unicodeScalars {
            switch scalar.value {
            case 0x09, 0x0A, 0x0D: text += "&#\(scalar.value);"
            case 0..<0x20, 0xFFFE, 0xFFFF: text += "\u{FFFD}"
            default: text.unicodeScalars.append(scalar)
            }
        }
        return text
    }

    /// A time to the millisecond in UTC, as in `2026-01-02T03:04:05.678Z`.
    package static func timestamp(_ date: Date) -> String {
        // Half a microsecond: a date made from milliseconds must stay what it is.
        let milliseconds = (date.timeIntervalSince1970 * 1000 + 0.0005).rounded(.down)
        let limited = Int64(min(max(milliseconds, -62_167_219_200_000), 253_402_300_799_999))
        let second = limited >= 0 ? limited / 1000 : (limited - 999) / 1000
        let (days, time) = CivilCalendar.split(second)
        let day = CivilCalendar.date(fromDays: days)
        var text: [UInt8] = []
        text.reserveCapacity(24)
        func append(_ number: Int, _ divisors: [Int], _ end: UInt8) {
            for divisor in divisors { text.append(UInt8(ascii: "0") + UInt8(number / divisor % 10)) }
            text.append(end)
        }
        append(day.year, [1000, 100, 10, 1], UInt8(ascii: "-"))
        append(day.month, [10, 1], UInt8(ascii: "-"))
        append(day.day, [10, 1], UInt8(ascii: "T"))
        append(time / 3600, [10, 1], UInt8(ascii: ":"))
        append(time / 60 % 60, [10, 1], UInt8(ascii: ":"))
        append(time % 60, [10, 1], UInt8(ascii: "."))
        append(Int(limited - second * 1000), [100, 10, 1], UInt8(ascii: "Z"))
        return String(decoding: text, as: UTF8.self)
    }
}
