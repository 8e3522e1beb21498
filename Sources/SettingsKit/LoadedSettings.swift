/// The effective configuration and where each part of it comes from.
package struct LoadedSettings: Sendable {
    package let values: Settings
    /// Sources by key; a missing key has its default.
    private let sources: [String: SettingSource]
    private let catalog: SettingsCatalog

    init(values: Settings, sources: [String: SettingSource], catalog: SettingsCatalog) {
        self.values = values
        self.sources = sources
        self.catalog = catalog
    }

    package func source(of key: String) -> SettingSource { sources[key] ?? .standard }

    /// Keys of the settings that have other values than in `other`, in the order of the documentation.
    package func changes(from other: Settings) -> [String] {
        catalog.settings.filter { $0.write(values) != $0.write(other) }.map(\.key)
    }

    /// Other settings with these values for some keys.
    package func replacing(_ keys: Set<String>, in other: Settings) -> Settings {
        var settings = other
        for setting in catalog.settings where keys.contains(setting.key) { setting.copy(values, &settings) }
        return settings
    }

    /// The files that hold secrets, with the key of each: files of their own, and the configuration file.
    package var secretFiles: [(key: String, path: String)] {
        catalog.settings.filter(\.isSecret).compactMap { setting in
            switch source(of: setting.key) {
            case .file(let path, _), .secretFile(let path, _): (setting.key, path)
            case .standard, .environment, .flag: nil
            }
        }
    }

    /// Every setting as a line of YAML, followed by its source; secrets are masked.
    ///
    ///     gateway.listen: 0.0.0.0:8080  # environment variable SLUICE_GATEWAY_LISTEN
    ///     # publicURL is not set
    package func describe() -> String {
        catalog.settings.map { setting in
            guard let value = setting.write(values) else { return "# \(setting.key) is not set\n" }
            let text = setting.isSecret ? SettingsProblem.redacted : Self.quoted(value)
            return "\(setting.key): \(text)  # \(source(of: setting.key))\n"
        }.joined()
    }

    /// `text` as YAML: in single quotes unless it is clearly a plain scalar (YAML 1.2 §7.3.2, §7.3.3).
    private static func quoted(_ text: String) -> String {
        let isPlain = text.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "/"), UInt8(ascii: "_"),
                UInt8(ascii: "-"), UInt8(ascii: ":"):
                true
            default: false
            }
        }
        let begins = text.utf8.first.map { $0 != UInt8(ascii: "-") && $0 != UInt8(ascii: ":") } ?? false
        // A trailing `key:` would begin a mapping; `null` and `~` would not be strings.
        guard isPlain, begins, !text.hasSuffix(":"), text.lowercased() != "null" else {
            guard text.unicodeScalars.allSatisfy({ $0.value >= 0x20 && $0.value != 0x7F }) else {
                return text.debugDescription
            }
            return "'" + text.replacing("'", with: "''") + "'"
        }
        return text
    }
}
