extension SettingsCatalog {
    /// Reference of all settings for the documentation: a Markdown table with a row for each.
    package func markdown() -> String {
        let head = """
            | Key | Environment | Flag | Default | Allowed | Meaning |
            |---|---|---|---|---|---|

            """
        return head + settings.map(Self.row).joined()
    }

    /// Reference of all settings for a terminal: a paragraph for each.
    ///
    /// - Parameter width: Columns; only a word that is longer exceeds them.
    /// - Returns: Paragraphs, with an empty line between them.
    package func text(width: Int) -> String {
        settings.map { Self.paragraph($0, width: width) }.joined(separator: "\n")
    }

    private static func paragraph(_ setting: Setting, width: Int) -> String {
        var names = [setting.flag, setting.environmentName]
        if setting.isSecret { names += [setting.environmentFileName, setting.key + "File"] }
        let values = [
            setting.defaultText.map { "Default: \($0)" }, setting.allowed.isEmpty ? nil : "Allowed: \(setting.allowed)",
        ]
        let blocks = [names.joined(separator: ", "), setting.help, values.compactMap(\.self).joined(separator: ". ")]
        return setting.key + "\n" + blocks.map { wrapped($0, width: width, indent: "    ") }.joined()
    }

    private static func wrapped(_ text: String, width: Int, indent: String) -> String {
        var lines: [String] = []
        for word in text.split(whereSeparator: \.isWhitespace) {
            if let last = lines.last, last.count + 1 + word.count <= width {
                lines[lines.count - 1] += " " + word
            } else {
                lines.append(indent + word)
            }
        }
        return lines.map { $0 + "\n" }.joined()
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
