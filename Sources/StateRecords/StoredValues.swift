internal import Bytes
internal import Digests
package import Foundation
package import UploadModel

/// A time as stored in databases: Unix milliseconds, rounded down.
package struct Milliseconds: Sendable {
    package let value: Int64

    package init(_ date: Date) {
        // Plus half a microsecond: a date made from milliseconds must convert back to the same milliseconds.
        let milliseconds = (date.timeIntervalSince1970 * 1000 + 0.0005).rounded(.down)
        // 9999-12-31; later dates count as never and must not trap.
        value = Int64(max(0, min(milliseconds, 253_402_300_799_999)))
    }

    /// A stored value.
    package init(stored value: Int64) {
        self.init(Date(timeIntervalSince1970: Double(value) / 1000))
    }

    package var date: Date { Date(timeIntervalSince1970: Double(value) / 1000) }
}

/// A value as JSON text with sorted keys.
package struct JSONText: Sendable {
    package let text: String

    package init(_ value: some Encodable) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        text = String(decoding: try encoder.encode(value), as: UTF8.self)
    }

    /// An object whose members are texts.
    package init(texts values: [String: String]) {
        var object = JSONObjectWriter(values)
        text = object.text()
    }

    /// Stored text.
    package init(stored text: String) { self.text = text }

    /// The members of an object, which are texts.
    package func texts() throws -> [String: String] {
        try PlainJSONObject.values(in: text) ?? decoded(as: [String: String].self)
    }

    package func decoded<Value: Decodable>(as type: Value.Type) throws -> Value {
        try JSONDecoder().decode(type, from: Data(text.utf8))
    }
}

extension JSONText {
    /// Digests as base64 by the name of their algorithm; `nil` if there are none.
    package init?(_ digests: DigestValues) {
        if digests.isEmpty { return nil }
        self.init(texts: Dictionary(uniqueKeysWithValues: digests.map { ($0.rawValue, Base64.encode($1)) }))
    }
}
