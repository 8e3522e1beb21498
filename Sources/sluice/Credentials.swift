import Administration
import ArgumentParser
import Foundation
import Gateway
import GatewayKit
import SettingsKit
import Stores
import TencentVOD

struct Credentials: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "credentials",
        abstract: "Prints key pairs and their secrets, for the operator.",
        subcommands: [Tencent.self, Webhooks.self, Callbacks.self]
    )

    struct Webhooks: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "webhooks",
            abstract: "Prints the secret with which receivers of hooks verify signatures (Standard Webhooks)."
        )

        @OptionGroup var options: SettingsOptions

        func run() throws {
            do {
                Console.say(try WebhookTools.secret(try options.load().values))
            } catch let failure as StartFailure {
                throw CommandFailure("\(failure)")
            }
        }
    }

    struct Callbacks: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "callbacks",
            abstract: "Prints the secret with which receivers of OSS callbacks verify signatures (Standard Webhooks)."
        )

        @OptionGroup var options: SettingsOptions

        func run() throws {
            do {
                Console.say(try WebhookTools.callbackSecret(try options.load().values))
            } catch let failure as StartFailure {
                throw CommandFailure("\(failure)")
            }
        }
    }

    struct Tencent: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "tencent",
            abstract: "Prints the key pair that signs for Tencent VOD in the configured mode, as JSON."
        )

        @OptionGroup var options: SettingsOptions

        private struct Pair: Encodable {
            var mode: String
            var secretId: String
            var secretKey: String
        }

        func run() throws {
            let loaded = try options.load()
            do {
                let tools = try TencentTools(loaded.values, loaded.values.master())
                let pair = Pair(
                    mode: tools.mode,
                    secretId: tools.secretID,
                    secretKey: tools.secretKey
                )
                let encoder = JSONEncoder()
                encoder.outputFormatting = [.sortedKeys]
                Console.say(String(decoding: try encoder.encode(pair), as: UTF8.self))
            } catch let failure as StartFailure {
                throw CommandFailure("\(failure)")
            }
        }
    }
}
