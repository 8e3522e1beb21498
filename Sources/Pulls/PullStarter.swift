internal import HTTPClient
internal import RESTKit
package import UploadCore

/// Starts pulls, for the REST API and for dialects whose clients name a URL.
package struct PullStarter: Sendable {
    /// `nil` if pulling is disabled.
    package let pulls: PullService?
    private let sealer: PullSealer
    private let addresses: AddressPolicy

    init(pulls: PullService?, sealer: PullSealer, addresses: AddressPolicy) {
        self.pulls = pulls
        self.sealer = sealer
        self.addresses = addresses
    }

    /// What is wrong with a URL, worded to follow the name of the field; `nil` if it can be pulled.
    ///
    /// Host names are resolved when fetching; the same rule applies there.
    package func problem(with url: String) -> String? {
        guard let parsed = WebAddress(url) else { return "must be an absolute http or https URL" }
        if let address = parsed.address, !addresses.allows(address) {
            return "has an address that is not allowed (pull.allow)"
        }
        return nil
    }

    /// A request without its credentials, for people.
    package func shown(_ url: String) -> String { WebAddress(url)?.shown ?? "" }

    /// An upload that is pulled.
    ///
    /// - Parameters:
    ///   - url: A URL that `problem` accepts.
    ///   - headers: Fields for the origin.
    ///   - values: Metadata from the app; the rest is taken from the response.
    ///   - contentTypes: Allowed media types.
    /// - Returns: The upload, for `PullService.begin`.
    package func upload(
        from url: String,
        headers: [PullRequest.Header] = [],
        metadata values: [String: String],
        contentTypes: [String] = []
    ) -> NewUpload {
        let address = WebAddress(url)
        let sealed = sealer.seal(
            PullRequest(url: address?.text ?? url, shown: address?.shown, headers: headers, metadata: values)
        )
        return NewUpload(
            dialect: PullView.dialect,
            length: nil,
            metadata: UploadMetadata(describing: values),
            completesWhenFull: false,
            pull: NewPull(url: "", sealed: sealed, contentTypes: contentTypes)
        )
    }
}
