internal import Foundation
internal import Signing
internal import UploadModel

/// A place that can have credentials.
protocol CredentialsPlace: Sendable {
    /// The name in messages, such as `the environment`.
    var name: String { get }

    /// Fetches the current credentials.
    ///
    /// - Returns: Credentials, or why this place has none; then the next place is tried.
    /// - Throws: The problem of a place that is configured but does not work. Trying the next place would use someone
    ///   else's credentials.
    func fetch() async throws(CredentialsError) -> Finding
}

enum Finding: Sendable {
    case found(FetchedCredentials)
    /// A reason for the operator, such as `AWS_ACCESS_KEY_ID is not set`.
    case nothing(String)
}

/// Credentials and how long they are valid.
struct FetchedCredentials: Sendable {
    enum Validity: Sendable, Equatable {
        /// As long as the process runs.
        case constant
        /// Until the file is replaced.
        case untilReplaced
        case until(Date)
    }

    let value: SigningCredentials
    let validity: Validity

    /// - Returns: `nil` if a value is missing or has characters that a header field cannot have.
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
