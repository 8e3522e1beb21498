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
}

extension Upload {
    /// The accounts in which the upload's bytes are counted.
    package var accounts: [Account] {
        [subject.map { Account(.subject, $0) }, issuer.map { Account(.key, $0) }].compactMap { $0 }
    }
}
