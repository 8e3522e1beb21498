internal import CloudCalls
internal import Bytes
internal import Foundation
package import HTTPWire
package import ObjectGrants
internal import Signing
internal import UploadCore
internal import UploadModel

/// Tencent Cloud's Security Token Service, API version 2018-08-13: AssumeRole and GetFederationToken.
///
/// Parameters are members of a JSON object or of a form; responses are JSON, always with status 200.
///
/// Session tags, MFA devices and source identities are refused with the parameter's name.
package enum TencentTokenService {
    private static let version = "2018-08-13"
    private static let maximumPolicyBytes = 4096

    /// - Parameter parameters: Decoded, in order, numbers as strings; may include the common ones.
    /// - Returns: The request, with the vendor's default if the duration is missing.
    /// - Throws: The error in the request: `InvalidAction`, `NoSuchVersion`, `MissingParameter`, `UnknownParameter`,
    ///   `InvalidParameter.ParamError`, `.OverTimeError`, `.PolicyTooLong`, `.ResouceError`, `.StrategyFormatError`.
    package static func request(_ parameters: [(name: String, value: String)]) throws(TokenRefusal) -> TokenRequest {
        var left = TokenParameters(parameters)
        if let name = left.repeated { throw invalid("`\(name)` must occur once.") }
        guard let action = left.take("Action"), ["AssumeRole", "GetFederationToken"].contains(action) else {
            throw TokenRefusal(200, "InvalidAction", "`Action` must be AssumeRole or GetFederationToken.")
        }
        guard left.take("Version") == version else {
            throw TokenRefusal(200, "NoSuchVersion", "`Version` must be \(version).")
        }
        left.drop(commonParameters.contains)
        let request = try action == "AssumeRole" ? assumeRole(&left) : getFederationToken(&left)
        if let name = left.left {
            throw TokenRefusal(200, "UnknownParameter", "The parameter \(name) is not supported; leave it out.")
        }
        return request
    }

    private static func assumeRole(_ left: inout TokenParameters) throws(TokenRefusal) -> TokenRequest {
        let role = try role(&left)
        guard let name = left.take("RoleSessionName") else { throw missing("RoleSessionName") }
        guard TokenSyntax.isValid(name, counts: 2...128, others: "_+=,.@-") else {
            throw invalid("`RoleSessionName` must have 2 to 128 letters, digits and characters of _+=,.@-.")
        }
        let externalID = left.take("ExternalId")
        if let externalID, !TokenSyntax.isValid(externalID, counts: 2...128, others: "_+=,.@:/-") {
            throw invalid("`ExternalId` must have 2 to 128 letters, digits and characters of _+=,.@:/-.")
        }
        return TokenRequest(
            operation: .assumeRole(role),
            name: name,
            seconds: try seconds(&left, atMost: 43_200, default: 7200),
            policy: try policy(&left),
            externalID: externalID
        )
    }

    private static func getFederationToken(_ left: inout TokenParameters) throws(TokenRefusal) -> TokenRequest {
        guard let name = left.take("Name") else { throw missing("Name") }
        // Documented as letters only, but the vendor's own COS tool sends hyphens.
        guard TokenSyntax.isValid(name, counts: 1...128, others: "-_.@") else {
            throw invalid("`Name` must have 1 to 128 letters, digits and characters of -_.@.")
        }
        let seconds = try seconds(&left, atMost: 129_600, default: 1800)
        guard let policy = try policy(&left) else { throw missing("Policy") }
        return TokenRequest(operation: .getFederationToken, name: name, seconds: seconds, policy: policy)
    }

    /// The parameters of a request with signature version 3, in the form that `request` takes.
    ///
    /// - Parameter json: An object of strings and integers; no content counts as an empty object.
    /// - Returns: Numbers as strings; members that are `null` are omitted.
    /// - Throws: `InvalidParameter.ParamError`.
    package static func parameters(json: [UInt8]) throws(TokenRefusal) -> [(name: String, value: String)] {
        if json.isEmpty { return [] }
        let members: JSONMembers
        do throws(PolicyDocument.Failure) {
            members = try PolicyDocument.members(of: json)
        } catch {
            throw invalid("The content \(error.reason).")
        }
        var parameters: [(name: String, value: String)] = []
        // Sorted, so that the same one of several errors is always reported.
        for (name, value) in members.sorted(by: { $0.key < $1.key }) {
            switch value {
            case .string(let text): parameters.append((name: name, value: text))
            case .integer(let number): parameters.append((name: name, value: String(number)))
            case .null: break
            default: throw invalid("`\(name)` must be a text or a whole number, or be left out.")
            }
        }
        return parameters
    }

    /// For a grant that does not fit into a token.
    package static func refusal(_ problem: GrantTooLong) -> TokenRefusal {
        TokenRefusal(200, "InvalidParameter.PolicyTooLong", problem.message)
    }

    /// The response to a request.
    package static func response(_ credentials: SessionCredentials, requestID: String) -> Response {
        TencentCalls.response(
            Reply(
                Credentials: Credentials(
                    TmpSecretId: credentials.accessKeyID,
                    TmpSecretKey: credentials.secretAccessKey.text,
                    Token: credentials.sessionToken
                ),
                Expiration: credentials.expiresAt.formatted(.iso8601),
                ExpiredTime: credentials.expiresAt.unixSeconds,
                RequestId: requestID
            )
        )
    }

    private static let commonParameters: Set<String> = [
        "Region", "Timestamp", "Nonce", "SecretId", "Signature", "SignatureMethod", "Token", "Language",
        "RequestClient",
    ]

    /// A role by its id or its name; service roles have a prefix.
    private static func role(_ left: inout TokenParameters) throws(TokenRefusal) -> TokenRequest.Role {
        guard let text = left.take("RoleArn") else { throw missing("RoleArn") }
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        let place = (parts.last ?? "").split(separator: "/", omittingEmptySubsequences: false).map(String.init)
        guard text.utf8.count <= 2048, parts.count == 6, parts[0] == "qcs", parts[1].isEmpty, parts[2] == "cam",
            parts[3].isEmpty, parts[4].hasPrefix("uin/"), TokenSyntax.isNumber(parts[4].dropFirst(4)),
            isRole(place.dropLast()), let name = place.last,
            TokenSyntax.isValid(name, counts: 1...128, others: "_+=,.@-")
        else {
            throw TokenRefusal(
                200,
                "InvalidParameter.ResouceError",
                "`RoleArn` must look like qcs::cam::uin/100000000001:roleName/name."
            )
        }
        return TokenRequest.Role(resourceName: text, account: String(parts[4].dropFirst(4)), name: name)
    }

    private static func isRole(_ kind: ArraySlice<String>) -> Bool {
        switch Array(kind) {
        case ["role"], ["roleName"], ["role", "tencentcloudServiceRole"], ["role", "tencentcloudServiceRoleName"]: true
        default: false
        }
    }

    private static func seconds(
        _ left: inout TokenParameters,
        atMost maximum: Int,
        default: Int
    ) throws(TokenRefusal) -> Int {
        guard let text = left.take("DurationSeconds") else { return `default` }
        guard let seconds = TokenSyntax.seconds(text, in: 1...maximum) else {
            throw TokenRefusal(200, "InvalidParameter.OverTimeError", "`DurationSeconds` must be 1 to \(maximum).")
        }
        return seconds
    }

    /// The policy is percent-encoded once more than the transport requires.
    private static func policy(_ left: inout TokenParameters) throws(TokenRefusal) -> SessionPolicy? {
        guard let text = left.take("Policy") else { return nil }
        guard text.utf8.count <= 3 * maximumPolicyBytes,
            let decoded = text.utf8.first == UInt8(ascii: "{")
                ? Array(text.utf8) : PercentEncoding.decode(text.utf8, plusIsSpace: true),
            decoded.count <= maximumPolicyBytes
        else {
            throw TokenRefusal(
                200,
                "InvalidParameter.PolicyTooLong",
                "`Policy` must be percent-encoded and have at most \(maximumPolicyBytes) bytes."
            )
        }
        guard let json = String(clientText: decoded) else {
            throw TokenRefusal(200, "InvalidParameter.StrategyFormatError", "`Policy` must be in UTF-8.")
        }
        do {
            return try SessionPolicy(json, vendor: .tencent)
        } catch {
            throw TokenRefusal(200, "InvalidParameter.StrategyFormatError", error.message)
        }
    }

    private static func missing(_ name: String) -> TokenRefusal {
        TokenRefusal(200, "MissingParameter", "`\(name)` is missing.")
    }

    private static func invalid(_ message: String) -> TokenRefusal {
        TokenRefusal(200, "InvalidParameter.ParamError", message)
    }

    // Names as in the response document.

    private struct Reply: Encodable {
        let Credentials: Credentials
        let Expiration: String
        let ExpiredTime: Int64
        let RequestId: String
    }

    private struct Credentials: Encodable {
        let TmpSecretId: String
        let TmpSecretKey: String
        let Token: String
    }
}
