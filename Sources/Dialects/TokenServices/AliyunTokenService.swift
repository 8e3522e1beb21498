internal import Foundation
package import ObjectGrants
internal import Signing
internal import XMLText

/// Alibaba Cloud's Security Token Service, API version 2015-04-01: AssumeRole.
///
/// Parameters are in a query or a form, responses are JSON or XML.
package enum AliyunTokenService {
    private static let version = "2015-04-01"
    private static let maximumPolicyBytes = 2048

    /// - Parameter parameters: Decoded, in order; may include the common ones.
    /// - Returns: The request, with the vendor's default if the duration is missing.
    /// - Throws: The error in the request: `InvalidAction.NotFound`, `InvalidVersion`, `MissingParameter`,
    ///   `UnsupportedParameter`, `InvalidParameter.RoleArn`, `.RoleSessionName`, `.DurationSeconds`, `.PolicyGrammar`,
    ///   `.PolicySize`.
    package static func request(_ parameters: [(name: String, value: String)]) throws(TokenRefusal) -> TokenRequest {
        var left = TokenParameters(parameters)
        if let name = left.repeated { throw invalid(name, "must occur once.") }
        guard left.take("Action") == "AssumeRole" else {
            throw TokenRefusal(404, "InvalidAction.NotFound", "`Action` must be AssumeRole.")
        }
        guard left.take("Version") == version else {
            throw TokenRefusal(400, "InvalidVersion", "`Version` must be \(version).")
        }
        left.drop(commonParameters.contains)
        let role = try role(&left)
        guard let name = left.take("RoleSessionName") else { throw missing("RoleSessionName") }
        guard TokenSyntax.isValid(name, counts: 2...64, others: ".@-_") else {
            throw invalid("RoleSessionName", "must have 2 to 64 letters, digits and characters of .@-_.")
        }
        var seconds = 3600
        if let text = left.take("DurationSeconds") {
            guard let given = TokenSyntax.seconds(text, in: 900...43_200) else {
                throw invalid("DurationSeconds", "must be 900 to 43200.")
            }
            seconds = given
        }
        let policy = try policy(&left)
        let externalID = left.take("ExternalId")
        if let name = left.left {
            throw TokenRefusal(400, "UnsupportedParameter", "The parameter \(name) is not supported; leave it out.")
        }
        return TokenRequest(
            operation: .assumeRole(role),
            name: name,
            seconds: seconds,
            policy: policy,
            externalID: externalID
        )
    }

    /// For a grant that does not fit into a token.
    package static func refusal(_ problem: GrantTooLong) -> TokenRefusal {
        TokenRefusal(400, "InvalidParameter.PolicySize", problem.message)
    }

    /// Response formats.
    package enum Format: Sendable {
        case json, xml

        package var contentType: String {
            switch self {
            case .json: "application/json;charset=utf-8"
            case .xml: "text/xml;charset=utf-8"
            }
        }
    }

    /// The response to a request; without `AssumedRoleUser` if the request names no role.
    package static func response(
        to request: TokenRequest,
        _ credentials: SessionCredentials,
        requestID: String,
        in format: Format
    ) -> String {
        let user = AssumedRoleUser(request)
        let coded = Credentials(credentials)
        switch format {
        case .json: return encoded(Reply(AssumedRoleUser: user, Credentials: coded, RequestId: requestID))
        case .xml:
            return document(
                "AssumeRoleResponse",
                text("RequestId", requestID)
                    + (user.map {
                        element("AssumedRoleUser", text("Arn", $0.Arn) + text("AssumedRoleId", $0.AssumedRoleId))
                    } ?? "")
                    + element(
                        "Credentials",
                        text("AccessKeyId", coded.AccessKeyId) + text("AccessKeySecret", coded.AccessKeySecret)
                            + text("SecurityToken", coded.SecurityToken) + text("Expiration", coded.Expiration)
                    )
            )
        }
    }

    /// Writes an error response.
    ///
    /// - Parameters:
    ///   - refusal: The error.
    ///   - requestID: The request id, as in logs.
    ///   - host: The host of the request.
    ///   - format: The response format.
    /// - Returns: UTF-8.
    package static func response(
        _ refusal: TokenRefusal,
        requestID: String,
        host: String,
        in format: Format
    ) -> String {
        switch format {
        case .json:
            encoded(Refusal(Code: refusal.code, HostId: host, Message: refusal.message, RequestId: requestID))
        case .xml:
            document(
                "Error",
                text("RequestId", requestID) + text("HostId", host) + text("Code", refusal.code)
                    + text("Message", refusal.message)
            )
        }
    }

    private static let commonParameters: Set<String> = [
        "Format", "AccessKeyId", "Signature", "SignatureMethod", "SignatureVersion", "SignatureNonce", "SignatureType",
        "Timestamp", "SecurityToken", "RegionId",
    ]

    private static func role(_ left: inout TokenParameters) throws(TokenRefusal) -> TokenRequest.Role {
        guard let text = left.take("RoleArn") else { throw missing("RoleArn") }
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        guard text.utf8.count <= 2048, parts.count == 5, parts[0] == "acs", parts[1] == "ram", parts[2].isEmpty,
            TokenSyntax.isNumber(parts[3]), parts[4].hasPrefix("role/"),
            TokenSyntax.isValid(String(parts[4].dropFirst(5)), counts: 1...64, others: ".-_")
        else { throw invalid("RoleArn", "must look like acs:ram::1234567890123456:role/name.") }
        return TokenRequest.Role(resourceName: text, account: String(parts[3]), name: String(parts[4].dropFirst(5)))
    }

    private static func policy(_ left: inout TokenParameters) throws(TokenRefusal) -> SessionPolicy? {
        guard let text = left.take("Policy"), !text.isEmpty else { return nil }
        guard text.utf8.count <= maximumPolicyBytes else {
            throw TokenRefusal(
                400,
                "InvalidParameter.PolicySize",
                "`Policy` must have at most \(maximumPolicyBytes) bytes."
            )
        }
        do {
            return try SessionPolicy(text, vendor: .aliyun)
        } catch {
            throw TokenRefusal(400, "InvalidParameter.PolicyGrammar", error.message)
        }
    }

    private static func missing(_ name: String) -> TokenRefusal {
        TokenRefusal(400, "MissingParameter", "`\(name)` is mandatory for this action.")
    }

    private static func invalid(_ name: String, _ problem: String) -> TokenRefusal {
        TokenRefusal(400, "InvalidParameter.\(name)", "`\(name)` \(problem)")
    }

    // Names as in the response document.

    private struct Reply: Encodable {
        let AssumedRoleUser: AssumedRoleUser?
        let Credentials: Credentials
        let RequestId: String
    }

    private struct AssumedRoleUser: Encodable {
        let Arn: String
        let AssumedRoleId: String

        init?(_ request: TokenRequest) {
            guard case .assumeRole(let role) = request.operation else { return nil }
            Arn = "\(role.resourceName)/\(request.name)"
            AssumedRoleId = "\(role.id(prefix: "")):\(request.name)"
        }
    }

    private struct Credentials: Encodable {
        let AccessKeyId: String
        let AccessKeySecret: String
        let Expiration: String
        let SecurityToken: String

        init(_ credentials: SessionCredentials) {
            AccessKeyId = credentials.accessKeyID
            AccessKeySecret = credentials.secretAccessKey.text
            Expiration = credentials.expiresAt.formatted(.iso8601)
            SecurityToken = credentials.sessionToken
        }
    }

    private struct Refusal: Encodable {
        let Code: String
        let HostId: String
        let Message: String
        let RequestId: String
    }

    private static func encoded(_ value: some Encodable) -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        // Strings always encode.
        return String(decoding: (try? encoder.encode(value)) ?? Data(), as: UTF8.self)
    }

    private static func document(_ name: String, _ content: String) -> String {
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\(element(name, content))\n"
    }

    private static func element(_ name: String, _ content: String) -> String { "<\(name)>\(content)</\(name)>" }

    private static func text(_ name: String, _ value: String) -> String { element(name, xmlEscaped(value)) }
}
