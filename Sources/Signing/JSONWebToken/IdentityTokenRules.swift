package import Bytes

/// The requirements for identity tokens (OpenID Connect Core 1.0, §2 and §3.1.3.7).
package struct IdentityTokenRules: Sendable {
    /// Maximum difference to an issuer's clock in seconds.
    package static let leeway: Int64 = 60
    private static let maximumSubjectByteCount = 255

    package let issuer: String
    /// A token must name one of these.
    package let audiences: [String]
    /// Other algorithms are refused, even with a right signature.
    package let algorithms: Set<JSONWebAlgorithm>
    /// Accepted difference to the issuer's clock in seconds.
    package let leeway: Int64
    /// Longest time in seconds from `iat` to `exp`; `nil` accepts any, and a token without `iat`.
    package let maximumLifetime: Int64?

    package init(
        issuer: String,
        audiences: [String],
        algorithms: Set<JSONWebAlgorithm> = Set(JSONWebAlgorithm.allCases),
        leeway: Int64 = Self.leeway,
        maximumLifetime: Int64? = nil
    ) {
        self.issuer = issuer
        self.audiences = audiences
        self.algorithms = algorithms
        self.leeway = leeway
        self.maximumLifetime = maximumLifetime
    }

    /// The user in a token.
    package struct Identity: Sendable, Equatable {
        /// 1 to 255 bytes.
        package let subject: String
        /// The one of the token's audiences that is trusted.
        package let audience: String
        package let claims: JSONMembers
    }

    /// What every valid token has, in Unix seconds.
    package struct Validity: Sendable, Equatable {
        /// The one of the token's audiences that is trusted.
        package let audience: String
        package let expiresAt: Double
        /// `nil` if the token does not say when it was issued.
        package let issuedAt: Double?
    }

    package enum Failure: Error, Sendable, Equatable {
        /// Completes the sentence "the token …".
        case invalid(String)
        /// The token was valid until then, in Unix seconds.
        case expired(Int64)
    }

    /// Whether `token` claims to be from this issuer, so that its keys are needed.
    package func areMeant(by token: JSONWebToken) -> Bool { Self.text("iss", token)?.isExactly(issuer) ?? false }

    /// Verifies a token of a user.
    ///
    /// - Parameters:
    ///   - token: The received token.
    ///   - keys: The issuer's keys that may have signed it.
    ///   - now: Unix seconds.
    /// - Returns: The user in its claim `sub`.
    /// - Throws: The first problem. The signature is checked first, so nothing else of an unsigned token is revealed.
    package func identity(in token: JSONWebToken, keys: [JSONWebKey], at now: Int64) throws(Failure) -> Identity {
        let validity = try validity(of: token, keys: keys, at: now)
        guard let subject = Self.text("sub", token), !subject.isEmpty,
            subject.utf8.count <= Self.maximumSubjectByteCount
        else { throw .invalid("has no subject of 1 to \(Self.maximumSubjectByteCount) bytes") }
        return Identity(subject: subject, audience: validity.audience, claims: token.claims)
    }

    /// Verifies a token without its subject.
    ///
    /// - Parameters:
    ///   - token: The received token.
    ///   - keys: The issuer's keys that may have signed it.
    ///   - now: Unix seconds.
    /// - Returns: Its audience and its times.
    /// - Throws: As above.
    package func validity(of token: JSONWebToken, keys: [JSONWebKey], at now: Int64) throws(Failure) -> Validity {
        guard algorithms.contains(token.algorithm), keys.contains(where: token.isSigned) else {
            throw .invalid("is not signed with a key of its issuer")
        }
        guard areMeant(by: token) else { throw .invalid("is from another issuer") }
        let named: [JSONValue] =
            switch token.claims["aud"] {
            case .array(let all)?: all
            case let one?: [one]
            case nil: []
            }
        guard let audience = audiences.first(where: { named.contains(.string($0)) }) else {
            throw .invalid("is for another audience")
        }
        guard let expiry = Self.seconds("exp", token) else { throw .invalid("has no expiry (exp)") }
        guard Double(now) < expiry + Double(leeway) else { throw .expired(Int64(clamping: expiry)) }
        for name in ["nbf", "iat"] where token.claims[name] != nil {
            guard let time = Self.seconds(name, token) else { throw .invalid("has an invalid time (\(name))") }
            guard time <= Double(now + leeway) else { throw .invalid("is not valid yet; check both clocks") }
        }
        let issue = Self.seconds("iat", token)
        if let maximumLifetime {
            guard let issue else { throw .invalid("has no time of issue (iat)") }
            guard expiry - issue <= Double(maximumLifetime) else {
                throw .invalid("is valid for more than \(maximumLifetime) seconds, which is the most that is accepted")
            }
        }
        return Validity(audience: audience, expiresAt: expiry, issuedAt: issue)
    }

    private static func text(_ name: String, _ token: JSONWebToken) -> String? {
        if case .string(let text)? = token.claims[name] { text } else { nil }
    }

    /// A NumericDate (RFC 7519 §2); fractions are allowed.
    private static func seconds(_ name: String, _ token: JSONWebToken) -> Double? {
        switch token.claims[name] {
        case .integer(let seconds)?: Double(seconds)
        case .number(let seconds)? where seconds.isFinite: seconds
        default: nil
        }
    }
}

extension Int64 {
    /// Converts to the nearest integer in range.
    fileprivate init(clamping seconds: Double) {
        self = Int64(exactly: seconds.rounded(.towardZero)) ?? (seconds < 0 ? .min : .max)
    }
}
