internal import Bytes
internal import CloudCalls
internal import Foundation
internal import Signing

/// The parameters of a call of API 3.0: members of a JSON object, or names with dots in a query or a form.
///
/// Each is taken once; what is left is unknown.
struct VODParameters {
    private var members: JSONMembers
    /// The name of the object with a dot, for messages.
    private let prefix: String

    private init(_ members: JSONMembers, prefix: String) {
        self.members = members.filter { $0.value != .null }
        self.prefix = prefix
    }

    /// - Throws: `InvalidParameter`.
    init(json: [UInt8]) throws(VODError) {
        if json.isEmpty {
            self.init([:], prefix: "")
            return
        }
        if let excess = JSONLimits().excess(in: json) { throw Self.invalid("The content is too large: \(excess).") }
        guard let members = JSONValue(json: json)?.members,
            let repeated = JSONNames.repeated(in: json)
        else { throw Self.invalid("The content must be a JSON object.") }
        if let name = repeated.first { throw Self.invalid("`\(name)` must occur once.") }
        self.init(members, prefix: "")
    }

    /// - Parameter fields: With names such as `FileIds.0` and `Sort.Field`; all values are texts.
    /// - Throws: `InvalidParameter`.
    init(fields: [SigningField]) throws(VODError) {
        var tree = Tree()
        for field in fields {
            let path = field.name.split(separator: ".", omittingEmptySubsequences: false)
            guard path.count <= 4, tree.insert(field.value, at: path[...]) else {
                throw Self.invalid("`\(field.name)` is repeated, or contradicts another parameter.")
            }
        }
        guard case .object(let members) = tree.value else { throw Self.invalid("There are no parameters.") }
        self.init(members, prefix: "")
    }

    /// Texts by the parts of their names.
    private struct Tree {
        private var text: String?
        private var children = ExactNames<Tree>()

        mutating func insert(_ value: String, at path: ArraySlice<Substring>) -> Bool {
            guard let first = path.first else {
                defer { text = value }
                return text == nil && children.isEmpty
            }
            return text == nil && children[String(first), default: Tree()].insert(value, at: path.dropFirst())
        }

        var value: JSONValue {
            if let text { return .string(text) }
            let elements = (0..<children.count).compactMap { children[String($0)]?.value }
            if !elements.isEmpty, elements.count == children.count { return .array(elements) }
            return .object(children.mapValues(\.value))
        }
    }

    // MARK: Values

    /// - Parameters:
    ///   - name: The name.
    ///   - limit: Maximum number of characters, counted as Unicode scalars.
    /// - Returns: The text; `nil` if it is missing or empty, which clients do not distinguish.
    /// - Throws: `InvalidParameterValue…`.
    mutating func text(_ name: String, atMost limit: Int = 4096) throws(VODError) -> String? {
        switch members.removeValue(forKey: name) {
        case nil: return nil
        case .string(let text)? where text.isEmpty: return nil
        case .string(let text)? where text.hasScalars(atMost: limit) && !text.utf8.contains(0): return text
        default: throw wrong(name, "must be a text of at most \(limit) characters")
        }
    }

    mutating func integer(_ name: String, in range: ClosedRange<Int64>) throws(VODError) -> Int64? {
        guard let value = members.removeValue(forKey: name) else { return nil }
        let number: Int64? =
            switch value {
            case .integer(let number): number
            case .string(let text): Int64(text)
            default: nil
            }
        guard let number, range.contains(number) else {
            throw wrong(name, "must be a whole number from \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }

    /// - Parameters:
    ///   - name: The name.
    ///   - count: Maximum number of texts.
    ///   - limit: Maximum number of characters of each.
    /// - Returns: The texts; empty if they are missing.
    /// - Throws: `InvalidParameterValue…`.
    mutating func texts(_ name: String, atMost count: Int, of limit: Int = 256) throws(VODError) -> [String] {
        guard let elements = try list(name, atMost: count) else { return [] }
        var texts: [String] = []
        for element in elements {
            guard case .string(let text) = element, !text.isEmpty, text.hasScalars(atMost: limit),
                !text.utf8.contains(0)
            else { throw wrong(name, "must be a list of texts of 1 to \(limit) characters") }
            texts.append(text)
        }
        return texts
    }

    mutating func integers(_ name: String, atMost count: Int) throws(VODError) -> [Int64] {
        guard let elements = try list(name, atMost: count) else { return [] }
        var numbers: [Int64] = []
        for element in elements {
            switch element {
            case .integer(let number): numbers.append(number)
            case .string(let text) where Int64(text) != nil: numbers.append(Int64(text) ?? 0)
            default: throw wrong(name, "must be a list of whole numbers")
            }
        }
        return numbers
    }

    private mutating func list(_ name: String, atMost count: Int) throws(VODError) -> [JSONValue]? {
        switch members.removeValue(forKey: name) {
        case nil: return nil
        case .array(let elements)? where elements.count <= count: return elements
        default: throw wrong(name, "must be a list of at most \(count) elements")
        }
    }

    /// An object inside; `nil` if it is missing.
    mutating func object(_ name: String) throws(VODError) -> VODParameters? {
        switch members.removeValue(forKey: name) {
        case nil: return nil
        case .object(let members)?: return VODParameters(members, prefix: "\(prefix)\(name).")
        default: throw wrong(name, "must be an object")
        }
    }

    /// A time, ISO 8601.
    mutating func time(_ name: String) throws(VODError) -> Date? {
        guard let text = try text(name, atMost: 64) else { return nil }
        guard let time = try? Date(text, strategy: .iso8601) else {
            throw wrong(name, "must be a time such as 2026-01-31T12:00:00Z")
        }
        return time
    }

    /// Whether the parameter is there; it is not taken.
    func has(_ name: String) -> Bool { members[name] != nil }

    mutating func drop(_ names: Set<String>) { members = members.filter { !names.contains($0.key) } }

    /// - Throws: `UnknownParameter`, if there is one that nothing has taken.
    func finish() throws(VODError) {
        guard let name = members.keys.min() else { return }
        throw VODError(
            "UnknownParameter",
            "The parameter `\(prefix)\(name)` is not supported by this server; leave it out."
        )
    }

    func wrong(_ name: String, _ rule: String) -> VODError {
        VODError(
            "InvalidParameterValue.\(prefix.isEmpty ? name : String(prefix.dropLast()))",
            "`\(prefix)\(name)` \(rule)."
        )
    }

    static func missing(_ name: String) -> VODError {
        VODError("MissingParameter", "`\(name)` is missing.")
    }

    private static func invalid(_ message: String) -> VODError {
        VODError("InvalidParameter", message)
    }
}
