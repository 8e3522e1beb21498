/// The members of a JSON object.
package typealias JSONMembers = ExactNames<JSONValue>

/// Any JSON value.
package enum JSONValue: Encodable {
    case null
    case bool(Bool)
    case integer(Int64)
    case number(Double)
    case string(String)
    case array([JSONValue])
    case object(JSONMembers)

    /// Nested objects and arrays of a document, at most; who reads from clients has lower limits (`JSONLimits`).
    package static let maximumDepth = 128

    /// Reads a document (RFC 8259), in time proportional to its length.
    ///
    /// Of members with the same name it takes the first; see `JSONNames`.
    ///
    /// - Parameter json: In UTF-8.
    ///
    /// `nil` if it is not JSON, or nested deeper than `maximumDepth`.
    package init?(json: [UInt8]) {
        guard String(validating: json, as: UTF8.self) != nil else { return nil }
        let value = json.withUnsafeBufferPointer { bytes in
            var reader = JSONReader(bytes, depth: Self.maximumDepth)
            return reader.document()
        }
        guard let value else { return nil }
        self = value
    }

    /// The members of an object; `nil` for other values.
    package var members: JSONMembers? {
        if case .object(let members) = self { members } else { nil }
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        switch self {
        case .null: try container.encodeNil()
        case .bool(let value): try container.encode(value)
        case .integer(let value): try container.encode(value)
        case .number(let value): try container.encode(value)
        case .string(let value): try container.encode(value)
        case .array(let values): try container.encode(values)
        case .object(let members): try container.encode(members.dictionary)
        }
    }
}

extension JSONValue: Equatable {
    /// Strings and names are compared by their bytes.
    package static func == (one: JSONValue, other: JSONValue) -> Bool {
        switch (one, other) {
        case (.null, .null): true
        case (.bool(let one), .bool(let other)): one == other
        case (.integer(let one), .integer(let other)): one == other
        case (.number(let one), .number(let other)): one == other
        case (.string(let one), .string(let other)): one.isExactly(other)
        case (.array(let one), .array(let other)): one == other
        case (.object(let one), .object(let other)): one == other
        default: false
        }
    }
}
