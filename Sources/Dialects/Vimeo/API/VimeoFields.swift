internal import Bytes

/// The filter `fields` of a call (protocol notes §3.3): names with dots, separated by commas; repeated parameters add
/// to each other.
struct VimeoFields: Equatable {
    /// What is wanted of an object; an empty tree means everything.
    private final class Tree: Equatable {
        var names: [String: Tree] = [:]
        var wantsAll = false

        static func == (one: Tree, other: Tree) -> Bool { one.names == other.names && one.wantsAll == other.wantsAll }
    }

    private let tree: Tree?
    /// As the client wrote them; empty for everything.
    let names: [String]

    /// - Parameter values: Of all parameters with this name.
    init(_ values: [String]) {
        let names: [String] = values.joined(separator: ",").split(separator: ",")
            .map { name in String(name.filter { $0 != " " }) }
            .filter { !$0.isEmpty }
        self.names = names
        guard !names.isEmpty else {
            tree = nil
            return
        }
        let tree = Tree()
        for name in names.prefix(Self.mostNames) {
            var place = tree
            for part in name.split(separator: ".").prefix(Self.deepest) {
                let next = place.names[String(part)] ?? Tree()
                place.names[String(part)] = next
                place = next
            }
            place.wantsAll = true
        }
        self.tree = tree
    }

    private static let mostNames = 500
    private static let deepest = 16

    /// A document with the wanted members only; those of lists are those of their elements.
    func applied(to document: JSONValue) -> JSONValue {
        guard let tree else { return document }
        return Self.reduced(document, to: tree)
    }

    /// The same for a collection, whose frame stays.
    func applied(toData elements: [JSONValue]) -> [JSONValue] { elements.map(applied) }

    private static func reduced(_ value: JSONValue, to tree: Tree) -> JSONValue {
        if tree.wantsAll { return value }
        switch value {
        case .object(let members):
            var kept: JSONMembers = [:]
            for (name, inner) in tree.names {
                if let value = members[name] { kept[name] = reduced(value, to: inner) }
            }
            return .object(kept)
        case .array(let elements): return .array(elements.map { reduced($0, to: tree) })
        default: return value
        }
    }
}
