package import HTTPWire

/// What of the dialect can be configured.
package struct TusSettings: Sendable, Equatable {
    /// Which web pages may upload.
    package var cors: CORSPolicy
    /// Longest `Upload-Metadata` that is taken, in bytes as sent; more answers 400.
    package var maximumMetadataBytes: Int
    /// Whether DELETE of an upload URL removes what is complete, too, and not only what is open.
    package var deletesComplete: Bool
    /// An upload that has expired or was terminated is answered 404 instead of 410: some clients, among them
    /// tus-java-client, create a new upload after that only.
    package var goneIsNotFound: Bool

    package init(
        cors: CORSPolicy = CORSPolicy(),
        maximumMetadataBytes: Int = 8192,
        deletesComplete: Bool = false,
        goneIsNotFound: Bool = false
    ) {
        self.cors = cors
        self.maximumMetadataBytes = maximumMetadataBytes
        self.deletesComplete = deletesComplete
        self.goneIsNotFound = goneIsNotFound
    }
}
