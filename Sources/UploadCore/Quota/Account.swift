/// Whose use of the server is counted: an app user, or an API key with everything that it admitted.
package struct Account: Hashable, Sendable {
    package enum Kind: String, Sendable, CaseIterable {
        /// An app user, by the name that the app gave them.
        case subject
        /// An API key, by its id; uploads under the tokens that it minted count too.
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
    /// The accounts that its bytes are counted in.
    package var accounts: [Account] {
        [subject.map { Account(.subject, $0) }, issuer.map { Account(.key, $0) }].compactMap { $0 }
    }
}
