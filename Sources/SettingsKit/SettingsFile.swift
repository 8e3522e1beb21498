internal import Bytes
internal import Foundation
internal import Yams

/// Reads settings from a YAML file: nested (`gateway: {listen: …}`) or with dotted keys (`gateway.listen: …`).
struct SettingsFile {
    private let path: String
    private var input: SettingsInput
    /// Lines where keys were set, to detect duplicates.
    private var seen: [String: SettingSource] = [:]

    private let settings: [String: Setting]
    /// `adminKeyFile` and `adminKey_file`.
    private let fileKeys: [String: Setting]
    /// `gateway`, `tls` and so on.
    private let sections: Set<String>
    private let names: [String]

    /// Adds what the file says to `input`.
    static func read(_ path: String, _ catalog: SettingsCatalog, into input: inout SettingsInput) {
        switch TextFile.read(path, limit: 1 << 20) {
        case .success(let text):
            var file = SettingsFile(path: path, catalog, input: input)
            file.take(text)
            input = file.input
        case .failure(let failure):
            input.add(SettingsProblem(key: "config", source: .file(path: path, line: nil), message: failure.reason))
        }
    }

    private init(path: String, _ catalog: SettingsCatalog, input: SettingsInput) {
        self.path = path
        self.input = input
        settings = Dictionary(uniqueKeysWithValues: catalog.settings.map { ($0.key, $0) })
        fileKeys = Dictionary(
            uniqueKeysWithValues: catalog.settings.flatMap { setting in setting.fileKeys.map { ($0, setting) } }
        )
        sections = Set(
            catalog.settings.compactMap { setting in
                setting.key.lastIndex(of: ".").map { String(setting.key[..<$0]) }
            }
        )
        names = settings.keys.sorted() + fileKeys.keys.sorted()
    }

    private func source(_ mark: Mark?) -> SettingSource { .file(path: path, line: mark?.line) }

    private mutating func take(_ text: String) {
        do {
            guard let root = try Yams.compose(yaml: text) else { return }
            if root.null != nil { return }
            guard case .mapping(let mapping) = root else {
                return refuse("config", root.mark, "the file must hold keys and values, such as `log.level: debug`")
            }
            take(mapping, prefix: "")
        } catch {
            let (line, reason) = Self.explain(error)
            input.add(
                SettingsProblem(
                    key: "config",
                    source: .file(path: path, line: line),
                    message: "not valid YAML: \(reason)"
                )
            )
        }
    }

    /// The description of a `YamlError` quotes the file, which may hold secrets; this does not.
    private static func explain(_ error: any Error) -> (line: Int?, reason: String) {
        switch error as? YamlError {
        case .scanner(_, let problem, let mark, _), .parser(_, let problem, let mark, _),
            .composer(_, let problem, let mark, _):
            (mark.line, problem)
        case .reader(let problem, _, _, _): (nil, problem)
        case .duplicatedKeysInMapping(let keys, let context):
            (context.mark.line, "repeated key \(keys.joined(separator: ", "))")
        default: (nil, "it cannot be read")
        }
    }

    private mutating func refuse(_ key: String, _ mark: Mark?, _ message: String, value: String? = nil) {
        input.add(SettingsProblem(key: key, source: source(mark), value: value, message: message))
    }

    private mutating func take(_ mapping: Node.Mapping, prefix: String) {
        for (name, value) in mapping {
            guard let text = name.scalar?.string else {
                refuse(prefix + "?", name.mark, "a key must be a plain name")
                continue
            }
            let key = prefix + text
            if let setting = settings[key] {
                guard isFirst(key, name.mark) else { continue }
                takeValue(value, of: setting, name.mark)
            } else if let setting = fileKeys[key] {
                guard isFirst(key, name.mark) else { continue }
                takeSecretFile(value, key: key, of: setting, name.mark)
            } else if sections.contains(key) {
                // A section in which everything is commented out is empty.
                if value.null != nil { continue }
                guard case .mapping(let section) = value else {
                    refuse(key, name.mark, "this is a section; its settings stand below it, indented")
                    continue
                }
                take(section, prefix: key + ".")
            } else {
                refuse(key, name.mark, "there is no such setting" + NearestName.hint(key, among: names))
            }
        }
    }

    private mutating func isFirst(_ key: String, _ mark: Mark?) -> Bool {
        if let earlier = seen[key] {
            refuse(key, mark, "set a second time; the first is at \(earlier)")
            return false
        }
        seen[key] = source(mark)
        return true
    }

    private mutating func takeValue(_ value: Node, of setting: Setting, _ mark: Mark?) {
        if let other = setting.fileKeys.first(where: { seen[$0] != nil }) {
            return input.addConflict(setting, source: source(mark), names: "\(setting.key) and \(other)")
        }
        guard let text = text(value, of: setting, mark) else { return }
        input.add(setting, text, from: source(mark))
    }

    private mutating func takeSecretFile(_ value: Node, key: String, of setting: Setting, _ mark: Mark?) {
        let others = [setting.key] + setting.fileKeys.filter { $0 != key }
        if let other = others.first(where: { seen[$0] != nil }) {
            return input.addConflict(setting, source: source(mark), names: "\(other) and \(key)")
        }
        guard case .scalar(let scalar) = value, value.null == nil, !scalar.string.isEmpty else {
            return refuse(key, mark, "allowed: the path of a file that holds the value")
        }
        input.add(setting, fromFile: scalar.string, namedBy: source(mark))
    }

    /// A node as JSON, its scalars as strings; `nil` if a key is no scalar.
    private static func json(_ node: Node) -> JSONValue? {
        if node.null != nil { return .null }
        switch node {
        case .scalar(let scalar): return .string(scalar.string)
        case .sequence(let sequence):
            let values = sequence.compactMap { json($0) }
            return values.count == sequence.count ? .array(values) : nil
        case .mapping(let mapping):
            var members: JSONMembers = [:]
            for (name, value) in mapping {
                guard let name = name.scalar?.string, let value = json(value) else { return nil }
                members[name] = value
            }
            return .object(members)
        case .alias: return nil
        }
    }

    private func text(of json: JSONValue) -> String? {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return (try? encoder.encode(json)).map { String(decoding: $0, as: UTF8.self) }
    }

    /// The text that stands for a value; `nil` after a refusal.
    private mutating func text(_ value: Node, of setting: Setting, _ mark: Mark?) -> String? {
        if value.null != nil {
            refuse(setting.key, mark, "has no value; allowed: \(setting.allowed)")
            return nil
        }
        switch value {
        case .scalar(let scalar):
            return scalar.string
        case _ where setting.isStructured:
            guard let json = Self.json(value) else {
                refuse(setting.key, mark, "a key must be a plain name; allowed: \(setting.allowed)")
                return nil
            }
            return text(of: json)
        case .sequence(let sequence) where setting.isList:
            let elements = sequence.compactMap { $0.scalar?.string }
            guard elements.count == sequence.count, !elements.contains(where: { $0.contains(",") }) else {
                refuse(setting.key, mark, "a list of plain values is expected; allowed: \(setting.allowed)")
                return nil
            }
            return elements.joined(separator: ",")
        default:
            refuse(setting.key, mark, "a plain value is expected; allowed: \(setting.allowed)")
            return nil
        }
    }
}
