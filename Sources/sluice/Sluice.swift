import ArgumentParser
import Gateway
import Telemetry

@main
enum Program {
    static func main() async {
        do {
            guard !CommandLine.arguments.dropFirst().elementsEqual(["health"]) else {
                return try Health.runWithoutArguments()
            }
            var command = try await Sluice.asyncParseAsRoot()
            if var command = command as? any AsyncParsableCommand {
                try await command.run()
            } else {
                try command.run()
            }
        } catch {
            exit(with: error)
        }
    }

    /// As `Sluice.exit(withError:)`, but a message can have texts of a server in it.
    private static func exit(with error: any Error) -> Never {
        let code = Sluice.exitCode(for: error)
        guard !code.isSuccess else { Sluice.exit(withError: error) }
        let message = Sluice.fullMessage(for: error)
        if !message.isEmpty { Console.complain(message) }
        Sluice.exit(withError: code)
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
