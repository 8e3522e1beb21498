package import HTTPWire

/// The settings of the dialect.
package struct TusSettings: Sendable, Equatable {
    /// Which web pages may upload.
    package var cors: CORSPolicy
    /// Maximum length of `Upload-Metadata` in bytes as sent; a longer field is refused with 400.
    package var maximumMetadataBytes: Int
    /// Whether DELETE of an upload URL also removes complete uploads, not only open ones.
    package var deletesComplete: Bool
    /// Whether DELETE is supported at all (extension termination).
    package var terminates: Bool
    /// Whether an expired or terminated upload gives 404 instead of 410: some clients, such as tus-java-client, create
    /// a new upload only after 404.
    package var goneIsNotFound: Bool

    package init(
        cors: CORSPolicy = CORSPolicy(),
        maximumMetadataBytes: Int = 8192,
        deletesComplete: Bool = false,
        terminates: Bool = true,
        goneIsNotFound: Bool = false
    ) {
        self.cors = cors
        self.maximumMetadataBytes = maximumMetadataBytes
        self.deletesComplete = deletesComplete
        self.terminates = terminates
        self.goneIsNotFound = goneIsNotFound
    }

    var extensions: [String] { Tus.extensions.filter { $0 != "termination" || terminates } }

    /// Those of a resource that are supported.
    func supported(_ methods: [HTTPMethod]) -> [HTTPMethod] {
        // No new array in the usual case, as each request asks.
        terminates ? methods : methods.filter { $0 != .delete }
    }
}
