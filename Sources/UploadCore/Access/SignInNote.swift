internal import Synchronization

/// What the current request signed in with, for the audit log.
///
/// `current` is set only for requests that can sign somebody in, so all others pay for one look at a task-local value at most.
package final class SignInNote: Sendable {
    @TaskLocal package static var current: SignInNote?

    package enum Kind: Sendable {
        /// A token of an identity provider admitted its user.
        case user
        /// A token service gave temporary credentials to the holder of a key.
        case session
    }

    package struct SignIn: Sendable, Equatable {
        package let kind: Kind
        /// The id of the API key, or the name that issuer and audience have in its place.
        package let issuer: String
        package let subject: String?
    }

    private let noted = Mutex<SignIn?>(nil)

    package init() {}

    /// The first one that was noted.
    package var signIn: SignIn? { noted.withLock { $0 } }

    /// Notes that the credential of the current request was verified.
    package static func note(_ kind: Kind, issuer: String, subject: String?) {
        guard let current else { return }
        current.noted.withLock { noted in
            if noted == nil { noted = SignIn(kind: kind, issuer: issuer, subject: subject) }
        }
    }
}
