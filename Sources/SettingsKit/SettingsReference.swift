extension SettingsCatalog {
    /// Reference of all settings for the documentation: a Markdown table with a row for each.
    package func markdown() -> String {
        let head = """
            | Key | Environment | Flag | Default | Allowed | Meaning |
            |---|---|---|---|---|---|

            """
        return head + settings.map(Self.row).joined()
    }

    private static func row(_ setting: Setting) -> String {
        let environment =
            setting.isSecret
            ? "`\(setting.environmentName)` or `\(setting.environmentFileName)`" : "`\(setting.environmentName)`"
        let key = setting.isSecret ? "`\(setting.key)` or `\(setting.key)File`" : "`\(setting.key)`"
        let columns = [
            key, environment, "`\(setting.flag)`", setting.defaultText.map { "`\($0)`" } ?? "",
            setting.allowed, setting.help,
        ]
        return "| " + columns.map { $0.replacing("|", with: "\\|") }.joined(separator: " | ") + " |\n"
    }
}
