internal import Bytes
internal import Foundation

/// A value of the JSON of a policy.
enum JSONDocument: Decodable, Equatable {
    case null
    case bool(Bool)
    case integer(Int64)
    case number(Double)
    case string(String)
    case array([JSONDocument])
    case object([String: JSONDocument])

    init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        if container.decodeNil() {
            self = .null
        } else if let value = try? container.decode(Bool.self) {
            self = .bool(value)
        } else if let value = try? container.decode(Int64.self) {
            self = .integer(value)
        } else if let value = try? container.decode(Double.self) {
            self = .number(value)
        } else if let value = try? container.decode(String.self) {
            self = .string(value)
        } else if let value = try? container.decode([JSONDocument].self) {
            self = .array(value)
        } else {
            self = .object(try container.decode([String: JSONDocument].self))
        }
    }

    /// Why some bytes are no object to rely on, to be read after "The policy".
    struct Failure: Error {
        let reason: String
    }

    /// The members of the object that `json` holds; no object in it may have a name twice.
    static func members(of json: [UInt8]) throws(Failure) -> [String: JSONDocument] {
        guard case .object(let members)? = try? JSONDecoder().decode(JSONDocument.self, from: Data(json)),
            let repeated = JSONNames.repeated(in: json, isDeep: true)
        else { throw Failure(reason: "must be a JSON object") }
        guard let name = repeated.first else { return members }
        throw Failure(reason: "must not have `\(name)` twice in one object")
    }

    /// A text, or a list of texts that is not empty.
    var texts: [String]? {
        switch self {
        case .string(let text): return [text]
        case .array(let elements):
            var texts: [String] = []
            for element in elements {
                guard case .string(let text) = element else { return nil }
                texts.append(text)
            }
            return texts.isEmpty ? nil : texts
        default: return nil
        }
    }
}
