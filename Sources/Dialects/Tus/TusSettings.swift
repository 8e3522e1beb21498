package import HTTPWire

/// The settings of the dialect.
package struct TusSettings: Sendable, Equatable {
    /// Which web pages may upload.
    package var cors: CORSPolicy
    /// Maximum length of `Upload-Metadata` in bytes as sent; a longer field is refused with 400.
    package var maximumMetadataBytes: Int
    /// Whether DELETE of an upload URL also removes complete uploads, not only open ones.
    package var deletesComplete: Bool
    /// Whether an expired or terminated upload gives 404 instead of 410: some clients, such as tus-java-client, create
    /// a new upload only after 404.
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
