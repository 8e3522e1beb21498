internal import Administration
import ArgumentParser
import Gateway
import SettingsKit

struct Health: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "health",
        abstract: "Asks the gateway on this machine whether it is well, for health checks of containers.",
        discussion: """
            The gateway is found by the settings, above all gateway.listen, so it needs those of `sluice serve`. Status 0 means that
            it is ready for uploads: it reaches its state and its storage, and does not stop (/readyz). Otherwise the status is 1, and a
            line says why.
            """
    )

    private static let defaultSeconds = 5

    @Flag(help: "Only whether it answers (/healthz), for what restarts a gateway that does not.")
    var live = false

    // It is the default now.
    @Flag(help: .hidden)
    var ready = false

    @Option(help: "Seconds to wait for its answer.")
    var timeout = Self.defaultSeconds

    @OptionGroup var options: SettingsOptions

    func validate() throws {
        guard !(live && ready) else { throw ValidationError("--live and --ready exclude each other.") }
        guard (1...300).contains(timeout) else { throw ValidationError("--timeout must be 1 to 300.") }
    }

    func run() throws {
        try Self.check(options.load().values, isReadiness: !live, seconds: timeout)
    }

    /// Runs the command as `sluice health` without arguments does.
    ///
    /// A container's engine runs it every few seconds, and the parsing of arguments is a third of what it costs.
    ///
    /// - Throws: `CommandFailure`.
    static func runWithoutArguments() throws {
        try check(SettingsOptions.load(flags: [], file: nil).values, isReadiness: true, seconds: defaultSeconds)
    }

    private static func check(_ settings: Settings, isReadiness: Bool, seconds: Int) throws {
        let problem = HealthCheck.problem(settings, isReadiness: isReadiness, timeout: .seconds(seconds))
        if let problem { throw CommandFailure(problem) }
        Console.say("ok")
    }
}
