import ArgumentParser
import Gateway
import Glibc
import Telemetry

@main
enum Program {
    static func main() async {
        do {
            guard !CommandLine.arguments.dropFirst().elementsEqual(["health"]) else {
                try Health.runWithoutArguments()
                leave(EXIT_SUCCESS)
            }
            var command = try await Sluice.asyncParseAsRoot()
            if var command = command as? any AsyncParsableCommand {
                try await command.run()
            } else {
                try command.run()
            }
            leave(EXIT_SUCCESS)
        } catch {
            let code = Sluice.exitCode(for: error)
            let message = Sluice.fullMessage(for: error)
            switch (message.isEmpty, code.isSuccess) {
            case (true, _): break
            case (false, true): print(message)
            // It can have texts of a server in it.
            case (false, false): Console.complain(message)
            }
            leave(code.rawValue)
        }
    }

    /// Ends the process without the destructors of libraries: threads of the state may still use what these destroy.
    private static func leave(_ status: Int32) -> Never {
        fflush(nil)
        _exit(status)
    }
}

struct Sluice: AsyncParsableCommand {
    // Every command names itself. Otherwise each start makes all names from the types, which takes milliseconds.
    static let configuration = CommandConfiguration(
        commandName: "sluice",
        abstract: "An upload gateway: mints upload credentials and relays uploads.",
        version: Version.current,
        subcommands: [
            Serve.self, Health.self, Check.self, DoctorCommand.self, Keys.self, Uploads.self, Media.self, Revoke.self,
            Secrets.self, Sign.self, Credentials.self,
            Migrate.self, Adopt.self, Verify.self, Backup.self, Restore.self,
        ],
        defaultSubcommand: Serve.self
    )
}
