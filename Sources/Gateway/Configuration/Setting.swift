/// One thing that can be configured: its names, what is allowed, and where its value goes.
package struct Setting: Sendable {
    /// As it stands in the file: `gateway.listen`.
    package let key: String
    /// What may be written.
    package let allowed: String
    /// What it does, in one sentence.
    package let help: String
    package let isSecret: Bool
    let isList: Bool
    /// Reads a text into the settings; `false` if it is not allowed.
    let read: @Sendable (_ text: String, _ settings: inout Settings) -> Bool
    /// The value in the settings as text; `nil` if nothing is set.
    let write: @Sendable (Settings) -> String?

    /// A setting that always has a value.
    init<Value: Sendable>(
        _ key: String,
        _ path: any WritableKeyPath<Settings, Value> & Sendable,
        _ format: SettingFormat<Value>,
        _ help: String
    ) {
        self.init(key, path, format, isSecret: false, help: help)
    }

    /// A setting that may be absent.
    init<Value: Sendable>(
        _ key: String,
        _ path: any WritableKeyPath<Settings, Value?> & Sendable,
        optional format: SettingFormat<Value>,
        _ help: String
    ) {
        self.init(key, path, format.optional, isSecret: false, help: help)
    }

    /// A secret, which may be absent.
    init<Value: Sendable>(
        _ key: String,
        _ path: any WritableKeyPath<Settings, Secret<Value>?> & Sendable,
        secret format: SettingFormat<Value>,
        _ help: String
    ) {
        self.init(key, path, format.secret.optional, isSecret: true, help: help)
    }

    private init<Value: Sendable>(
        _ key: String,
        _ path: any WritableKeyPath<Settings, Value> & Sendable,
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
            settings[keyPath: path] = value
            return true
        }
        write = { settings in format.render(settings[keyPath: path]) }
    }

    /// `SLUICE_GATEWAY_LISTEN`.
    package var environmentName: String {
        "SLUICE_" + words.joined(separator: "_").uppercased()
    }

    /// The environment variable with the path of a file that holds the value; only for secrets.
    package var environmentFileName: String { environmentName + "_FILE" }

    /// `--gateway-listen`.
    ///
    /// Other users can read the arguments of a process, so for a secret this is the flag that names its file.
    package var flag: String {
        "--" + words.joined(separator: "-") + (isSecret ? "-file" : "")
    }

    /// The keys that name a file that holds the value; only for secrets.
    package var fileKeys: [String] { isSecret ? [key + "File", key + "_file"] : [] }

    /// The default as text; `nil` if there is none.
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
