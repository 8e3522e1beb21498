internal import HTTPClient
internal import RESTKit
package import UploadCore
package import UploadModel

/// Starts pulls, for the REST API and for dialects whose clients name a URL.
package struct PullStarter: Sendable {
    /// `nil` if pulling is disabled.
    package let pulls: PullService?
    private let sealer: PullSealer
    private let addresses: AddressPolicy
    private let allowsUsers: Bool

    /// - Parameters:
    ///   - pulls: `nil` if pulling is disabled.
    ///   - sealer: Encrypts the requests.
    ///   - addresses: What an API key that may upload reaches.
    ///   - allowsUsers: Whether tokens of users that such a key minted reach the same (`pull.allowUsers`).
    init(pulls: PullService?, sealer: PullSealer, addresses: AddressPolicy, allowsUsers: Bool = false) {
        self.pulls = pulls
        self.sealer = sealer
        self.addresses = addresses
        self.allowsUsers = allowsUsers
    }

    /// Where an API key may make the gateway connect to.
    package func reach(of key: APIKey) -> PullReach {
        key.user == nil && key.allows(.upload) ? .allowedRanges : reach(ofUserOf: key.allows(.upload))
    }

    /// Where the holder of a token may make the gateway connect to.
    ///
    /// - Parameter keyUploads: Whether the key that minted the token may upload itself.
    /// - Returns: Public addresses only, unless the operator allows users more.
    package func reach(ofUserOf keyUploads: Bool) -> PullReach {
        allowsUsers && keyUploads ? .allowedRanges : .publicOnly
    }

    /// What is wrong with a URL, worded to follow the name of the field; `nil` if it can be pulled.
    ///
    /// Host names are resolved when fetching; the same rule applies there.
    package func problem(with url: String, within reach: PullReach) -> String? {
        guard let parsed = WebAddress(url) else { return "must be an absolute http or https URL" }
        guard let address = parsed.address else { return nil }
        if !addresses.allows(address) { return "has an address that is not allowed (pull.allow)" }
        if reach == .publicOnly, !AddressPolicy.publicOnly().allows(address) {
            return "has an address that is not public, which only an API key with the scope `upload` may name"
        }
        return nil
    }

    /// A request without its credentials, for people.
    package func shown(_ url: String) -> String { WebAddress(url)?.shown ?? "" }

    /// An upload that is pulled.
    ///
    /// - Parameters:
    ///   - url: A URL that `problem` accepts.
    ///   - reach: Where the caller may make the gateway connect to.
    ///   - headers: Fields for the origin.
    ///   - values: Metadata from the app; the rest is taken from the response.
    ///   - contentTypes: Allowed media types.
    ///   - storedBytes: See `Grant.storedBytes`.
    /// - Returns: The upload, for `PullService.begin`.
    package func upload(
        from url: String,
        within reach: PullReach,
        headers: [PullRequest.Header] = [],
        metadata values: [String: String],
        contentTypes: [String] = [],
        storedBytes: Int64? = nil
    ) -> NewUpload {
        let address = WebAddress(url)
        var request = PullRequest(
            url: address?.text ?? url,
            shown: address?.shown,
            headers: headers,
            metadata: values,
            reach: reach,
            storedBytes: storedBytes
        )
        let sealed = sealer.seal(request)
        request.keepsMetadata = true
        let decided = sealer.seal(request)
        return NewUpload(
            dialect: PullView.dialect,
            length: nil,
            metadata: UploadMetadata(describing: values),
            completesWhenFull: false,
            pull: NewPull(url: "", sealed: sealed, sealedWhenDecided: decided, contentTypes: contentTypes)
        )
    }
}
