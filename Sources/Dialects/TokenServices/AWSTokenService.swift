internal import Bytes
internal import Foundation
package import ObjectGrants
internal import Signing
internal import XMLText

/// AWS Security Token Service, API version 2011-06-15: AssumeRole, AssumeRoleWithWebIdentity, GetFederationToken and
/// GetSessionToken.
///
/// Parameters are in a query or a form, responses are XML.
///
/// Managed policies, session tags, MFA devices and source identities are refused with the parameter's name.
package enum AWSTokenService {
    private static let version = "2011-06-15"
    private static let maximumPolicyCharacters = 2048

    /// - Parameter parameters: Decoded, in order; may include those of the signature.
    /// - Returns: The request, with the vendor's default if the duration is missing.
    /// - Throws: The error in the request: `InvalidAction`, `ValidationError`, `MalformedPolicyDocument`.
    package static func request(_ parameters: [(name: String, value: String)]) throws(TokenRefusal) -> TokenRequest {
        var left = TokenParameters(parameters)
        if let name = left.repeated { throw invalid("The parameter \(name) must occur once.") }
        let action = left.take("Action") ?? ""
        guard let version = left.take("Version"), version == Self.version else {
            throw TokenRefusal(400, "InvalidAction", "`Version` must be \(Self.version).")
        }
        left.drop { $0.lowercasedASCII().hasPrefix("x-amz-") || signatureParameters.contains($0) }
        let request: TokenRequest
        switch action {
        case "AssumeRole":
            let role = try role(&left)
            request = TokenRequest(
                operation: .assumeRole(role),
                name: try name(&left, "RoleSessionName", counts: 2...64),
                seconds: try seconds(&left, in: 900...43_200, default: 3600),
                policy: try policy(&left),
                externalID: try externalID(&left)
            )
        case "AssumeRoleWithWebIdentity":
            let role = try role(&left)
            guard let token = left.take("WebIdentityToken"), (4...20_000).contains(token.utf8.count) else {
                throw invalid("`WebIdentityToken` must have 4 to 20000 characters.")
            }
            guard left.take("ProviderId") == nil else {
                throw invalid("`ProviderId` is for tokens of OAuth 2.0; leave it out with those of OpenID Connect.")
            }
            request = TokenRequest(
                operation: .assumeRoleWithWebIdentity(role, token: token),
                name: try name(&left, "RoleSessionName", counts: 2...64),
                seconds: try seconds(&left, in: 900...43_200, default: 3600),
                policy: try policy(&left)
            )
        case "GetFederationToken":
            request = TokenRequest(
                operation: .getFederationToken,
                name: try name(&left, "Name", counts: 2...32),
                seconds: try seconds(&left, in: 900...129_600, default: 43_200),
                policy: try policy(&left)
            )
        case "GetSessionToken":
            request = TokenRequest(
                operation: .getSessionToken,
                name: "",
                seconds: try seconds(&left, in: 900...129_600, default: 43_200),
                policy: nil
            )
        default:
            throw TokenRefusal(
                400,
                "InvalidAction",
                "`Action` must be AssumeRole, AssumeRoleWithWebIdentity, GetFederationToken or GetSessionToken."
            )
        }
        if let name = left.left { throw invalid("The parameter \(name) is not supported; leave it out.") }
        return request
    }

    /// For a grant that does not fit into a token.
    package static func refusal(_ problem: GrantTooLong) -> TokenRefusal {
        TokenRefusal(400, "PackedPolicyTooLarge", problem.message)
    }

    /// Writes the response to a request.
    ///
    /// - Parameters:
    ///   - request: The granted request.
    ///   - credentials: The credentials issued for it.
    ///   - account: The account reported for a federated user; 12 digits.
    ///   - identity: The user of a verified identity token.
    ///   - requestID: The request id, as in logs.
    /// - Returns: XML in UTF-8.
    package static func response(
        to request: TokenRequest,
        _ credentials: SessionCredentials,
        account: String,
        identity: WebIdentity? = nil,
        requestID: String
    ) -> String {
        let action: String
        var members = element(
            "Credentials",
            text("AccessKeyId", credentials.accessKeyID)
                + text("SecretAccessKey", credentials.secretAccessKey.text)
                + text("SessionToken", credentials.sessionToken)
                + text("Expiration", credentials.expiresAt.formatted(.iso8601))
        )
        switch request.operation {
        case .assumeRole(let role):
            action = "AssumeRole"
            members += assumed(role, by: request.name)
        case .assumeRoleWithWebIdentity(let role, _):
            action = "AssumeRoleWithWebIdentity"
            members += assumed(role, by: request.name)
            if let identity {
                members +=
                    text("SubjectFromWebIdentityToken", identity.subject) + text("Audience", identity.audience)
                    + text("Provider", identity.provider)
            }
        case .getFederationToken:
            action = "GetFederationToken"
            members += element(
                "FederatedUser",
                text("Arn", "arn:aws:sts::\(account):federated-user/\(request.name)")
                    + text("FederatedUserId", "\(account):\(request.name)")
            )
        case .getSessionToken: action = "GetSessionToken"
        }
        if request.policy != nil {
            let share = credentials.sessionToken.utf8.count * 100 / CredentialIssuer.maximumTokenByteCount
            members += text("PackedPolicySize", "\(share)")
        }
        return document(
            "\(action)Response",
            element("\(action)Result", members) + element("ResponseMetadata", text("RequestId", requestID))
        )
    }

    /// Writes an error response.
    package static func response(_ refusal: TokenRefusal, requestID: String) -> String {
        let type = refusal.status < 500 ? "Sender" : "Receiver"
        return document(
            "ErrorResponse",
            element("Error", text("Type", type) + text("Code", refusal.code) + text("Message", refusal.message))
                + text("RequestId", requestID)
        )
    }

    /// Parameters of older signatures; those of newer ones begin with `X-Amz-`.
    private static let signatureParameters: Set<String> = [
        "AWSAccessKeyId", "Signature", "SignatureMethod", "SignatureVersion", "Timestamp", "SecurityToken",
    ]

    private static func role(_ left: inout TokenParameters) throws(TokenRefusal) -> TokenRequest.Role {
        let text = left.take("RoleArn") ?? ""
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        guard (20...2048).contains(text.utf8.count), parts.count == 6, parts[0] == "arn",
            ["aws", "aws-cn", "aws-us-gov"].contains(parts[1]), parts[2] == "iam", parts[3].isEmpty,
            parts[4].utf8.count == 12, TokenSyntax.isNumber(parts[4]), parts[5].hasPrefix("role/"),
            let name = parts[5].split(separator: "/", omittingEmptySubsequences: false).last,
            TokenSyntax.isValid(String(name), counts: 1...64, others: "_+=,.@-")
        else { throw invalid("`RoleArn` must look like arn:aws:iam::123456789012:role/name.") }
        return TokenRequest.Role(resourceName: text, account: String(parts[4]), name: String(name))
    }

    private static func name(
        _ left: inout TokenParameters,
        _ parameter: String,
        counts: ClosedRange<Int>
    ) throws(TokenRefusal) -> String {
        guard let name = left.take(parameter), TokenSyntax.isValid(name, counts: counts, others: "_+=,.@-") else {
            throw invalid(
                "`\(parameter)` must have \(counts.lowerBound) to \(counts.upperBound) letters, digits and characters "
                    + "of _+=,.@-."
            )
        }
        return name
    }

    private static func seconds(
        _ left: inout TokenParameters,
        in range: ClosedRange<Int>,
        default: Int
    ) throws(TokenRefusal) -> Int {
        guard let text = left.take("DurationSeconds") else { return `default` }
        guard let seconds = TokenSyntax.seconds(text, in: range) else {
            throw invalid("`DurationSeconds` must be \(range.lowerBound) to \(range.upperBound).")
        }
        return seconds
    }

    private static func policy(_ left: inout TokenParameters) throws(TokenRefusal) -> SessionPolicy? {
        guard let text = left.take("Policy") else { return nil }
        guard (1...maximumPolicyCharacters).contains(text.unicodeScalars.count) else {
            throw invalid("`Policy` must have 1 to \(maximumPolicyCharacters) characters.")
        }
        do {
            return try SessionPolicy(text, vendor: .aws)
        } catch {
            throw TokenRefusal(400, "MalformedPolicyDocument", error.message)
        }
    }

    private static func externalID(_ left: inout TokenParameters) throws(TokenRefusal) -> String? {
        guard let text = left.take("ExternalId") else { return nil }
        guard TokenSyntax.isValid(text, counts: 2...1224, others: "_+=,.@:/-") else {
            throw invalid("`ExternalId` must have 2 to 1224 letters, digits and characters of _+=,.@:/-.")
        }
        return text
    }

    private static func invalid(_ message: String) -> TokenRefusal { TokenRefusal(400, "ValidationError", message) }

    private static func assumed(_ role: TokenRequest.Role, by name: String) -> String {
        element(
            "AssumedRoleUser",
            text("Arn", "arn:aws:sts::\(role.account):assumed-role/\(role.name)/\(name)")
                + text("AssumedRoleId", "\(role.id(prefix: "AROA")):\(name)")
        )
    }

    private static func document(_ name: String, _ content: String) -> String {
        "<\(name) xmlns=\"https://sts.amazonaws.com/doc/\(version)/\">\(content)</\(name)>\n"
    }

    private static func element(_ name: String, _ content: String) -> String { "<\(name)>\(content)</\(name)>" }

    private static func text(_ name: String, _ value: String) -> String { element(name, xmlEscaped(value)) }
}
