internal import Bytes
internal import Foundation
internal import HTTPWire
internal import UploadCore

/// Tencent Cloud's Security Token Service, API version 2018-08-13: GetFederationToken, by the members of a JSON object or by
/// a form, answered in JSON and always with status 200.
package enum TencentTokenService {
    private static let version = "2018-08-13"
    private static let maximumPolicyBytes = 4096

    /// - Parameter parameters: Decoded, in their order, numbers as texts; the common ones may be among them.
    /// - Returns: What is asked for, with the vendor's default where the duration is absent.
    /// - Throws: What is wrong; `InvalidAction`, `NoSuchVersion`, `MissingParameter`, `UnknownParameter`,
    ///   `InvalidParameter.ParamError`, `.OverTimeError`, `.PolicyTooLong`, `.StrategyFormatError`.
    package static func request(_ parameters: [(name: String, value: String)]) throws(TokenRefusal) -> TokenRequest {
        var left = TokenParameters(parameters)
        if let name = left.repeated { throw invalid("`\(name)` must be there once.") }
        guard left.take("Action") == "GetFederationToken" else {
            throw TokenRefusal(200, "InvalidAction", "`Action` must be GetFederationToken.")
        }
        guard left.take("Version") == version else {
            throw TokenRefusal(200, "NoSuchVersion", "`Version` must be \(version).")
        }
        left.drop(commonParameters.contains)
        guard let name = left.take("Name") else { throw missing("Name") }
        // Letters, it is said; but the vendor's own tool for COS sends hyphens.
        guard TokenSyntax.isValid(name, counts: 1...128, others: "-_.@") else {
            throw invalid("`Name` must have 1 to 128 letters, digits and characters of -_.@.")
        }
        var seconds = 1800
        if let text = left.take("DurationSeconds") {
            guard let given = TokenSyntax.seconds(text, in: 1...129_600) else {
                throw TokenRefusal(200, "InvalidParameter.OverTimeError", "`DurationSeconds` must be 1 to 129600.")
            }
            seconds = given
        }
        let policy = try policy(&left)
        if let name = left.left {
            throw TokenRefusal(200, "UnknownParameter", "The parameter \(name) is not supported; leave it out.")
        }
        return TokenRequest(operation: .getFederationToken, name: name, seconds: seconds, policy: policy)
    }

    /// The parameters of a request by version 3 of the signature, as `request` takes them.
    ///
    /// - Parameter json: An object, the members of which are texts and whole numbers; nothing is an object without members.
    /// - Returns: Numbers as texts, and no members that are `null`.
    /// - Throws: `InvalidParameter.ParamError`.
    package static func parameters(json: [UInt8]) throws(TokenRefusal) -> [(name: String, value: String)] {
        if json.isEmpty { return [] }
        let members: [String: JSONValue]
        do throws(PolicyDocument.Failure) {
            members = try PolicyDocument.members(of: json)
        } catch {
            throw invalid("The content \(error.reason).")
        }
        var parameters: [(name: String, value: String)] = []
        // In order, so that of several wrong ones always the same is told.
        for (name, value) in members.sorted(by: { $0.key < $1.key }) {
            switch value {
            case .string(let text): parameters.append((name: name, value: text))
            case .integer(let number): parameters.append((name: name, value: String(number)))
            case .null: break
            default: throw invalid("`\(name)` must be a text or a whole number.")
            }
        }
        return parameters
    }

    /// For a grant that does not fit into a token.
    package static func refusal(_ problem: GrantTooLong) -> TokenRefusal {
        TokenRefusal(200, "InvalidParameter.PolicyTooLong", problem.message)
    }

    /// The answer to a request, JSON.
    package static func response(_ credentials: SessionCredentials, requestID: String) -> String {
        encoded(
            Answer(
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

    /// The answer to a request that is refused, JSON.
    package static func response(_ refusal: TokenRefusal, requestID: String) -> String {
        encoded(Refusal(Error: Problem(Code: refusal.code, Message: refusal.message), RequestId: requestID))
    }

    private static let commonParameters: Set<String> = [
        "Region", "Timestamp", "Nonce", "SecretId", "Signature", "SignatureMethod", "Token", "Language",
        "RequestClient",
    ]

    /// The policy is percent-encoded once more than its transport needs.
    private static func policy(_ left: inout TokenParameters) throws(TokenRefusal) -> SessionPolicy {
        guard let text = left.take("Policy") else { throw missing("Policy") }
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
        guard let json = String(validating: decoded, as: UTF8.self) else {
            throw TokenRefusal(200, "InvalidParameter.StrategyFormatError", "`Policy` must be in UTF-8.")
        }
        do {
            return try SessionPolicy(json, dialect: .cos)
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

    // Members have the names of the document.

    private struct Envelope<Content: Encodable>: Encodable {
        let Response: Content
    }

    private struct Answer: Encodable {
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

    private struct Refusal: Encodable {
        let Error: Problem
        let RequestId: String
    }

    private struct Problem: Encodable {
        let Code: String
        let Message: String
    }

    private static func encoded(_ content: some Encodable) -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        // Texts and whole numbers can always be encoded.
        return String(decoding: (try? encoder.encode(Envelope(Response: content))) ?? Data(), as: UTF8.self)
    }
}
