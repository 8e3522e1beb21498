package import Foundation
package import Signing

/// Turns a grant into a token that an app hands to its user, and back.
///
/// The token is `slg_` and the grant as JSON, sealed (`SealedToken`): its holder can neither read nor change it, and no
/// record is needed to check it.
package struct GrantSealer: Sendable {
    /// What every token begins with, so that it can be told from an API key.
    package static let prefix = "slg_"

    private let keys: SealingKeyRing

    package init(master: MasterSecret) {
        keys = SealingKeyRing(master: master, purpose: "upload token v1")
    }

    /// The token of `grant`.
    package func seal(_ grant: Grant) -> String {
        let encoder = JSONEncoder()
        encoder.nonConformingFloatEncodingStrategy = .convertToString(
            positiveInfinity: "inf",
            negativeInfinity: "-inf",
            nan: "nan"
        )
        // With infinite dates allowed, there is no grant that can not be encoded.
        let json = (try? encoder.encode(grant)) ?? Data()
        return Self.prefix + keys.seal(Array(json)).text
    }

    /// The grant that was sealed.
    ///
    /// - Throws: `.unauthenticated` if this server did not make the token, or it was changed or has expired.
    package func open(_ token: String, at now: Date) throws(UploadError) -> Grant {
        guard token.hasPrefix(Self.prefix), let sealed = SealedToken(token.dropFirst(Self.prefix.count)),
            let json = keys.open(sealed), let grant = Self.decode(json)
        else {
            throw UploadError(
                .unauthenticated,
                "This upload token is unknown here; send one exactly as this server issued it."
            )
        }
        // Earlier versions took any.
        guard grant.subject.map(SubjectText.isValid) ?? true else {
            throw UploadError(.unauthenticated, "The subject of this upload token is not valid; ask for a new one.")
        }
        guard now < grant.expiresAt else {
            throw UploadError(.unauthenticated, "This upload token has expired; ask for a new one.")
        }
        return grant
    }

    private static func decode(_ json: [UInt8]) -> Grant? {
        let decoder = JSONDecoder()
        decoder.nonConformingFloatDecodingStrategy = .convertFromString(
            positiveInfinity: "inf",
            negativeInfinity: "-inf",
            nan: "nan"
        )
        return try? decoder.decode(Grant.self, from: Data(json))
    }
}
