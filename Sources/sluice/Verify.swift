import ArgumentParser
import Foundation
import Gateway
import GatewayKit
import Migration
import SettingsKit
internal import UploadCore
import UploadCore
import UploadModel

struct Verify: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "verify",
        abstract: "Compares every record with its bytes, and all bytes with their records; the gateway may run.",
        usage: "sluice verify [--digests] [--json] [<settings> ...]",
        discussion: """
            Prints one line for each finding, and a summary. Nothing is changed. Settings are those of the gateway. Status 0: no \
            findings; 1: findings; 2: records or bytes could not be read.
            """
    )

    @Flag(help: "Read the bytes of media whose digests are recorded, and compare the digests.")
    var digests = false

    @Flag(help: "Print a JSON object on each line.")
    var json = false

    @OptionGroup var options: SettingsOptions

    func run() async throws {
        let outcome: StoreVerification.Outcome
        let bar = ProgressLine()
        do {
            let settings = try options.load().values
            outcome = try await StoreInspection(settings).run(
                digests: digests,
                progress: { bar.show($0.line) },
                report: { finding in
                    bar.clear()
                    say(finding.line, finding.json)
                }
            )
        } catch let error as ValidationError {
            throw error
        } catch {
            bar.clear()
            Console.complain("Error: \(error)")
            throw ExitCode(2)
        }
        bar.clear()
        say(outcome.line, outcome.json)
        if outcome.findings > 0 { throw ExitCode(1) }
    }

    private func say(_ line: String, _ object: [UInt8]) {
        Console.say(json ? String(decoding: object, as: UTF8.self) : line)
    }
}
