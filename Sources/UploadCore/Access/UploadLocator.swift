internal import Foundation
package import Signing
package import UploadModel

/// Makes upload URLs unguessable: anyone who knows the URL of an upload can continue it.
///
/// The last path component is the id, a dot, and 22 characters of `LinkSigner`; verifying it needs no record. For
/// readability, the app's name for the upload may precede it, followed by a tilde.
package struct UploadLocator: Sendable {
    private let signer: LinkSigner
    /// Of URLs that are verified, but no longer made.
    private let former: LinkSigner?

    /// - Parameters:
    ///   - master: The secret from which codes are derived.
    ///   - dialect: The only one in whose URLs its tokens are worth something; `nil` for those of uploads as such. Earlier
    ///     versions gave such dialects tokens for all, which are therefore accepted there.
    package init(master: MasterSecret, limitedTo dialect: String? = nil) {
        let general = LinkSigner(master: master, purpose: "upload URL v1")
        signer = dialect.map { LinkSigner(master: master, purpose: "\($0) upload URL v1") } ?? general
        former = dialect == nil ? nil : general
    }

    /// The last path component of the upload's URL, 49 characters; it is a credential and must not be logged.
    package func token(for id: UploadID) -> String {
        "\(id.text).\(signer.sign(id.text))"
    }

    /// The last path component of an upload's URL; starts with the percent-encoded name from the app, if any.
    package func token(for upload: Upload) -> String {
        let token = token(for: upload.id)
        guard let alias = upload.alias?.addingPercentEncoding(withAllowedCharacters: Self.plain) else { return token }
        return alias + "~" + token
    }

    /// Unreserved characters (RFC 3986 §2.3).
    private static let plain = CharacterSet(
        charactersIn: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._"
    )

    /// The id of the upload to which `token` gives access; `nil` if `token(for:)` did not create it with this master
    /// secret.
    package func id(in token: some StringProtocol) -> UploadID? {
        let text = Substring(token)
        let tilde = text.utf8.lastIndex(of: UInt8(ascii: "~"))
        let token = text[(tilde.map { text.utf8.index(after: $0) } ?? text.startIndex)...]
        guard let dot = token.utf8.firstIndex(of: UInt8(ascii: ".")), let id = UploadID(token[..<dot]) else {
            return nil
        }
        let signature = token[token.utf8.index(after: dot)...]
        let isValid =
            signer.verify(id.text, signature: signature) || former?.verify(id.text, signature: signature) ?? false
        return isValid ? id : nil
    }
}
