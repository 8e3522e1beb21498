package import Foundation
package import Signing

/// Makes and checks links that let anyone download one media until a moment.
package struct MediaLinks: Sendable {
    private let signer: LinkSigner
    /// Of links of earlier versions, which do not tell who made them; they work until they expire.
    private let olderSigner: LinkSigner

    package init(master: MasterSecret) {
        signer = LinkSigner(master: master, purpose: "media link v2")
        olderSigner = LinkSigner(master: master, purpose: "media link v1")
    }

    /// What the query of a link says, as text.
    package struct Claim: Sendable {
        package var expires: String
        /// The id of the API key that made it; `nil` of an older link.
        package var issuer: String?
        /// Unix milliseconds; `nil` of an older link.
        package var issued: String?
        package var signature: String

        package init(expires: String, issuer: String?, issued: String?, signature: String) {
            self.expires = expires
            self.issuer = issuer
            self.issued = issued
            self.signature = signature
        }
    }

    /// Who made a link, and when.
    package struct Origin: Sendable, Equatable {
        /// The id of an API key; `nil` of an older link.
        package let issuer: String?
        package let issuedAt: Date
    }

    /// The query of the link: `expires=<Unix seconds>&key=<id>&issued=<Unix milliseconds>&signature=<22 characters>`.
    ///
    /// A fraction of a second of the expiry is dropped.
    ///
    /// - Parameters:
    ///   - id: The media.
    ///   - expiresAt: When it ends.
    ///   - issuer: The id of the API key that makes it, of letters, digits and `_`.
    ///   - now: When it is made.
    /// - Returns: To be put behind a question mark.
    package func query(for id: UploadID, expiresAt: Date, issuer: String, at now: Date) -> String {
        let expiry = expiresAt.unixSeconds
        let issued = String(now.unixMilliseconds)
        let signature = signer.sign(Self.text(id, issuer, issued), expiresAt: expiry)
        return "expires=\(expiry)&key=\(issuer)&issued=\(issued)&signature=\(signature)"
    }

    /// Checks the values of such a query.
    ///
    /// - Returns: What is to be looked up among what was revoked.
    /// - Throws: `.unauthenticated` if they were not made for this media, or the moment is over.
    package func verify(_ claim: Claim, for id: UploadID, at now: Date) throws(UploadError) -> Origin {
        // Before the signature is known to be right, nothing is said about the expiry.
        guard let expiry = Int64(claim.expires), String(expiry) == claim.expires,
            let origin = origin(of: claim, for: id, expiry)
        else {
            throw UploadError(
                .unauthenticated,
                "The signature does not belong to this link; use the link exactly as this server issued it."
            )
        }
        guard now.unixSeconds < expiry else {
            throw UploadError(.unauthenticated, "This link has expired; ask for a new one.")
        }
        return origin
    }

    private func origin(of claim: Claim, for id: UploadID, _ expiry: Int64) -> Origin? {
        switch (claim.issuer, claim.issued) {
        case (nil, nil):
            let isSigned = olderSigner.verify(id.text, expiresAt: expiry, signature: claim.signature, at: .min)
            return isSigned ? Origin(issuer: nil, issuedAt: .distantPast) : nil
        case (let issuer?, let issued?):
            let text = Self.text(id, issuer, issued)
            guard signer.verify(text, expiresAt: expiry, signature: claim.signature, at: .min),
                let milliseconds = Int64(issued)
            else { return nil }
            return Origin(issuer: issuer, issuedAt: Date(timeIntervalSince1970: Double(milliseconds) / 1000))
        default: return nil
        }
    }

    private static func text(_ id: UploadID, _ issuer: String, _ issued: String) -> String {
        // None of the first two has a space.
        "\(id.text) \(issuer) \(issued)"
    }
}
