internal import Foundation
internal import Signing
internal import UploadCore

/// One of the places where credentials may be.
protocol CredentialsPlace: Sendable {
    /// As it is called in messages: `the environment`.
    var name: String { get }

    /// Fetches what is there now.
    ///
    /// - Returns: Credentials, or why nothing is to be expected here, so that the next place is asked.
    /// - Throws: What is wrong with a place that was meant to have some: to go on would be to take those of somebody else.
    func look() async throws(CredentialsError) -> Finding
}

enum Finding: Sendable {
    case found(FetchedCredentials)
    /// For the operator: `AWS_ACCESS_KEY_ID is not set`.
    case nothing(String)
}

/// Credentials, and how long they are good for.
struct FetchedCredentials: Sendable {
    enum Validity: Sendable, Equatable {
        /// As long as the process runs.
        case constant
        /// Until somebody puts others in their place.
        case untilReplaced
        case until(Date)
    }

    let value: SigningCredentials
    let validity: Validity

    /// - Returns: `nil` if something is missing, or has characters that can not stand in a header field.
    init?(id: String?, secret: String?, token: String?, _ validity: Validity) {
        guard let id, let secret, Self.isFit(id), Self.isFit(secret), token.map(Self.isFit) ?? true else { return nil }
        let end: Int64? = if case .until(let date) = validity { date.unixSeconds } else { nil }
        value = SigningCredentials(
            accessKeyID: id,
            secretAccessKey: secret,
            sessionToken: token,
            expiresAt: end
        )
        self.validity = validity
    }

    init(_ temporary: TemporaryCredentials) {
        value = temporary.value
        validity = .until(temporary.expiresAt)
    }

    /// Visible ASCII, no space.
    private static func isFit(_ text: String) -> Bool {
        !text.isEmpty && text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F }
    }

    /// The time in `2026-01-02T03:04:05Z`, with or without fractions of a second.
    static func date(_ text: String) -> Date? {
        try? Date(text, strategy: Date.ISO8601FormatStyle(includingFractionalSeconds: text.contains(".")))
    }
}
