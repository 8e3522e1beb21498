/// What the scheme Bearer says about a refused credential in WWW-Authenticate (RFC 6750 §3.1).
package enum BearerChallenge {
    /// Parameters for a credential that is malformed, unknown, expired or revoked.
    ///
    /// - Parameter description: For developers; characters that the parameter must not contain are replaced.
    /// - Returns: `error="invalid_token", error_description="…"`, to follow the scheme or another parameter.
    package static func invalidToken(_ description: String) -> String {
        var text = "error=\"invalid_token\", error_description=\""
        for scalar in description.unicodeScalars {
            switch scalar {
            case "\"": text += "'"
            case " "..."~" where scalar != "\\": text.unicodeScalars.append(scalar)
            default: text += "?"
            }
        }
        return text + "\""
    }
}
