internal import Bytes
package import Foundation
package import Signing
internal import UploadModel
internal import XMLText

/// Writes the XML documents that object stores respond with.
package struct XMLWriter {
    private var bytes: [UInt8] = []
    private let root: String
    private let vendor: Vendor

    /// - Parameters:
    ///   - root: Name of the root element.
    ///   - vendor: The vendor whose clients read it; only S3 uses a namespace.
    ///   - hasNamespace: False for errors.
    package init(_ root: String, _ vendor: Vendor, hasNamespace: Bool = true) {
        self.root = root
        self.vendor = vendor
        append("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n")
        let namespace = hasNamespace ? vendor.profile.documents.namespace : nil
        append(namespace.map { "<\(root) xmlns=\"\($0)\">" } ?? "<\(root)>")
    }

    /// An element with text.
    package mutating func element(_ name: String, _ value: String) {
        element(name) { $0.text(value) }
    }

    /// An element with text; omitted if `nil`.
    package mutating func element(_ name: String, ifPresent value: String?) {
        if let value { element(name, value) }
    }

    package mutating func element(_ name: String, _ value: Bool) { element(name, value ? "true" : "false") }

    package mutating func element(_ name: String, _ value: some BinaryInteger) { element(name, String(value)) }

    /// An element with a time; see `timestamp`.
    ///
    /// Some clients of other vendors parse whole seconds only, which are written as `.000Z`.
    package mutating func element(_ name: String, _ date: Date) {
        let isWhole = !vendor.profile.documents.hasFractions
        element(name, Self.timestamp(isWhole ? Date(timeIntervalSince1970: Double(date.unixSeconds)) : date))
    }

    /// An element `ETag`, in quotes.
    ///
    /// - Parameter entityTag: Without quotes, as recorded.
    package mutating func element(entityTag: String) { element("ETag", vendor.quoted(entityTag)) }

    /// An element with the content that `content` writes.
    ///
    /// - Parameters:
    ///   - name: The name of the element.
    ///   - attributes: As they are written after the name.
    ///   - content: Writes what is in the element.
    package mutating func element(
        _ name: String,
        attributes: StaticString? = nil,
        _ content: (inout XMLWriter) -> Void
    ) {
        append("<")
        append(name)
        if let attributes { append(" \(attributes)") }
        append(">")
        content(&self)
        append("</")
        append(name)
        append(">")
    }

    /// Text in the open element.
    package mutating func text(_ value: String) {
        append(value.utf8.allSatisfy(Self.isPlain) ? value : Self.escaped(value))
    }

    /// The whole document, in UTF-8.
    package func finished() -> [UInt8] { bytes + Array("</\(root)>".utf8) }

    private mutating func append(_ text: String) { bytes.append(contentsOf: text.utf8) }

    /// Whether `escaped` leaves a UTF-8 byte unchanged.
    ///
    /// Characters that XML cannot represent begin with 0xEF.
    private static func isPlain(_ byte: UInt8) -> Bool {
        switch byte {
        case 0..<0x20, 0xEF, UInt8(ascii: "&"), UInt8(ascii: "<"), UInt8(ascii: ">"), UInt8(ascii: "\""): false
        default: true
        }
    }

    /// Escapes element text so that parsers return it unchanged.
    ///
    /// Tabs and line ends become references, because parsers normalise them (XML 1.0 §2.11). Characters that XML 1.0
    /// does not allow (§2.2) become U+FFFD, so that one such key does not make a whole listing unreadable. Clients with
    /// such keys can request `encoding-type=url`.
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
        // Half a microsecond, so that a date made from milliseconds does not change.
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
