internal import Administration
import ArgumentParser
import Foundation
import Gateway
import SettingsKit

struct DoctorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor",
        abstract: "Looks for what would go wrong when the gateway starts or runs.",
        usage: "sluice doctor [--probe] [--json] [<settings> ...]",
        discussion: """
            Checks settings, permissions, clock, free space, state, store, certificates, proxies and listeners, before the first start \
            or beside a running gateway. Prints one line for each check. Nothing is changed. Settings are those of the gateway. \
            Status 0: all is well; 1: warnings; 2: something failed.
            """
    )

    @Flag(help: "Write, read and delete a small file in the data directory, and an object in the store.")
    var probe = false

    @Flag(help: "Print a JSON object on each line.")
    var json = false

    @OptionGroup var options: SettingsOptions

    func run() async throws {
        var worst = Diagnosis.Status.ok
        func say(_ result: Diagnosis) {
            if result.status != .ok, worst != .failed { worst = result.status }
            Console.say(json ? String(decoding: result.json, as: UTF8.self) : result.line)
        }
        switch try options.read() {
        case .success(let loaded): await Doctor(loaded, probes: probe).run(report: say)
        case .failure(let problems): Doctor.results(of: problems).forEach(say)
        }
        switch worst {
        case .ok: return
        case .warning: throw ExitCode(1)
        case .failed: throw ExitCode(2)
        }
    }
}
