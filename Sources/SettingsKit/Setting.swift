/// One setting: its names, allowed values, and where the value is stored.
package struct Setting: Sendable {
    /// The key in the file: `gateway.listen`.
    package let key: String
    /// The allowed values.
    package let allowed: String
    /// One sentence about what it does.
    package let help: String
    package let isSecret: Bool
    let isList: Bool
    /// Parses a text into the settings; `false` if it is not allowed.
    let read: @Sendable (_ text: String, _ settings: inout Settings) -> Bool
    /// The current value as text; `nil` if it is not set.
    let write: @Sendable (Settings) -> String?

    init<Section: SettingsSection, Value: Sendable>(
        _ key: String,
        _ path: any WritableKeyPath<Section, Value> & Sendable,
        _ format: SettingFormat<Value>,
        isSecret: Bool,
        help: String
    ) {
        self.key = key
        self.isSecret = isSecret
        self.help = help
        allowed = format.allowed
        isList = format.isList
        read = { text, settings in
            guard let value = format.parse(text) else { return false }
            settings[Section.self][keyPath: path] = value
            return true
        }
        write = { settings in format.render(settings[Section.self][keyPath: path]) }
    }

    /// `SLUICE_GATEWAY_LISTEN`.
    package var environmentName: String {
        "SLUICE_" + words.joined(separator: "_").uppercased()
    }

    /// The environment variable with the path of a file that holds the value; secrets only.
    package var environmentFileName: String { environmentName + "_FILE" }

    /// `--gateway-listen`.
    ///
    /// Other users can read a process's arguments, so for a secret this flag names its file.
    package var flag: String {
        "--" + words.joined(separator: "-") + (isSecret ? "-file" : "")
    }

    /// The keys that name a file that holds the value; secrets only.
    package var fileKeys: [String] { isSecret ? [key + "File", key + "_file"] : [] }

    /// The default as text, or `nil`.
    package var defaultText: String? { write(Settings()) }

    /// `publicURL` is `public`, `url`.
    private var words: [String] {
        var words: [String] = []
        var current = ""
        var previous: Character?
        for character in key {
            let beginsWord = character.isUppercase && previous?.isUppercase != true
            if character == "." || beginsWord {
                words.append(current)
                current = ""
            }
            if character != "." { current.append(contentsOf: character.lowercased()) }
            previous = character
        }
        words.append(current)
        return words.filter { !$0.isEmpty }
    }
}
