/// One thing that is wrong with the configuration.
package struct SettingsProblem: Sendable, Equatable, CustomStringConvertible {
    /// The key of the setting, or the name that was found and is none.
    package let key: String
    package let source: SettingSource
    /// What was written; `<redacted>` for a secret, `nil` where the value is not what is wrong.
    package let value: String?
    /// What is wrong and what is allowed.
    package let message: String

    package init(key: String, source: SettingSource, value: String? = nil, message: String) {
        self.key = key
        self.source = source
        self.value = value
        self.message = message
    }

    package var description: String {
        let written = value.map { value in " = \(value == Self.redacted ? value : value.debugDescription)" } ?? ""
        return "\(key)\(written) (\(source)): \(message)"
    }

    /// Stands for the value of a secret.
    static let redacted = "<redacted>"
}

/// Everything that is wrong with the configuration, at least one thing.
package struct SettingsProblems: Error, Sendable, Equatable, CustomStringConvertible {
    package let problems: [SettingsProblem]

    package init(problems: [SettingsProblem]) {
        self.problems = problems
    }

    /// One line for each.
    package var description: String { problems.map(\.description).joined(separator: "\n") }
}
