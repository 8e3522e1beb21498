import Administration
import ArgumentParser
import Gateway
import GatewayKit
import SettingsKit

struct Secrets: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "secret",
        abstract:
            "Lists and rotates the master secret, from which upload URLs, tokens, links and key pairs are derived.",
        subcommands: [List.self, Rotate.self, Drop.self]
    )

    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "list",
            abstract: "Lists the ids of the accepted secrets."
        )

        @OptionGroup var options: SettingsOptions

        func run() throws {
            try options.withSecrets { register throws(StartFailure) in Console.say(try register.table()) }
        }
    }

    struct Rotate: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "rotate",
            abstract: "Adds a new secret to the data directory. Existing secrets stay valid.",
            discussion: "A running gateway uses it after a restart."
        )

        @OptionGroup var options: SettingsOptions

        func run() throws {
            try options.withSecrets { register throws(StartFailure) in
                Console.say(try register.rotate())
                Console.say("Restart the gateway to use it.")
            }
        }
    }

    struct Drop: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "drop",
            abstract: "Removes an old secret from the data directory.",
            discussion: "After the next start, the gateway refuses everything made with it."
        )

        @Argument(help: "The id that `sluice secret list` shows.")
        var id: String

        @OptionGroup var options: SettingsOptions

        func run() throws {
            let id = id
            try options.withSecrets { register throws(StartFailure) in
                Console.say(try register.drop(id))
                Console.say("Restart the gateway to refuse what was made with it.")
            }
        }
    }
}

extension SettingsOptions {
    fileprivate func withSecrets(_ body: (SecretRegister) throws(StartFailure) -> Void) throws {
        let register = SecretRegister(try load())
        do throws(StartFailure) {
            try body(register)
        } catch {
            throw CommandFailure("\(error)")
        }
    }
}
