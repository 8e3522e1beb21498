package import Foundation
package import Signing
package import UploadModel

/// Turns a grant into a token that an app gives to its user, and back.
///
/// The token is `slg_` and the grant as sealed JSON (`SealedToken`): its holder can neither read nor change it, and no
/// record is needed to verify it.
package struct GrantSealer: Sendable {
    /// The prefix of every token, which distinguishes it from an API key.
    package static let prefix = "slg_"

    private let keys: SealingKeyRing

    package init(master: MasterSecret) {
        keys = SealingKeyRing(master: master, purpose: "upload token v1")
    }

    /// Creates the token of `grant`.
    package func seal(_ grant: Grant) -> String {
        let encoder = JSONEncoder()
        encoder.nonConformingFloatEncodingStrategy = .convertToString(
            positiveInfinity: "inf",
            negativeInfinity: "-inf",
            nan: "nan"
        )
        // Every grant can be encoded, because infinite dates are allowed.
        let json = (try? encoder.encode(grant)) ?? Data()
        return Self.prefix + keys.seal(Array(json)).text
    }

    /// Returns the grant that was sealed.
    ///
    /// - Throws: `.unauthenticated` if this server did not create the token, or if it was changed or has expired.
    package func open(_ token: String, at now: Date) throws(UploadError) -> Grant {
        guard token.hasPrefix(Self.prefix), let sealed = SealedToken(token.dropFirst(Self.prefix.count)),
            let json = keys.open(sealed), let grant = Self.decode(json)
        else {
            throw .invalidCredential(
                "This upload token is unknown here; send one exactly as this server issued it."
            )
        }
        // Earlier versions accepted any subject.
        guard grant.subject.map(SubjectText.isValid) ?? true else {
            throw .invalidCredential("The subject of this upload token is not valid; ask for a new one.")
        }
        guard now < grant.expiresAt else {
            throw .invalidCredential("This upload token has expired; ask for a new one.")
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
