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

    @OptionGroup var options: SettingsOptions

    func run() throws {
        if helpSettings {
            Console.say(GatewaySettings.catalog.markdown())
            return
        }
        Console.say(try options.load().describe())
    }
}
