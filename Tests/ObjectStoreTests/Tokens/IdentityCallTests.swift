internal import Bytes
import Foundation
import HTTPWire
import Signing
import SluiceTesting
import Testing
import UploadModel
import XMLText

@testable import ObjectGrants
@testable import TokenServices

/// AssumeRoleWithWebIdentity, with a verifier that knows some words instead of tokens.
@Suite("Calls with a token of an identity provider", .timeLimit(.minutes(10)))
struct IdentityCallTests {
    private struct Verifier: WebIdentityVerifier {
        func identity(
            in token: String,
            lifetime: TimeInterval,
            at now: Date
        ) async throws(WebIdentityFailure) -> WebIdentity {
            switch token {
            case "anna":
                let upload = Grant(
                    id: "grant-1",
                    issuer: "identity_1",
                    subject: "anna",
                    expiresAt: now.addingTimeInterval(min(lifetime, 1800))
                )
                return WebIdentity(
                    subject: "anna",
                    audience: "app",
                    provider: "https://login.example",
                    grant: ObjectGrant(upload: upload, bucket: "bucket-1250000000", keys: .prefix("anna/"))
                )
            case "expired": throw .expired("It has expired.")
            case "away": throw .providerAway("It is away.")
            default: throw .invalid("It is none.")
            }
        }
    }

    private static func message(_ token: String, _ more: String = "") -> TokenMessage {
        TokenMessage(
            method: "POST",
            target: "/",
            fields: [("Host", "sts.example"), ("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")],
            content: "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleSessionName=phone"
                + "&RoleArn=arn%3Aaws%3Aiam%3A%3A123456789012%3Arole%2Fuploader&WebIdentityToken=\(token)\(more)"
        )
    }

    @Test("the token suffices: nothing is signed, and the session has its subject")
    func session() async throws {
        let bench = TokenBench(identities: Verifier())
        let response = try await bench.send(Self.message("anna"))
        #expect(response.status == 200)
        #expect(response.fields["Cache-Control"] == "no-store")
        let text = try #require(response.text)
        let root = try #require(XMLNode.parse(Array(text.utf8)))
        let result = try #require(root.all("AssumeRoleWithWebIdentityResult").first)
        #expect(result["SubjectFromWebIdentityToken"] == "anna")
        #expect(result["Provider"] == "https://login.example" && result["Audience"] == "app")
        #expect(result.all("AssumedRoleUser").first?["Arn"]?.hasSuffix("assumed-role/uploader/phone") == true)
        let session = try bench.session(response, of: .aws)
        #expect(session.grant.upload.subject == "anna" && session.grant.upload.issuer == "identity_1")
        #expect(session.grant.upload.expiresAt == noon.addingTimeInterval(1800))
        #expect(session.grant.allows(.putObject, bucket: "bucket-1250000000", key: "anna/1"))
        #expect(!session.grant.allows(.putObject, bucket: "bucket-1250000000", key: "bert/1"))
        #expect(bench.mintedCount == 1)
    }

    @Test("a session policy narrows it, and so does a shorter lifetime")
    func narrowed() async throws {
        let bench = TokenBench(identities: Verifier())
        let policy =
            #"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:PutObject","Resource":"arn:aws:s3:::bucket-1250000000/anna/a*"}]}"#
        let encoded = policy.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
        let response = try await bench.send(Self.message("anna", "&DurationSeconds=900&Policy=\(encoded)"))
        let session = try bench.session(response, of: .aws)
        #expect(session.grant.upload.expiresAt == noon.addingTimeInterval(900))
        #expect(session.grant.allows(.putObject, bucket: "bucket-1250000000", key: "anna/a1"))
        #expect(!session.grant.allows(.putObject, bucket: "bucket-1250000000", key: "anna/b1"))
        #expect(!session.grant.allows(.listMultipartUploads, bucket: "bucket-1250000000", key: "anna/a"))
    }

    @Test(
        "a refused call mints nothing",
        arguments: [
            ("none", "", "InvalidIdentityToken"), ("expired", "", "ExpiredTokenException"),
            ("away", "", "IDPCommunicationError"), ("anna", "&DurationSeconds=1", "ValidationError"),
            ("anna", "&ProviderId=www.amazon.com", "ValidationError"), ("anna", "&Policy=x", "MalformedPolicyDocument"),
            ("a", "", "ValidationError"), ("anna", "&WebIdentityToken=anna", "ValidationError"),
        ]
    )
    func refused(token: String, more: String, code: String) async throws {
        let bench = TokenBench(identities: Verifier())
        let response = try await bench.send(Self.message(token, more))
        #expect(response.status == 400)
        #expect(response.trace.errorCode == code)
        #expect(response.text?.contains("<Code>\(code)</Code>") == true)
        #expect(bench.mintedCount == 0)
    }

    @Test("without a trusted provider all tokens are refused")
    func nobody() async throws {
        let bench = TokenBench()
        let response = try await bench.send(Self.message("anna"))
        #expect(response.status == 400 && response.trace.errorCode == "InvalidIdentityToken")
        #expect(bench.mintedCount == 0)
    }

}
