package import CloudCalls
internal import Foundation
package import ObjectGrants
internal import Signing

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
        left.drop(AliyunCalls.commonParameters.contains)
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

    /// What the response to a request tells; without `AssumedRoleUser` if the request names no role.
    package static func document(to request: TokenRequest, _ credentials: SessionCredentials) -> AliyunDocument {
        var document = AliyunDocument()
        if case .assumeRole(let role) = request.operation {
            document.add(
                "AssumedRoleUser",
                .object(
                    AliyunDocument([
                        ("Arn", .text("\(role.resourceName)/\(request.name)")),
                        ("AssumedRoleId", .text("\(role.id(prefix: "")):\(request.name)")),
                    ])
                )
            )
        }
        document.add(
            "Credentials",
            .object(
                AliyunDocument([
                    ("AccessKeyId", .text(credentials.accessKeyID)),
                    ("AccessKeySecret", .text(credentials.secretAccessKey.text)),
                    ("SecurityToken", .text(credentials.sessionToken)),
                    ("Expiration", .text(credentials.expiresAt.formatted(.iso8601))),
                ])
            )
        )
        return document
    }

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
        let failure = AliyunCallFailure.missing(name)
        return TokenRefusal(failure.status, failure.code, failure.message)
    }

    private static func invalid(_ name: String, _ problem: String) -> TokenRefusal {
        TokenRefusal(400, "InvalidParameter.\(name)", "`\(name)` \(problem)")
    }
}
