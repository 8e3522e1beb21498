extension SettingsCatalog {
    /// Assembles the configuration: defaults, then the file, then the environment, then flags; the last one wins.
    ///
    /// An invalid value is a problem even if a later one would override it.
    ///
    /// - Parameters:
    ///   - overrides: Values by flag, with or without its dashes; for a secret, the path of a file that holds it.
    ///   - environment: All variables; those that do not begin with `SLUICE_` are ignored.
    ///   - file: Path of the YAML file; if missing, the one in `SLUICE_CONFIG`, if any.
    /// - Returns: The values, and the source of each.
    /// - Throws: `SettingsProblems` with every problem found.
    package func load(
        arguments overrides: [String: String] = [:],
        environment: [String: String] = [:],
        file: String? = nil
    ) throws(SettingsProblems) -> LoadedSettings {
        var input = SettingsInput()
        if let path = file ?? environment[SettingsEnvironment.fileVariable] {
            SettingsFile.read(path, self, into: &input)
        }
        SettingsEnvironment(self).read(environment, into: &input)
        if !overrides.isEmpty { SettingsArguments(self).read(overrides, into: &input) }

        var settings = Settings()
        var sources: [String: SettingSource] = [:]
        var problems = input.problems
        for given in input.given {
            let setting = given.setting
            if setting.read(given.text, &settings) {
                sources[setting.key] = given.source
            } else {
                let value = setting.isSecret ? SettingsProblem.redacted : given.text
                let message =
                    given.text.isEmpty ? "is empty; allowed: \(setting.allowed)" : "allowed: \(setting.allowed)"
                problems.append(
                    SettingsProblem(key: setting.key, source: given.source, value: value, message: message)
                )
            }
        }
        let wrong = Set(problems.map(\.key))
        var demands = SettingsDemands(sources: sources)
        for section in sections { section.check(settings, &demands) }
        problems += demands.problems.filter { !wrong.contains($0.key) }
        guard problems.isEmpty else { throw SettingsProblems(problems: problems) }
        return LoadedSettings(values: settings, sources: sources, catalog: self)
    }
}
