import ArgumentParser
import Gateway

struct Secrets: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "secret",
        abstract:
            "Lists and rotates the master secret, from which upload URLs, tokens, links and key pairs are derived.",
        subcommands: [List.self, Rotate.self, Drop.self]
    )

    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Lists the secrets that are accepted, by names that tell nothing of them."
        )

        @OptionGroup var options: SettingsOptions

        func run() throws {
            try options.withSecrets { register throws(StartFailure) in print(try register.table()) }
        }
    }

    struct Rotate: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Puts a new secret before those of the data directory, which go on being accepted.",
            discussion: "A running gateway uses it after a restart."
        )

        @OptionGroup var options: SettingsOptions

        func run() throws {
            try options.withSecrets { register throws(StartFailure) in
                print(try register.rotate())
                print("Restart the gateway for it to be used.")
            }
        }
    }

    struct Drop: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Removes a secret of the data directory that makes nothing new any more.",
            discussion: "What was made with it is refused from the next start of the gateway on."
        )

        @Argument(help: "The id that `sluice secret list` shows.")
        var id: String

        @OptionGroup var options: SettingsOptions

        func run() throws {
            let id = id
            try options.withSecrets { register throws(StartFailure) in
                print(try register.drop(id))
                print("Restart the gateway for what it made to be refused.")
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
            throw ValidationError("\(error)")
        }
    }
}
