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
    let isStructured: Bool
    /// Parses a text into the settings; `false` if it is not allowed.
    let read: @Sendable (_ text: String, _ settings: inout Settings) -> Bool
    /// The current value as text; `nil` if it is not set.
    let write: @Sendable (Settings) -> String?
    /// Takes over the value of other settings.
    let copy: @Sendable (_ other: Settings, _ settings: inout Settings) -> Void

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
        isStructured = format.isStructured
        read = { text, settings in
            guard let value = format.parse(text) else { return false }
            settings[Section.self][keyPath: path] = value
            return true
        }
        write = { settings in format.render(settings[Section.self][keyPath: path]) }
        copy = { other, settings in settings[Section.self][keyPath: path] = other[Section.self][keyPath: path] }
    }

    /// `SLUICE_GATEWAY_LISTEN`.
    package var environmentName: String {
        "SLUICE_" + words(UInt8(ascii: "_"), isUppercase: true)
    }

    /// The environment variable with the path of a file that holds the value; secrets only.
    package var environmentFileName: String { environmentName + "_FILE" }

    /// `--gateway-listen`.
    ///
    /// Other users can read a process's arguments, so for a secret this flag names its file.
    package var flag: String {
        "--" + words(UInt8(ascii: "-")) + (isSecret ? "-file" : "")
    }

    /// The keys that name a file that holds the value; secrets only.
    package var fileKeys: [String] { isSecret ? [key + "File", key + "_file"] : [] }

    /// The default as text, or `nil`.
    package var defaultText: String? { write(Settings()) }

    /// The words of the key, which is ASCII, with a separator between them: `publicURL` has `public` and `url`.
    private func words(_ separator: UInt8, isUppercase: Bool = false) -> String {
        var name: [UInt8] = []
        name.reserveCapacity(key.utf8.count + 8)
        var isInCapitals = false
        for byte in key.utf8 {
            let isCapital = (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte)
            if byte == UInt8(ascii: ".") || isCapital && !isInCapitals && name.last != separator {
                name.append(separator)
            }
            isInCapitals = isCapital
            guard byte != UInt8(ascii: ".") else { continue }
            let isSmall = (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte)
            let changesCase = isUppercase ? isSmall : isCapital
            name.append(changesCase ? byte ^ 0x20 : byte)
        }
        return String(decoding: name, as: UTF8.self)
    }
}
