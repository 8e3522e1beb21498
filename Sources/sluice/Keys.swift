import Administration
import ArgumentParser
import Bytes
import Gateway
import GatewayKit
internal import ObjectGateway
import SettingsKit
import UploadModel

struct Keys: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "keys",
        abstract: "Creates, lists, rotates and revokes API keys. The gateway can be running.",
        subcommands: [Create.self, List.self, Pair.self, Rotate.self, Revoke.self]
    )

    struct Create: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "create",
            abstract: "Creates a key and prints its secret once."
        )

        @Option(help: "Name of the key, for people.")
        var name: String

        @Option(help: "A scope, repeatable: \(Scope.allCases.map(\.rawValue).joined(separator: ", ")).")
        var scope: [String]

        @Option(help: "Lifetime of the key, e.g. 12h or 30d. Default: unlimited.")
        var expiresIn: String?

        @Option(
            help: "App user that the key is limited to, repeatable; a trailing * matches any ending. Default: all."
        )
        var subject: [String] = []

        @Option(help: "Bucket that the key is limited to, repeatable. Default: all.")
        var bucket: [String] = []

        @Option(help: "Prefix that object keys must have, repeatable. Default: any.")
        var prefix: [String] = []

        @OptionGroup var options: SettingsOptions

        func run() async throws {
            let scopes = try Set(
                scope.map { text in
                    guard let scope = Scope(rawValue: text) else {
                        let allowed = Scope.allCases.map(\.rawValue).joined(separator: ", ")
                        throw ValidationError("--scope \(text): must be one of \(allowed)")
                    }
                    return scope
                }
            )
            guard !scopes.isEmpty else { throw ValidationError("name at least one --scope") }
            guard !name.isEmpty, name.hasScalars(atMost: 100) else {
                throw ValidationError("--name must have 1 to 100 characters")
            }
            let lifetime = try expiresIn.map { text in
                guard let duration = DurationText.parse(text), duration > .zero else {
                    throw ValidationError("--expires-in \(text): must be a positive duration such as 12h or 30d")
                }
                return Double(duration.components.seconds)
            }
            let limits = KeyLimits(subjects: subject, buckets: bucket, prefixes: prefix)
            if let problem = limits.problem(with: scopes) { throw ValidationError(problem) }
            try await options.withRegister { register in
                let made = try await register.create(name: name, scopes: scopes, lifetime: lifetime, limits: limits)
                Console.say("id: \(made.key.id)\nAPI key: \(made.secret)\nIt is not shown again.")
            }
        }
    }

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "list",
            abstract: "Lists keys, without their secrets."
        )

        @Flag(help: "Print a JSON object on each line.")
        var json = false

        @OptionGroup var options: SettingsOptions

        func run() async throws {
            let json = json
            try await options.withRegister { register in
                if json {
                    let lines = try await register.lines()
                    if !lines.isEmpty { Console.say(lines) }
                } else {
                    Console.say(try await register.table())
                }
            }
        }
    }

    struct Pair: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "pair",
            abstract: "Prints a key as an S3 access key and its secret.",
            discussion: """
                With the scope `admin` it may do everything at the object endpoint; with `mint` it may ask for credentials that
                expire (AssumeRole, GetFederationToken, GetSessionToken). It ends with the key.
                """
        )

        @Argument(help: "The id that `sluice keys list` shows.")
        var id: String

        @OptionGroup var options: SettingsOptions

        func run() async throws {
            let id = id
            try await options.withRegister { register in
                guard let pair = try await register.pair(id) else {
                    throw CommandFailure("\(id): there is no such key; see `sluice keys list`")
                }
                Console.say("AWS_ACCESS_KEY_ID=\(pair.accessKeyID)\nAWS_SECRET_ACCESS_KEY=\(pair.secretAccessKey)")
            }
        }
    }

    struct Rotate: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "rotate",
            abstract: "Gives a key a new secret with the same limits, and prints it once.",
            discussion: """
                A running gateway applies this within a second. What the key minted stays valid. The key's pair for S3 clients
                changes with the secret.
                """
        )

        @Argument(help: "The id that `sluice keys list` shows.")
        var id: String

        @Option(help: "How long the present secret stays valid, at most 30d, e.g. 1d. Default: it ends at once.")
        var overlap: String?

        @OptionGroup var options: SettingsOptions

        func run() async throws {
            let id = id
            let seconds = try overlap.map { text in
                guard let duration = DurationText.parse(text), duration >= .zero, duration <= .seconds(30 * 86_400)
                else {
                    throw ValidationError("--overlap \(text): must be a duration of at most 30d, such as 1d")
                }
                return Double(duration.components.seconds)
            }
            try await options.withRegister { register in
                let secret = try await register.rotate(id, overlap: seconds ?? 0)
                Console.say("API key: \(secret)\nIt is not shown again.")
            }
        }
    }

    struct Revoke: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "revoke",
            abstract: "Revokes a key and everything minted with it. A running gateway applies this within a second."
        )

        @Argument(help: "The id that `sluice keys list` shows.")
        var id: String

        @OptionGroup var options: SettingsOptions

        func run() async throws {
            let id = id
            try await options.withRegister { register in
                guard try await register.revoke(id) else {
                    throw CommandFailure("\(id): there is no such key, or it is already revoked")
                }
                Console.say("revoked \(id)")
            }
        }
    }
}

extension SettingsOptions {
    func withRegister(_ body: (KeyRegister) async throws -> Void) async throws {
        let loaded = try load()
        do {
            let register = try await KeyRegister(loaded.values)
            defer { register.close() }
            try await body(register)
        } catch let failure as StartFailure {
            throw CommandFailure("\(failure)")
        } catch let error as UploadError {
            throw CommandFailure(error.message)
        }
    }
}
