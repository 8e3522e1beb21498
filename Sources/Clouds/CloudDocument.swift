internal import Bytes

/// A JSON response, from which only strings are read.
struct CloudDocument {
    private let root: JSONValue?

    init(_ bytes: [UInt8]) { root = JSONValue(json: bytes) }

    /// The string at a path of member names, or `nil` if the document has no string there.
    subscript(_ names: String...) -> String? {
        guard case .string(let text)? = value(names) else { return nil }
        return text
    }

    func has(_ names: String...) -> Bool { value(names) != nil }

    private func value(_ names: [String]) -> JSONValue? {
        var value = root
        for name in names {
            guard case .object(let members)? = value else { return nil }
            value = members[name]
        }
        return value
    }
}
