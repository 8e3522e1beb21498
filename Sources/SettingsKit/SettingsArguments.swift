extension SettingsCatalog {
    /// Parses `--flag value` and `--flag=value`.
    ///
    /// - Parameter arguments: The command line without flags that are not settings.
    /// - Returns: Values by flag without dashes, as `load` takes them.
    /// - Throws: `SettingsProblems` for unknown flags, missing values and repetitions.
    package func parse(_ arguments: [String]) throws(SettingsProblems) -> [String: String] {
        // Without flags, nothing asks for their names, which take a start some time to make.
        guard !arguments.isEmpty else { return [:] }
        let flags = SettingsArguments(self)
        var values: [String: String] = [:]
        var problems: [SettingsProblem] = []
        var rest = arguments[...]
        while let argument = rest.popFirst() {
            let equals = argument.firstIndex(of: "=")
            let flag = String(argument[..<(equals ?? argument.endIndex)])
            guard flag.hasPrefix("--"), flags[flag] != nil else {
                problems.append(flags.unknown(Self.name(flag, at: arguments.count - rest.count)))
                // The value of that flag, or words of the same mistake. It can be a secret, so it is not repeated.
                while equals == nil, let next = rest.first, !next.hasPrefix("-") { rest = rest.dropFirst() }
                continue
            }
            let value = equals.map { String(argument[argument.index(after: $0)...]) } ?? rest.popFirst()
            guard let value else {
                problems.append(SettingsProblem(key: flag, source: .flag(name: flag), message: "has no value"))
                continue
            }
            guard values.updateValue(value, forKey: String(flag.dropFirst(2))) == nil else {
                problems.append(SettingsProblem(key: flag, source: .flag(name: flag), message: "set a second time"))
                continue
            }
        }
        guard problems.isEmpty else { throw SettingsProblems(problems: problems) }
        return values
    }

    /// What can be shown of an argument that is no flag: its name, and nothing that can be a value, and so a secret.
    private static func name(_ argument: String, at position: Int) -> String {
        guard argument.hasPrefix("-") else { return "argument \(position)" }
        return String(argument.prefix { $0.isASCII && ($0.isLetter || $0.isNumber || "-_.".contains($0)) })
    }
}

/// Settings by command-line flag.
struct SettingsArguments {
    private let catalog: SettingsCatalog
    private let settings: [String: Setting]

    init(_ catalog: SettingsCatalog) {
        self.catalog = catalog
        settings = Dictionary(uniqueKeysWithValues: catalog.settings.map { ($0.flag, $0) })
    }

    /// - Parameter flag: Including its dashes.
    subscript(flag: String) -> Setting? { settings[flag] }

    /// Adds the values of flags to `input`.
    func read(_ overrides: [String: String], into input: inout SettingsInput) {
        for (name, value) in overrides.sorted(by: { $0.key < $1.key }) {
            let flag = name.hasPrefix("--") ? name : "--" + name
            guard let setting = self[flag] else {
                input.add(unknown(flag))
                continue
            }
            if setting.isSecret {
                input.add(setting, fromFile: value, namedBy: .flag(name: flag))
            } else {
                input.add(setting, value, from: .flag(name: flag))
            }
        }
    }

    func unknown(_ flag: String) -> SettingsProblem {
        if let secret = catalog.settings.first(where: { $0.isSecret && $0.flag == flag + "-file" }) {
            return SettingsProblem(
                key: flag,
                source: .flag(name: flag),
                message: "a secret must not be given on a command line; use \(secret.flag) or \(secret.environmentName)"
            )
        }
        let hint = NearestName.hint(flag, among: catalog.settings.map(\.flag))
        return SettingsProblem(key: flag, source: .flag(name: flag), message: "there is no such flag" + hint)
    }
}
