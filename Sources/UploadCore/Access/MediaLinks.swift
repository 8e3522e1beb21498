package import Foundation
package import Signing

/// Makes and checks links that let anyone download one media until a moment.
package struct MediaLinks: Sendable {
    private let signer: LinkSigner

    package init(master: MasterSecret) {
        signer = LinkSigner(master: master, purpose: "media link v1")
    }

    /// The query of the link: `expires=<Unix seconds>&signature=<22 characters>`.
    ///
    /// A fraction of a second is dropped.
    package func query(for id: UploadID, expiresAt: Date) -> String {
        let expiry = expiresAt.unixSeconds
        return "expires=\(expiry)&signature=\(signer.sign(id.text, expiresAt: expiry))"
    }

    /// Checks the values of such a query.
    ///
    /// - Throws: `.unauthenticated` if they were not made for this media, or the moment is over.
    package func verify(id: UploadID, expires: String, signature: String, at now: Date) throws(UploadError) {
        // Before the signature is known to be right, nothing is said about the expiry.
        guard let expiry = Int64(expires), String(expiry) == expires,
            signer.verify(id.text, expiresAt: expiry, signature: signature, at: .min)
        else {
            throw UploadError(
                .unauthenticated,
                "The signature does not belong to this link; use the link exactly as this server issued it."
            )
        }
        guard now.unixSeconds < expiry else {
            throw UploadError(.unauthenticated, "This link has expired; ask for a new one.")
        }
    }
}
