package import Signing

/// Makes upload URLs unguessable: who knows the URL of an upload may continue it.
///
/// The last path component is the id, a dot, and 22 characters of `LinkSigner`; no record is needed to check it.
package struct UploadLocator: Sendable {
    private let signer: LinkSigner

    package init(master: MasterSecret) {
        signer = LinkSigner(key: master.key(for: "upload URL v1"))
    }

    /// The last path component of the upload's URL, 49 characters; it is a credential and belongs in no log.
    package func token(for id: UploadID) -> String {
        "\(id.text).\(signer.sign(id.text))"
    }

    /// The id of the upload that `token` gives access to; `nil` if it was not made by `token(for:)` under this master.
    package func id(in token: some StringProtocol) -> UploadID? {
        guard let dot = token.utf8.firstIndex(of: UInt8(ascii: ".")), let id = UploadID(token[..<dot]) else {
            return nil
        }
        return signer.verify(id.text, signature: token[token.utf8.index(after: dot)...]) ? id : nil
    }
}
