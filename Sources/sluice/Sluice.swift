import ArgumentParser
import Gateway
import Telemetry

@main
enum Program {
    static func main() async {
        guard CommandLine.arguments.dropFirst().elementsEqual(["health"]) else { return await Sluice.main() }
        do { try Health.runWithoutArguments() } catch { Sluice.exit(withError: error) }
    }
}

struct Sluice: AsyncParsableCommand {
    // Every command names itself. Otherwise each start makes all names from the types, which takes milliseconds.
    static let configuration = CommandConfiguration(
        commandName: "sluice",
        abstract: "An upload gateway: mints upload credentials and relays uploads.",
        version: Version.current,
        subcommands: [
            Serve.self, Health.self, Check.self, DoctorCommand.self, Keys.self, Uploads.self, Revoke.self, Secrets.self,
            Sign.self, Credentials.self,
            Migrate.self, Adopt.self, Verify.self, Backup.self, Restore.self,
        ],
        defaultSubcommand: Serve.self
    )
}
