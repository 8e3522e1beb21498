package import Bytes

/// What is wanted of a token that tells who somebody is (OpenID Connect Core 1.0, §2 and §3.1.3.7).
package struct IdentityTokenRules: Sendable {
    /// Seconds by which the clocks of issuers may differ.
    package static let leeway: Int64 = 60
    private static let maximumSubjectByteCount = 255

    package let issuer: String
    /// Of which a token must name one.
    package let audiences: [String]

    package init(issuer: String, audiences: [String]) {
        self.issuer = issuer
        self.audiences = audiences
    }

    /// Whom a token is about.
    package struct Identity: Sendable, Equatable {
        /// 1 to 255 bytes.
        package let subject: String
        /// The one of the token's audiences that is trusted.
        package let audience: String
        package let claims: [String: JSONValue]
    }

    package enum Failure: Error, Sendable, Equatable {
        /// What to say behind "the token".
        case invalid(String)
        /// It was valid until then, Unix seconds.
        case expired(Int64)
    }

    /// Whether `token` says that it is of this issuer, which has its keys looked at.
    package func areMeant(by token: JSONWebToken) -> Bool { Self.text("iss", token) == issuer }

    /// Checks a token.
    ///
    /// - Parameters:
    ///   - token: That somebody brings.
    ///   - keys: Of the issuer, those that may have signed it.
    ///   - now: Unix seconds.
    /// - Returns: Whom it is about.
    /// - Throws: Before the signature is known to be right nothing is said about the rest.
    package func identity(in token: JSONWebToken, keys: [JSONWebKey], at now: Int64) throws(Failure) -> Identity {
        guard keys.contains(where: token.isSigned) else { throw .invalid("is not signed with a key of the issuer") }
        guard areMeant(by: token) else { throw .invalid("is that of another issuer") }
        let named: [JSONValue] =
            switch token.claims["aud"] {
            case .array(let all)?: all
            case let one?: [one]
            case nil: []
            }
        guard let audience = audiences.first(where: { named.contains(.string($0)) }) else {
            throw .invalid("is for another audience")
        }
        guard let expiry = Self.seconds("exp", token) else { throw .invalid("has no time of its end") }
        guard Double(now) < expiry + Double(Self.leeway) else { throw .expired(Int64(clamping: expiry)) }
        for name in ["nbf", "iat"] where token.claims[name] != nil {
            guard let time = Self.seconds(name, token) else { throw .invalid("has a time (\(name)) that is none") }
            guard time <= Double(now + Self.leeway) else { throw .invalid("is not valid yet; compare the clocks") }
        }
        guard let subject = Self.text("sub", token), !subject.isEmpty,
            subject.utf8.count <= Self.maximumSubjectByteCount
        else { throw .invalid("has no subject of 1 to \(Self.maximumSubjectByteCount) bytes") }
        return Identity(subject: subject, audience: audience, claims: token.claims)
    }

    private static func text(_ name: String, _ token: JSONWebToken) -> String? {
        if case .string(let text)? = token.claims[name] { text } else { nil }
    }

    /// A NumericDate (RFC 7519 §2), perhaps with a fraction.
    private static func seconds(_ name: String, _ token: JSONWebToken) -> Double? {
        switch token.claims[name] {
        case .integer(let seconds)?: Double(seconds)
        case .number(let seconds)? where seconds.isFinite: seconds
        default: nil
        }
    }
}

extension Int64 {
    /// The nearest one.
    fileprivate init(clamping seconds: Double) {
        self = Int64(exactly: seconds.rounded(.towardZero)) ?? (seconds < 0 ? .min : .max)
    }
}
