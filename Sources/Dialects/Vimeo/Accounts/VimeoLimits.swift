internal import UploadModel

/// The limits of an app user with a token of an identity provider, for bytes that come later, to a link.
struct VimeoLimits: Sendable, Equatable, Codable {
    /// Bytes of one upload; `nil` applies the server's limit.
    var maximumBytes: Int64?
    /// Allowed media types; empty allows any.
    var contentTypes: [String]
    /// Of each upload.
    var metadata: [String: String]

    /// `nil` if there are none.
    init?(_ grant: Grant) {
        guard grant.maximumBytes != nil || !grant.contentTypes.isEmpty || !grant.metadata.isEmpty else { return nil }
        (maximumBytes, contentTypes, metadata) = (grant.maximumBytes, grant.contentTypes, grant.metadata)
    }

    /// Limits a grant that has no limits of its own but its size.
    func apply(to grant: inout Grant) {
        grant.maximumBytes = [grant.maximumBytes, maximumBytes].compactMap { $0 }.min()
        (grant.contentTypes, grant.metadata) = (contentTypes, metadata)
    }
}
