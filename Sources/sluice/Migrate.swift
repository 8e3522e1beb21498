import ArgumentParser
import Foundation
import Gateway
import GatewayKit
import Migration
import SettingsKit

struct Migrate: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "migrate",
        abstract: "Moves state to PostgreSQL, or bytes to a store. Stop all gateways first.",
        usage: """
            sluice migrate --from sqlite --to postgres [--restart] [<settings> ...]
            sluice migrate --media disk --to s3 [--remove] [<settings> ...]
            """,
        discussion: """
            Settings are those of the gateway that serves afterwards. What was interrupted goes on when it is called again.
            """
    )

    enum Place: String, ExpressibleByArgument {
        case sqlite, disk, postgres, s3
        /// Anything else. A refusal does not repeat it: it can be a URL with a password.
        case other

        init(argument: String) { self = Self(rawValue: argument) ?? .other }
    }

    @Option(help: "Current state database: sqlite, in the data directory.", completion: .list(["sqlite"]))
    var from: Place?

    @Option(help: "Current storage: disk, in the data directory.", completion: .list(["disk"]))
    var media: Place?

    @Option(help: "Destination: postgres for the state, s3 for the bytes.", completion: .list(["postgres", "s3"]))
    var to: Place

    @Flag(help: "Discard the result of an unfinished state migration and start again.")
    var restart = false

    @Flag(help: "Remove bytes from the disk after checking that the store has them.")
    var remove = false

    @OptionGroup var options: SettingsOptions

    func validate() throws {
        switch (from, media, to) {
        case (.sqlite, nil, .postgres):
            if remove { throw ValidationError("--remove needs --media") }
        case (nil, .disk, .s3):
            if restart { throw ValidationError("--restart needs --from") }
        default: throw ValidationError("use --from sqlite --to postgres, or --media disk --to s3")
        }
    }

    func run() async throws {
        let settings = try options.load().values
        do throws(StartFailure) {
            if media != nil {
                try await MediaMigration(settings, report: Self.say).run(removing: remove)
            } else {
                try await StateMigration(settings, report: Self.say).run(anew: restart)
            }
        } catch {
            Console.complain("Error: \(error)")
            throw ExitCode.failure
        }
    }

    private static func say(_ line: String) {
        Console.say(line)
    }
}
