internal import Administration
import ArgumentParser
import Foundation
import Gateway
import GatewayKit
import RESTKit
import SettingsKit
import UploadModel

struct Revoke: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "revoke",
        abstract: "Revokes what was minted for a user or before a time; a running gateway applies it within a second.",
        discussion: """
            Upload tokens, credentials, presigned URLs and download links end; API keys do not (`sluice keys revoke`). Upload URLs
            end where `uploads.revokeWithKey` is set.
            """
    )

    @Option(help: "App user. Default: all.")
    var subject: String?

    @Option(help: "Only what was minted before this time, e.g. 2025-06-25T16:00:00Z. Default: now.")
    var issuedBefore: String?

    @OptionGroup var options: SettingsOptions

    func run() async throws {
        guard subject != nil || issuedBefore != nil else {
            throw ValidationError("use --subject, --issued-before or both")
        }
        if let subject, !SubjectText.isValid(subject) { throw ValidationError("--subject \(SubjectText.rule)") }
        let skew = try options.load().values.limits.clockSkewSeconds
        let date = try issuedBefore.map { text in
            guard let date = Timestamp.parse(text), date <= Date(timeIntervalSinceNow: TimeInterval(skew)) else {
                throw ValidationError(
                    "--issued-before \(text): must be a time such as 2025-06-25T16:00:00Z (RFC 3339), at most \(skew) s from now (limits.clockSkew)"
                )
            }
            return date
        }
        let subject = subject
        try await options.withRegister { try await $0.revokeIssued(to: subject, before: date) }
        Console.say("revoked")
    }
}
