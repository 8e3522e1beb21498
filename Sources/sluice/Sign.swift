import ArgumentParser
import Foundation
import Gateway

struct Sign: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Signs without a running gateway.",
        subcommands: [Tencent.self]
    )

    struct Tencent: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Prints a Tencent VOD client upload signature, made as POST /v1/tencent/signatures makes it."
        )

        @Option(help: "Life of the signature in seconds.")
        var expiresIn: Int64?
        @Option(help: "The app user it is for.")
        var subject: String?
        @Option(help: "Unix seconds at which it begins.")
        var currentTimeStamp: Int64?
        @Option(help: "Unix seconds at which it ends, instead of --expires-in.")
        var expireTime: Int64?
        @Option(help: "Unsigned 32-bit number.")
        var random: Int64?
        @Option(help: "Category.")
        var classId: Int64?
        @Option(help: "Task flow that starts after the upload.")
        var procedure: String?
        @Option(help: "-10 to 10, with --procedure.")
        var taskPriority: Int64?
        @Option(help: "Finish, Change or None, with --procedure.")
        var taskNotifyMode: String?
        @Option(help: "Comes back in the upload-complete event.")
        var sourceContext: String?
        @Option(help: "Comes back in procedure events.")
        var sessionContext: String?
        @Flag(help: "Valid for one upload only.")
        var oneTimeValid = false
        @Option(help: "Sub-application id.")
        var vodSubAppId: Int64?
        @Option(help: "Storage region, e.g. ap-chongqing.")
        var storageRegion: String?
        @Option(help: "Check this signature instead of making one, and print its parameters.")
        var verify: String?

        @OptionGroup var options: SettingsOptions

        func run() throws {
            let loaded = try options.load()
            do {
                let tools = try TencentTools(loaded.values)
                if let verify {
                    print(try tools.verify(verify))
                } else {
                    print(try tools.sign(json: try request()))
                }
            } catch let failure as StartFailure {
                throw ValidationError("\(failure)")
            }
        }

        private struct Body: Encodable {
            var expiresIn, currentTimeStamp, expireTime, random, classId, taskPriority, vodSubAppId: Int64?
            var subject, procedure, taskNotifyMode, sourceContext, sessionContext, storageRegion: String?
            var oneTimeValid: Bool?
        }

        /// The request that the REST API would get.
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
