package import Foundation
package import Signing
package import UploadModel

/// Creates and verifies links that let anyone download one media until a given time.
package struct MediaLinks: Sendable {
    private let signer: LinkSigner
    /// For links of earlier versions, which do not name their issuer; they work until they expire.
    private let olderSigner: LinkSigner

    package init(master: MasterSecret) {
        signer = LinkSigner(master: master, purpose: "media link v2")
        olderSigner = LinkSigner(master: master, purpose: "media link v1")
    }

    /// The values in a link's query, as text.
    package struct Claim: Sendable {
        package var expires: String
        /// The id of the API key that created it; `nil` in older links.
        package var issuer: String?
        /// Unix milliseconds; `nil` in older links.
        package var issued: String?
        package var signature: String

        package init(expires: String, issuer: String?, issued: String?, signature: String) {
            self.expires = expires
            self.issuer = issuer
            self.issued = issued
            self.signature = signature
        }
    }

    /// Who created a link, and when.
    package struct Origin: Sendable, Equatable {
        /// The id of an API key; `nil` in older links.
        package let issuer: String?
        package let issuedAt: Date
    }

    /// The query of the link: `expires=<Unix seconds>&key=<id>&issued=<Unix milliseconds>&signature=<22 characters>`.
    ///
    /// A fraction of a second of the expiry is dropped.
    ///
    /// - Parameters:
    ///   - id: The media.
    ///   - expiresAt: When the link expires.
    ///   - issuer: The id of the API key that creates it: letters, digits and `_`.
    ///   - now: The time of creation.
    /// - Returns: The text to append after a question mark.
    package func query(for id: UploadID, expiresAt: Date, issuer: String, at now: Date) -> String {
        let expiry = expiresAt.unixSeconds
        let issued = String(now.unixMilliseconds)
        let signature = signer.sign(Self.text(id, issuer, issued), expiresAt: expiry)
        return "expires=\(expiry)&key=\(issuer)&issued=\(issued)&signature=\(signature)"
    }

    /// Verifies the values of a link's query.
    ///
    /// - Returns: The origin, to be checked against revocations.
    /// - Throws: `.unauthenticated` if the values were not created for this media, or the link has expired.
    package func verify(_ claim: Claim, for id: UploadID, at now: Date) throws(UploadError) -> Origin {
        // Reveal nothing about the expiry before the signature is verified.
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
        // The id and the issuer contain no spaces.
        "\(id.text) \(issuer) \(issued)"
    }
}
