package import Signing

/// A source of credentials for a store; called for each request, from any task.
package protocol AWSCredentialsProvider: Sendable {
    /// Returns credentials that are valid now.
    ///
    /// - Throws: Why there are none.
    func credentials() async throws(CredentialsError) -> SigningCredentials

    /// Reports that the store refused the credentials, so that new ones are fetched.
    func invalidate() async
}

/// Why there are no credentials; for the operator, without secrets.
package struct CredentialsError: Error, Sendable, Equatable, CustomStringConvertible {
    package let message: String

    package init(_ message: String) { self.message = message }

    package var description: String { message }
}

/// Credentials that never change.
package struct StaticCredentials: AWSCredentialsProvider {
    private let value: SigningCredentials

    package init(_ value: SigningCredentials) { self.value = value }

    package func credentials() async throws(CredentialsError) -> SigningCredentials { value }

    package func invalidate() async {}
}
