internal import Foundation
package import Signing

/// Makes upload URLs unguessable: who knows the URL of an upload may continue it.
///
/// The last path component is the id, a dot, and 22 characters of `LinkSigner`; no record is needed to check it. The name
/// that an app gave the upload may stand before it, and a tilde between: it is for readers.
package struct UploadLocator: Sendable {
    private let signer: LinkSigner

    package init(master: MasterSecret) {
        signer = LinkSigner(master: master, purpose: "upload URL v1")
    }

    /// The last path component of the upload's URL, 49 characters; it is a credential and belongs in no log.
    package func token(for id: UploadID) -> String {
        "\(id.text).\(signer.sign(id.text))"
    }

    /// The last path component of an upload's URL, with the name that the app gave it, if any, percent-encoded.
    package func token(for upload: Upload) -> String {
        let token = token(for: upload.id)
        guard let alias = upload.alias?.addingPercentEncoding(withAllowedCharacters: Self.plain) else { return token }
        return alias + "~" + token
    }

    /// RFC 3986 §2.3.
    private static let plain = CharacterSet(
        charactersIn: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._"
    )

    /// The id of the upload that `token` gives access to; `nil` if it was not made by `token(for:)` under this master.
    package func id(in token: some StringProtocol) -> UploadID? {
        let text = Substring(token)
        let token = text[(text.lastIndex(of: "~").map { text.index(after: $0) } ?? text.startIndex)...]
        guard let dot = token.utf8.firstIndex(of: UInt8(ascii: ".")), let id = UploadID(token[..<dot]) else {
            return nil
        }
        return signer.verify(id.text, signature: token[token.utf8.index(after: dot)...]) ? id : nil
    }
}
