import ArgumentParser
import Gateway

struct Check: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Validates the settings and prints the effective ones, secrets masked."
    )

    @Flag(help: "List all settings with their flags, environment variables and defaults.")
    var helpSettings = false

    @OptionGroup var options: SettingsOptions

    func run() throws {
        if helpSettings {
            print(SettingsReference.markdown())
            return
        }
        print(try options.load().describe())
    }
}
