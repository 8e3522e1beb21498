import ArgumentParser
import Foundation
import Gateway

/// The options that all commands share: where settings come from, and any setting as a flag of its own.
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
    /// - Throws: `ValidationError` with every problem at once.
    func load() throws -> LoadedSettings {
        do {
            return try SettingsLoader.load(
                arguments: SettingsArguments.parse(flags),
                environment: ProcessInfo.processInfo.environment,
                file: config
            )
        } catch {
            throw ValidationError("\(error)")
        }
    }
}
