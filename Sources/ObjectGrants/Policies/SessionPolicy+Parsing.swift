internal import Bytes
package import Signing
extension SessionPolicy {
    /// Parses a policy; `PolicyGrammar` lists what is understood.
    ///
    /// - Parameters:
    ///   - json: The document.
    ///   - vendor: The vendor of the policy.
    /// - Throws: If anything in it is not understood; nothing is ignored.
    package init(_ json: String, vendor: Vendor) throws(PolicyProblem) {
        guard json.utf8.count <= Self.maximumByteCount else {
            throw PolicyProblem(.tooLong, "", "The policy must have at most \(Self.maximumByteCount) bytes.")
        }
        let members: JSONMembers
        do throws(PolicyDocument.Failure) {
            members = try PolicyDocument.members(of: Array(json.utf8))
        } catch {
            throw PolicyProblem(.malformed, "", "The policy \(error.reason).")
        }
        let reader = PolicyReader(vendor: vendor)
        self.init(vendor: vendor, statements: try reader.statements(of: members))
    }
}

/// Reads the elements of a policy.
private struct PolicyReader {
    let vendor: Vendor
    let grammar: PolicyGrammar

    init(vendor: Vendor) {
        self.vendor = vendor
        grammar = .of(vendor)
    }

    func statements(of document: JSONMembers) throws(PolicyProblem) -> [SessionPolicy.Statement] {
        let names = grammar.names
        try check(document, known: [names.version, names.statement], remarks: grammar.remarks.document, path: "")
        guard document[names.version] == .string(grammar.version) else {
            throw PolicyProblem(.malformed, names.version, "`\(names.version)` must be \"\(grammar.version)\".")
        }
        let elements: [JSONValue]
        switch document[names.statement] {
        case .array(let list)? where !list.isEmpty: elements = list
        case .object(let single)?: elements = [.object(single)]
        default:
            throw PolicyProblem(
                .malformed,
                names.statement,
                "`\(names.statement)` must be a statement, or a list of at least one."
            )
        }
        var statements: [SessionPolicy.Statement] = []
        for (index, element) in elements.enumerated() {
            let path = "\(names.statement)[\(index)]"
            guard case .object(let members) = element else {
                throw PolicyProblem(.malformed, path, "`\(path)` must be an object.")
            }
            statements.append(try statement(members, path: path + "."))
        }
        return statements
    }

    private func statement(
        _ members: JSONMembers,
        path: String
    ) throws(PolicyProblem) -> SessionPolicy.Statement {
        let names = grammar.names
        try check(
            members,
            known: [names.effect, names.action, names.resource, names.condition],
            remarks: grammar.remarks.statement,
            path: path
        )
        guard case .string(let text)? = members[names.effect], let effect = grammar.effects[text] else {
            let allowed = grammar.effects.keys.sorted().map { "\"\($0)\"" }.joined(separator: " or ")
            throw PolicyProblem(.malformed, path + names.effect, "`\(path)\(names.effect)` must be \(allowed).")
        }
        return SessionPolicy.Statement(
            effect: effect,
            actions: try actions(members[names.action], path: path + names.action),
            resources: try resources(members[names.resource], path: path + names.resource),
            conditions: try conditions(members[names.condition], path: path + names.condition)
        )
    }

    private func actions(_ value: JSONValue?, path: String) throws(PolicyProblem) -> Set<ObjectAction> {
        guard let texts = value?.texts else { throw Self.noTexts(path) }
        var actions: Set<ObjectAction> = []
        for text in texts {
            guard let found = ActionNames.actions(named: text, in: vendor) else {
                throw PolicyProblem(
                    .unsupported,
                    path,
                    "`\(path)` has the action \(Self.quoted(text)), which is not supported here."
                )
            }
            actions.formUnion(found)
        }
        return actions
    }

    private func resources(_ value: JSONValue?, path: String) throws(PolicyProblem) -> [WildcardPattern] {
        guard let texts = value?.texts else { throw Self.noTexts(path) }
        var patterns: [WildcardPattern] = []
        for text in texts {
            guard let pattern = ResourceNames.pattern(of: text, in: vendor) else {
                throw PolicyProblem(
                    .unsupported,
                    path,
                    "`\(path)` has the resource \(Self.quoted(text)), which names no bucket or object in a way that is "
                        + "supported."
                )
            }
            patterns.append(pattern)
        }
        return patterns
    }

    private func conditions(_ value: JSONValue?, path: String) throws(PolicyProblem) -> [PolicyCondition] {
        guard let value else { return [] }
        guard case .object(let operators) = value else {
            throw PolicyProblem(.malformed, path, "`\(path)` must be an object of operators.")
        }
        var conditions: [PolicyCondition] = []
        for (name, keys) in operators.sorted(by: { $0.key < $1.key }) {
            let path = "\(path).\(name)"
            guard let comparison = grammar.comparisons[name] else {
                throw PolicyProblem(.unsupported, path, "`\(path)` is an operator that is not supported.")
            }
            guard case .object(let keys) = keys, !keys.isEmpty else {
                throw PolicyProblem(.malformed, path, "`\(path)` must be an object of condition keys.")
            }
            for (key, value) in keys.sorted(by: { $0.key < $1.key }) {
                conditions.append(try condition(comparison, key, value, path: "\(path).\(key)"))
            }
        }
        return conditions
    }

    private func condition(
        _ comparison: PolicyGrammar.Comparison,
        _ name: String,
        _ value: JSONValue,
        path: String
    ) throws(PolicyProblem) -> PolicyCondition {
        guard let key = grammar.conditionKeys[name.lowercasedASCII()] else {
            let known = grammar.conditionKeys.keys.sorted().map { "`\($0)`" }.joined(separator: ", ")
            throw PolicyProblem(
                .unsupported,
                path,
                "`\(path)` is a condition key that is not supported; supported are \(known)."
            )
        }
        guard comparison.isNumeric == (key == .contentLength) else {
            throw PolicyProblem(.unsupported, path, "`\(path)` cannot be compared by this operator.")
        }
        let values: PolicyCondition.Values
        if comparison.isNumeric {
            guard let numbers = Self.numbers(value) else {
                throw PolicyProblem(.malformed, path, "`\(path)` must be a whole number of bytes, or a list of some.")
            }
            values = .numbers(numbers)
        } else {
            guard let texts = value.texts else { throw Self.noTexts(path) }
            guard !texts.contains(where: { $0.contains("${") }) else {
                throw PolicyProblem(.unsupported, path, "`\(path)` has a policy variable, which is not supported.")
            }
            values = .texts(texts.map { WildcardPattern($0) })
        }
        return PolicyCondition(key: key, comparison: comparison.comparison, values: values)
    }

    /// Numbers, or strings with numbers, which policies may contain as well.
    private static func numbers(_ value: JSONValue) -> [Int64]? {
        let elements: [JSONValue]
        if case .array(let list) = value { elements = list } else { elements = [value] }
        var numbers: [Int64] = []
        for element in elements {
            switch element {
            case .integer(let number) where number >= 0: numbers.append(number)
            case .string(let text):
                guard let number = Int64(text), number >= 0, String(number) == text else { return nil }
                numbers.append(number)
            default: return nil
            }
        }
        return numbers.isEmpty ? nil : numbers
    }

    private func check(
        _ members: JSONMembers,
        known: Set<String>,
        remarks: Set<String>,
        path: String
    ) throws(PolicyProblem) {
        for (name, value) in members.sorted(by: { $0.key < $1.key }) where !known.contains(name) {
            guard remarks.contains(name) else {
                throw PolicyProblem(.unsupported, path + name, "`\(path)\(name)` is an element that is not supported.")
            }
            guard case .string = value else {
                throw PolicyProblem(.malformed, path + name, "`\(path)\(name)` must be a text.")
            }
        }
    }

    private static func noTexts(_ path: String) -> PolicyProblem {
        PolicyProblem(.malformed, path, "`\(path)` must be a text, or a list of at least one.")
    }

    /// A quotation from the policy, truncated to fit into a message.
    private static func quoted(_ text: String) -> String {
        "\"\(text.hasScalars(atMost: 100) ? text : text.first(scalars: 100) + "…")\""
    }
}
