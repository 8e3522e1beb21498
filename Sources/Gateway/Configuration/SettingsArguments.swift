/// Reads settings from the flags of the command line.
package enum SettingsArguments {
    private static let settings = Dictionary(
        uniqueKeysWithValues: SettingsTable.all.map { (String($0.flag.dropFirst(2)), $0) }
    )

    /// Takes `--flag value` and `--flag=value` apart.
    ///
    /// - Parameter arguments: What is left of the command line after the flags that are no settings.
    /// - Returns: Values by flag without dashes, for `SettingsLoader.load`.
    /// - Throws: `SettingsProblems` for unknown flags, missing values and repetitions.
    package static func parse(_ arguments: [String]) throws(SettingsProblems) -> [String: String] {
        var values: [String: String] = [:]
        var problems: [SettingsProblem] = []
        var rest = arguments[...]
        while let argument = rest.popFirst() {
            let equals = argument.firstIndex(of: "=")
            let flag = String(argument[..<(equals ?? argument.endIndex)])
            guard flag.hasPrefix("--"), settings[String(flag.dropFirst(2))] != nil else {
                problems.append(unknown(flag))
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

    /// Adds what the flags say to `input`.
    static func read(_ overrides: [String: String], into input: inout SettingsInput) {
        for (name, value) in overrides.sorted(by: { $0.key < $1.key }) {
            let flag = name.hasPrefix("--") ? name : "--" + name
            guard let setting = settings[String(flag.dropFirst(2))] else {
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

    private static func unknown(_ flag: String) -> SettingsProblem {
        if let secret = SettingsTable.all.first(where: { $0.isSecret && $0.flag == flag + "-file" }) {
            return SettingsProblem(
                key: flag,
                source: .flag(name: flag),
                message: "a secret must not stand on a command line; use \(secret.flag) or \(secret.environmentName)"
            )
        }
        let hint = NearestName.hint(flag, among: SettingsTable.all.map(\.flag))
        return SettingsProblem(key: flag, source: .flag(name: flag), message: "there is no such flag" + hint)
    }
}
