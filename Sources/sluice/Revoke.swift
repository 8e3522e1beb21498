import ArgumentParser
import Foundation
import Gateway
import UploadCore

struct Revoke: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Ends what was minted for a user, or before a moment; a running gateway follows within a second.",
        discussion: """
            Upload tokens, credentials, presigned URLs and download links end; API keys do not (`sluice keys revoke`). Upload URLs
            end where `uploads.endWithKey` is set.
            """
    )

    @Option(help: "The app user; without it everybody.")
    var subject: String?

    @Option(help: "Only what was minted before this time, such as 2025-06-25T16:00:00Z; without it, until now.")
    var issuedBefore: String?

    @OptionGroup var options: SettingsOptions

    func run() async throws {
        guard subject != nil || issuedBefore != nil else {
            throw ValidationError("name --subject, or --issued-before, or both")
        }
        if let subject, !SubjectText.isValid(subject) { throw ValidationError("--subject \(SubjectText.rule)") }
        let date = try issuedBefore.map { text in
            guard let date = Timestamp.parse(text), date <= Date() else {
                throw ValidationError(
                    "--issued-before \(text): must be a time such as 2025-06-25T16:00:00Z (RFC 3339) that is over"
                )
            }
            return date
        }
        let subject = subject
        try await options.withRegister { try await $0.revokeIssued(to: subject, before: date) }
        print("revoked")
    }
}
