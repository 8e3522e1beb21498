import ArgumentParser
import Foundation
import Gateway
import SettingsKit

/// The options of all commands: the settings file, and a flag for each setting.
struct SettingsOptions: ParsableArguments {
    @Option(help: "YAML file with settings.")
    var config: String?

    @Argument(
        parsing: .allUnrecognized,
        help: ArgumentHelp(
            "Any setting as a flag, e.g. --gateway-listen 127.0.0.1:8080; `sluice check --help-settings` lists them all.",
            valueName: "settings"
        )
    )
    var flags: [String] = []

    /// Reads flags, environment and file.
    ///
    /// - Throws: `ValidationError` for unknown flags; `CommandFailure` with all other problems together.
    func load() throws -> LoadedSettings {
        try Self.load(flags: flags, file: config)
    }

    /// The same for a command whose arguments are known.
    static func load(flags: [String], file: String?) throws -> LoadedSettings {
        switch try read(flags: flags, file: file) {
        case .success(let loaded): loaded
        case .failure(let problems): throw CommandFailure("\(problems)")
        }
    }

    /// The same, for a command that shows each problem itself.
    ///
    /// - Throws: `ValidationError` for unknown flags.
    func read() throws -> Result<LoadedSettings, SettingsProblems> {
        try Self.read(flags: flags, file: config)
    }

    private static func read(flags: [String], file: String?) throws -> Result<LoadedSettings, SettingsProblems> {
        if let word = flags.first, !word.hasPrefix("-") { throw ValidationError(unknown(word)) }
        let arguments: [String: String]
        do { arguments = try GatewaySettings.catalog.parse(flags) } catch { throw ValidationError("\(error)") }
        return Result { () throws(SettingsProblems) in try load(arguments, file: file) }
    }

    /// What to do about a word that is no flag.
    private static func unknown(_ word: String) -> String {
        let commands = Sluice.configuration.subcommands.compactMap { $0.configuration.commandName }
        let hint = NearestName.hint(word, among: commands)
        let uploads = word == "upload" ? " To upload a file, use curl: `sluice serve` prints how." : ""
        return "\(word): there is no such command or flag\(hint); `sluice --help` lists the commands.\(uploads)"
    }

    /// Reads what was read before, as it is now.
    static func reload(flags: [String], file: String?) throws(SettingsProblems) -> LoadedSettings {
        try load(GatewaySettings.catalog.parse(flags), file: file)
    }

    private static func load(_ arguments: [String: String], file: String?) throws(SettingsProblems) -> LoadedSettings {
        try GatewaySettings.catalog.load(
            arguments: arguments,
            environment: ProcessInfo.processInfo.environment,
            file: file
        )
    }
}
