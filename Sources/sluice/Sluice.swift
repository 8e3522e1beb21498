import ArgumentParser
import Gateway
import Telemetry

@main
struct Sluice: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "sluice",
        abstract: "An upload gateway: mints upload credentials and relays uploads.",
        version: Version.current,
        subcommands: [
            Serve.self, Check.self, Keys.self, Revoke.self, Secrets.self, Sign.self, Credentials.self, Migrate.self,
            Adopt.self,
        ],
        defaultSubcommand: Serve.self
    )
}
