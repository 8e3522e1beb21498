import ArgumentParser
import Foundation
import Gateway

struct Migrate: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Moves a data directory's state into PostgreSQL, or its bytes into a store, while no gateway runs.",
        usage: """
            sluice migrate --from sqlite --to postgres [--restart] [<settings> ...]
            sluice migrate --media disk --to s3 [--remove] [<settings> ...]
            """,
        discussion: """
            Settings are those of the gateway that serves afterwards. What was interrupted goes on when it is called again.
            """
    )

    enum StateSource: String, ExpressibleByArgument, CaseIterable { case sqlite }
    enum MediaSource: String, ExpressibleByArgument, CaseIterable { case disk }
    enum Target: String, ExpressibleByArgument, CaseIterable { case postgres, s3 }

    @Option(help: "Where the state is: sqlite, which is in the data directory.")
    var from: StateSource?

    @Option(help: "Where the bytes are: disk, which is the data directory.")
    var media: MediaSource?

    @Option(help: "Where to: postgres for the state, s3 for the bytes.")
    var to: Target

    @Flag(help: "Forget what an unfinished migration of the state has copied, and begin anew.")
    var restart = false

    @Flag(help: "Remove bytes from the disk once the store was found to have them.")
    var remove = false

    @OptionGroup var options: SettingsOptions

    func validate() throws {
        switch (from, media, to) {
        case (.sqlite, nil, .postgres):
            if remove { throw ValidationError("--remove is for --media") }
        case (nil, .disk, .s3):
            if restart { throw ValidationError("--restart is for --from") }
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
            FileHandle.standardError.write(Data("Error: \(error)\n".utf8))
            throw ExitCode.failure
        }
    }

    private static func say(_ line: String) {
        print(line)
        // A pipe would keep it back.
        fflush(nil)
    }
}
