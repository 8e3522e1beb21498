internal import Foundation

/// One problem in the configuration.
package struct SettingsProblem: Sendable, Equatable, CustomStringConvertible {
    /// The setting's key, or the unknown name that was found.
    package let key: String
    package let source: SettingSource
    /// The invalid value, without what may be secret in a URL; `<redacted>` for a secret, `nil` if the value is not the problem.
    package let value: String?
    /// What is wrong and what is allowed.
    package let message: String

    package init(key: String, source: SettingSource, value: String? = nil, message: String) {
        self.key = key
        self.source = source
        self.value = value.map(Self.withoutCredentials)
        self.message = message
    }

    /// Replaces the user, the password and the query of a URL, also of one that cannot be parsed.
    private static func withoutCredentials(_ value: String) -> String {
        var text = value
        if let end = text.lastIndex(of: "@") {
            let start = text.range(of: "//").map(\.upperBound) ?? text.startIndex
            if start <= end { text.replaceSubrange(start..<end, with: redacted) }
        }
        if text.contains("//"), let query = text.firstIndex(of: "?") {
            text.replaceSubrange(text.index(after: query)..., with: redacted)
        }
        return text
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
