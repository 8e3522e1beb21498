import ArgumentParser
import Gateway
import UploadCore

struct Keys: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Makes, lists and revokes API keys; also while the gateway runs.",
        subcommands: [Create.self, List.self, Pair.self, Revoke.self]
    )

    struct Create: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Makes a key and prints its secret, once.")

        @Option(help: "What the key is for.")
        var name: String

        @Option(help: "A scope, repeatable: \(Scope.allCases.map(\.rawValue).joined(separator: ", ")).")
        var scope: [String]

        @Option(help: "Life of the key, e.g. 12h or 30d; without it the key has no end.")
        var expiresIn: String?

        @Option(
            help: "An app user that the key is for, repeatable; one ending with * is all that begin so. Default: all."
        )
        var subject: [String] = []

        @Option(help: "A bucket of the object endpoint that the key is for, repeatable. Default: all.")
        var bucket: [String] = []

        @Option(help: "What the keys of objects in these buckets must begin with, repeatable. Default: anything.")
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
            guard !name.isEmpty, name.count <= 100 else {
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
                print("id: \(made.key.id)\nAPI key: \(made.secret)\nIt is shown only this once.")
            }
        }
    }

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Lists keys, without their secrets.")

        @OptionGroup var options: SettingsOptions

        func run() async throws {
            try await options.withRegister { print(try await $0.table()) }
        }
    }

    struct Pair: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Prints a key as clients of S3 use it: an access key and its secret.",
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
                    throw ValidationError("\(id): there is no such key")
                }
                print("AWS_ACCESS_KEY_ID=\(pair.accessKeyID)\nAWS_SECRET_ACCESS_KEY=\(pair.secretAccessKey)")
            }
        }
    }

    struct Revoke: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Ends a key and what it minted; a running gateway follows within a second."
        )

        @Argument(help: "The id that `sluice keys list` shows.")
        var id: String

        @OptionGroup var options: SettingsOptions

        func run() async throws {
            let id = id
            try await options.withRegister { register in
                guard try await register.revoke(id) else {
                    throw ValidationError("\(id): there is no such key, or it is revoked already")
                }
                print("revoked \(id)")
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
            throw ValidationError("\(failure)")
        } catch let error as UploadError {
            throw ValidationError(error.message)
        }
    }
}
