internal import Bytes

/// The Authorization field (RFC 9110 §11.6.2): a scheme and its credentials.
package struct AuthorizationHeader: Sendable, Equatable {
    /// In lower case.
    package let scheme: String
    /// The text after the scheme, without surrounding white space; can be empty.
    package let credentials: String

    /// - Returns: `nil` unless `text` begins with a token.
    package init?(_ text: some StringProtocol) {
        let trimmed = text.trimmingWhitespace()
        let scheme = trimmed.prefix { $0 != " " }
        guard FieldValueSyntax.isToken(scheme) else { return nil }
        self.scheme = scheme.lowercasedASCII()
        credentials = trimmed[scheme.endIndex...].trimmingWhitespace()
    }

    /// The token of the Bearer scheme (RFC 6750 §2.1); `nil` for another scheme or if it is not a `b64token`.
    package var bearerToken: String? {
        guard scheme == "bearer" else { return nil }
        let body = credentials.utf8.prefix { $0 != UInt8(ascii: "=") }
        let padding = credentials.utf8.dropFirst(body.count)
        guard !body.isEmpty, body.allSatisfy(Self.isTokenCharacter), padding.allSatisfy({ $0 == UInt8(ascii: "=") })
        else { return nil }
        return credentials
    }

    private static func isTokenCharacter(_ byte: UInt8) -> Bool {
        PercentEncoding.isUnreserved(byte) || byte == UInt8(ascii: "+") || byte == UInt8(ascii: "/")
    }
}
