import ArgumentParser
import Foundation
import Gateway
import GatewayKit
import Migration
import SettingsKit

struct Adopt: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "adopt",
        abstract:
            "Reconciles state and storage after one of them was lost or restored. Stop all gateways first.",
        usage: "sluice adopt [--dry-run] [--accept] [<settings> ...]",
        discussion: """
            Of bytes without a record it makes completed media, with their id, size and time of creation; names, metadata and subjects \
            are in the records that were lost. Settings are those of the gateway. What was interrupted goes on when it is called again.
            """
    )

    @Flag(help: "Print what would be done without changing anything.")
    var dryRun = false

    @Flag(
        help:
            "Create no records: the next sweep quarantines bytes without a record and removes them after uploads.quarantine."
    )
    var accept = false

    @OptionGroup var options: SettingsOptions

    func run() async throws {
        let settings = try options.load().values
        do throws(StartFailure) {
            let adopting = StoreAdopting(settings) { line in
                Console.say(line)
            }
            try await adopting.run(rebuilding: !accept, trial: dryRun)
        } catch {
            Console.complain("Error: \(error)")
            throw ExitCode.failure
        }
    }
}
