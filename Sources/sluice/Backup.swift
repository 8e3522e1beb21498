import ArgumentParser
import Foundation
import Gateway
import GatewayKit
import Migration
import SettingsKit

struct Backup: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "backup",
        abstract: "Copies the data directory, with its secrets, into a directory; the gateway may run.",
        usage: "sluice backup <directory> [--keep <number>] [<settings> ...]",
        discussion: """
            Each call makes a complete copy; files that did not change are links to the copy before. Settings are those of the \
            gateway. Status 1: a record has no bytes, or the copy failed; copies made before stay.
            """
    )

    @Argument(help: "Directory with the backups; made if it is missing.")
    var directory: String

    @Option(help: "How many copies to keep.")
    var keep = 2

    @OptionGroup var options: SettingsOptions

    func validate() throws {
        guard keep >= 1 else { throw ValidationError("--keep must be at least 1.") }
    }

    func run() async throws {
        let settings = try options.load().values
        do throws(StartFailure) {
            let isComplete = try await DirectoryBackup(settings) { Console.say($0) }.run(to: directory, keeping: keep)
            if isComplete { return }
        } catch {
            throw CommandFailure("\(error)")
        }
        throw CommandFailure("the backup was made, but some records have no bytes")
    }
}

struct Restore: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restore",
        abstract: "Makes a data directory from the newest backup in a directory, after checking all bytes.",
        usage: "sluice restore <directory> [--data-dir <new data directory>] [<settings> ...]"
    )

    @Argument(help: "Directory that `sluice backup` has filled.")
    var directory: String

    @OptionGroup var options: SettingsOptions

    func run() async throws {
        let settings = try options.load().values
        do throws(StartFailure) {
            try DirectoryRestore(settings) { Console.say($0) }.run(from: directory)
        } catch {
            throw CommandFailure("\(error)")
        }
    }
}
