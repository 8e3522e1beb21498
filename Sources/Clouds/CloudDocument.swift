internal import Bytes
internal import Foundation

/// An answer in JSON, of which only texts are of use.
struct CloudDocument {
    private let root: JSONValue?

    init(_ bytes: [UInt8]) { root = try? JSONDecoder().decode(JSONValue.self, from: Data(bytes)) }

    /// The text at the end of some names; `nil` if there is none.
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
