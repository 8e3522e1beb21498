package import Signing

/// Where credentials for a store come from; may be asked from any task, for each request.
package protocol AWSCredentialsProvider: Sendable {
    /// Credentials that are valid now.
    ///
    /// - Throws: Why there are none.
    func credentials() async throws(CredentialsError) -> SigningCredentials

    /// Tells that the store refused them, so that they are fetched anew.
    func invalidate() async
}

/// Why there are no credentials; for the operator, and without anything secret in it.
package struct CredentialsError: Error, Sendable, Equatable, CustomStringConvertible {
    package let message: String

    package init(_ message: String) { self.message = message }

    package var description: String { message }
}

/// A pair that never changes.
package struct StaticCredentials: AWSCredentialsProvider {
    private let value: SigningCredentials

    package init(_ value: SigningCredentials) { self.value = value }

    package func credentials() async throws(CredentialsError) -> SigningCredentials { value }

    package func invalidate() async {}
}
