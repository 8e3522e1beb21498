package import Bytes

/// The JSON of a policy.
package enum PolicyDocument {
    /// Why some bytes are not a valid object; the message follows "The policy".
    package struct Failure: Error {
        package let reason: String
    }

    /// The members of the object in `json`; no object in it may have duplicate names.
    package static func members(of json: [UInt8]) throws(Failure) -> JSONMembers {
        guard let members = JSONValue(json: json)?.members,
            let repeated = JSONNames.repeated(in: json)
        else { throw Failure(reason: "must be a JSON object") }
        guard let name = repeated.first else { return members }
        throw Failure(reason: "must not have `\(name)` twice in one object")
    }
}

extension JSONValue {
    /// A string, or a non-empty list of strings.
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
