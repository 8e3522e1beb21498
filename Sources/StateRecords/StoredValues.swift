internal import Bytes
internal import Digests
package import Foundation
package import UploadCore

/// A time as databases keep it: Unix milliseconds, the part of a millisecond cut off.
package struct Milliseconds: Sendable {
    package let value: Int64

    package init(_ date: Date) {
        // Half a microsecond: a date made from milliseconds must give the same milliseconds back.
        let milliseconds = (date.timeIntervalSince1970 * 1000 + 0.0005).rounded(.down)
        // 9999-12-31; dates beyond are as good as never, and must not trap.
        value = Int64(max(0, min(milliseconds, 253_402_300_799_999)))
    }

    /// A value that was stored.
    package init(stored value: Int64) {
        self.init(Date(timeIntervalSince1970: Double(value) / 1000))
    }

    package var date: Date { Date(timeIntervalSince1970: Double(value) / 1000) }
}

/// A value as JSON text, its keys sorted.
package struct JSONText: Sendable {
    package let text: String

    package init(_ value: some Encodable) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        text = String(decoding: try encoder.encode(value), as: UTF8.self)
    }

    /// Text that was stored.
    package init(stored text: String) { self.text = text }

    package func decoded<Value: Decodable>(as type: Value.Type) throws -> Value {
        try JSONDecoder().decode(type, from: Data(text.utf8))
    }
}

extension JSONText {
    /// Digests, each in base64 under the name of its algorithm; `nil` if there are none.
    package init?(_ digests: DigestValues) throws {
        if digests.isEmpty { return nil }
        try self.init(Dictionary(uniqueKeysWithValues: digests.map { ($0.rawValue, Base64.encode($1)) }))
    }
}
