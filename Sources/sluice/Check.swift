import ArgumentParser
import Gateway
import SettingsKit

struct Check: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Validates the settings and prints the effective ones, with secrets masked."
    )

    @Flag(help: "List all settings with their flags, environment variables and defaults.")
    var helpSettings = false

    @Flag(help: "With --help-settings: as the table of the documentation.")
    var markdown = false

    @OptionGroup var options: SettingsOptions

    func run() throws {
        if helpSettings {
            let catalog = GatewaySettings.catalog
            Console.say(markdown ? catalog.markdown() : catalog.text(width: 100))
            return
        }
        if markdown { throw ValidationError("--markdown is for --help-settings.") }
        Console.say(try options.load().describe())
    }
}
