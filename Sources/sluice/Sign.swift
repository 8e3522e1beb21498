import ArgumentParser
import Foundation
import Gateway
import GatewayKit
import SettingsKit
import Stores
import TencentVOD

struct Sign: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "sign",
        abstract: "Creates signatures without a running gateway.",
        subcommands: [Tencent.self]
    )

    struct Tencent: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "tencent",
            abstract: "Prints a Tencent VOD client upload signature, like POST /v1/tencent/signatures."
        )

        @Option(help: "Lifetime of the signature in seconds.")
        var expiresIn: Int64?
        @Option(help: "App user that the signature is for.")
        var subject: String?
        @Option(help: "Start time in Unix seconds.")
        var currentTimeStamp: Int64?
        @Option(help: "Expiry in Unix seconds, instead of --expires-in.")
        var expireTime: Int64?
        @Option(help: "Random number, unsigned, 32 bits.")
        var random: Int64?
        @Option(help: "Category.")
        var classId: Int64?
        @Option(help: "Task flow that starts after the upload.")
        var procedure: String?
        @Option(help: "-10 to 10, with --procedure.")
        var taskPriority: Int64?
        @Option(help: "Finish, Change or None, with --procedure.")
        var taskNotifyMode: String?
        @Option(help: "Text that the upload-complete event repeats.")
        var sourceContext: String?
        @Option(help: "Text that procedure events repeat.")
        var sessionContext: String?
        @Flag(help: "Valid for one upload only.")
        var oneTimeValid = false
        @Option(help: "Sub-application id.")
        var vodSubAppId: Int64?
        @Option(help: "Storage region, e.g. ap-chongqing.")
        var storageRegion: String?
        @Option(help: "Verify this signature instead of creating one, and print its parameters.")
        var verify: String?

        @OptionGroup var options: SettingsOptions

        func run() throws {
            let loaded = try options.load()
            do {
                let tools = try TencentTools(loaded.values, loaded.values.master())
                if let verify {
                    Console.say(try tools.verify(verify))
                } else {
                    Console.say(try tools.sign(json: try request()))
                }
            } catch let failure as StartFailure {
                throw CommandFailure("\(failure)")
            }
        }

        private struct Body: Encodable {
            var expiresIn, currentTimeStamp, expireTime, random, classId, taskPriority, vodSubAppId: Int64?
            var subject, procedure, taskNotifyMode, sourceContext, sessionContext, storageRegion: String?
            var oneTimeValid: Bool?
        }

        /// The equivalent request of the REST API.
        private func request() throws -> [UInt8] {
            let body = Body(
                expiresIn: expiresIn,
                currentTimeStamp: currentTimeStamp,
                expireTime: expireTime,
                random: random,
                classId: classId,
                taskPriority: taskPriority,
                vodSubAppId: vodSubAppId,
                subject: subject,
                procedure: procedure,
                taskNotifyMode: taskNotifyMode,
                sourceContext: sourceContext,
                sessionContext: sessionContext,
                storageRegion: storageRegion,
                oneTimeValid: oneTimeValid ? true : nil
            )
            return [UInt8](try JSONEncoder().encode(body))
        }
    }
}
