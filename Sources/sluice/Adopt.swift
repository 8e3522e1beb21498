import ArgumentParser
import Foundation
import Gateway

struct Adopt: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract:
            "Makes the state and the storage a pair again, after one of them was lost or restored; while no gateway runs.",
        usage: "sluice adopt [--dry-run] [--accept] [<settings> ...]",
        discussion: """
            Of bytes without a record it makes completed media, with their id, size and time of creation; names, metadata and subjects \
            are in the records that were lost. Settings are those of the gateway. What was interrupted goes on when it is called again.
            """
    )

    @Flag(help: "Say what would be done, and change nothing.")
    var dryRun = false

    @Flag(
        help:
            "Make no records: bytes without one are set aside by the next sweep, and removed after uploads.quarantine."
    )
    var accept = false

    @OptionGroup var options: SettingsOptions

    func run() async throws {
        let settings = try options.load().values
        do throws(StartFailure) {
            let adopting = StoreAdopting(settings) { line in
                print(line)
                // A pipe would keep it back.
                fflush(nil)
            }
            try await adopting.run(rebuilding: !accept, trial: dryRun)
        } catch {
            FileHandle.standardError.write(Data("Error: \(error)\n".utf8))
            throw ExitCode.failure
        }
    }
}
