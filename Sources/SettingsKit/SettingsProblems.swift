/// One problem in the configuration.
package struct SettingsProblem: Sendable, Equatable, CustomStringConvertible {
    /// The setting's key, or the unknown name that was found.
    package let key: String
    package let source: SettingSource
    /// The invalid value; `<redacted>` for a secret, `nil` if the value is not the problem.
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

    /// Replaces the value of a secret.
    static let redacted = "<redacted>"
}

/// All problems in the configuration; never empty.
package struct SettingsProblems: Error, Sendable, Equatable, CustomStringConvertible {
    package let problems: [SettingsProblem]

    package init(problems: [SettingsProblem]) {
        self.problems = problems
    }

    /// One line per problem.
    package var description: String { problems.map(\.description).joined(separator: "\n") }
}
