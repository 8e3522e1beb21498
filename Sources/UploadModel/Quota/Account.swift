internal import Bytes

/// An account whose usage is counted: an app user, or an API key with everything that it admitted.
package struct Account: Hashable, Sendable {
    package enum Kind: String, Sendable, CaseIterable {
        /// An app user, by the name that the app assigned.
        case subject
        /// An API key, by its id; includes uploads under tokens that it minted.
        case key
    }

    package let kind: Kind
    package let name: String

    package init(_ kind: Kind, _ name: String) {
        self.kind = kind
        self.name = name
    }

    package static func == (one: Account, other: Account) -> Bool {
        one.kind == other.kind && SubjectName(one.name) == SubjectName(other.name)
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(kind)
        hasher.combine(SubjectName(name))
    }
}

extension Upload {
    /// The accounts in which the upload's bytes are counted.
    package var accounts: [Account] {
        [subject.map { Account(.subject, $0) }, issuer.map { Account(.key, $0) }].compactMap { $0 }
    }
}
