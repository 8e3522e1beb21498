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
        try PlainJSON.texts(in: text) ?? decoded(as: [String: String].self)
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

extension JSONText {
    /// The attributes as their encoder writes them.
    ///
    /// The encoder is slow, and each object that is put is written.
    package init(_ attributes: ObjectAttributes) throws {
        var object = JSONObjectWriter(capacity: 256)
        if let checksum = attributes.checksum { object.member("checksum", json: JSONText(checksum).text) }
        if let completing = attributes.completing { object.member("completing", json: try JSONText(completing).text) }
        if let condition = attributes.condition { object.member("condition", json: try JSONText(condition).text) }
        if let crc64 = attributes.crc64 { object.member("crc64", json: String(crc64)) }
        if let entityTag = attributes.entityTag { object.member("entityTag", entityTag) }
        object.member("headers", json: JSONText(texts: attributes.headers).text)
        if let isAppendable = attributes.isAppendable { object.member("isAppendable", isAppendable) }
        if let isChecksumUsual = attributes.isChecksumUsual { object.member("isChecksumUsual", isChecksumUsual) }
        if let isHeld = attributes.isHeld { object.member("isHeld", isHeld) }
        if let partChecksums = attributes.partChecksums {
            object.member("partChecksums", Base64.encode(partChecksums))
        }
        if let partSizes = attributes.partSizes { object.member("partSizes", json: try JSONText(partSizes).text) }
        object.member("tags", json: JSONText(texts: attributes.tags).text)
        text = object.text()
    }

    /// Attributes; a decoder is slow, and reads only those that have escapes or parts.
    package func attributes() throws -> ObjectAttributes {
        try PlainJSON.read(text) { $0.attributes() } ?? decoded(as: ObjectAttributes.self)
    }

    private init(_ checksum: ObjectChecksum) {
        var object = JSONObjectWriter(capacity: 192)
        object.member("algorithm", checksum.algorithm.rawValue)
        object.member("isComposite", checksum.isComposite)
        if let value = checksum.value { object.member("value", numbers: value) }
        text = object.text()
    }
}

extension PlainJSON {
    /// What `JSONText` writes of attributes without parts and conditions.
    fileprivate mutating func attributes() -> ObjectAttributes? {
        var attributes = ObjectAttributes()
        var names: Set<String> = []
        let isRead = object { name, json in
            guard names.insert(name).inserted else { return false }
            switch name {
            case "checksum": return json.set(&attributes.checksum) { $0.checksum() }
            case "crc64": return json.set(&attributes.crc64) { $0.number() }
            case "entityTag": return json.set(&attributes.entityTag) { $0.string() }
            case "headers": return json.set(&attributes.headers) { $0.texts() }
            case "isAppendable": return json.set(&attributes.isAppendable) { $0.bool() }
            case "isChecksumUsual": return json.set(&attributes.isChecksumUsual) { $0.bool() }
            case "isHeld": return json.set(&attributes.isHeld) { $0.bool() }
            case "tags": return json.set(&attributes.tags) { $0.texts() }
            default: return false
            }
        }
        return isRead && names.contains("headers") && names.contains("tags") ? attributes : nil
    }

    private mutating func checksum() -> ObjectChecksum? {
        var algorithm: ObjectChecksum.Algorithm?
        var isComposite: Bool?
        var value: [UInt8]?
        var names: Set<String> = []
        let isRead = object { name, json in
            guard names.insert(name).inserted else { return false }
            switch name {
            case "algorithm": return json.set(&algorithm) { $0.string().flatMap(ObjectChecksum.Algorithm.init) }
            case "isComposite": return json.set(&isComposite) { $0.bool() }
            case "value": return json.set(&value) { $0.numbers() }
            default: return false
            }
        }
        guard isRead, let algorithm, let isComposite else { return nil }
        return ObjectChecksum(algorithm, isComposite: isComposite, value: value)
    }

    /// - Returns: Whether a value could be read.
    private mutating func set<Value>(_ place: inout Value, _ read: (inout PlainJSON) -> Value?) -> Bool {
        guard let value = read(&self) else { return false }
        place = value
        return true
    }

    /// - Returns: Whether a value could be read.
    private mutating func set<Value>(_ place: inout Value?, _ read: (inout PlainJSON) -> Value?) -> Bool {
        guard let value = read(&self) else { return false }
        place = value
        return true
    }
}
