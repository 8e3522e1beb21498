import Foundation
import HTTPWire
import Signing
import SluiceTesting
import Synchronization
import Testing
import UploadCore
import UploadModel

@testable import ObjectGrants
@testable import ObjectStore

@Suite("Authentication of S3 requests", .timeLimit(.minutes(10)))
struct S3AuthenticationTests {
    private let endpoint = EndpointHosts(hosts: ["s3.example.org"])
    private let issuer = CredentialIssuer(master: master(1))
    private let known = SigningCredentials(accessKeyID: "SLAKKNOWN", secretAccessKey: "secret")

    private func caller(
        _ head: RequestHead,
        at now: Date = noon,
        grace: TimeInterval = 0
    ) async throws(ObjectError) -> ObjectCaller {
        let operation = try s3Operation(head, at: endpoint)
        let authentication = ObjectAuthentication.knowing(known, grace: grace)
        return try await authentication.authenticate(head, for: operation, at: now)
    }

    private func error(_ head: RequestHead, at now: Date = noon, grace: TimeInterval = 0) async -> ObjectError? {
        do throws(ObjectError) {
            _ = try await caller(head, at: now, grace: grace)
            return nil
        } catch {
            return error
        }
    }

    @Test("credentials expire some seconds after their minting key was revoked, and not when another one was")
    func revocation() async throws {
        let clock = ManualClock(noon)
        let state = InMemoryState()
        let issuer = CredentialIssuer(master: master(1))
        for id in ["key-1", "key-2"] {
            try await state.insert(
                APIKey(id: id, name: id, scopes: [.mint], createdAt: noon, digest: Array(id.utf8))
            )
        }
        let list = RevocationList(state: state, clock: clock)
        let authentication = ObjectAuthentication(region: nil, issuer: issuer, revoked: list) { _ in nil }
        var minted = grant()
        minted.upload.issuer = "key-1"
        let credentials = try issuer.session(minted)
        func code() async throws -> ObjectErrorCode? {
            let head = try s3Signed("GET", "/bucket-1/sv/1", credentials, at: clock.now)
            let operation = try s3Operation(head, at: EndpointHosts())
            do throws(ObjectError) {
                _ = try await authentication.authenticate(head, for: operation, at: clock.now)
                return nil
            } catch {
                return error.code
            }
        }
        #expect(try await code() == nil)
        _ = try await state.revokeKey("key-2", at: clock.now)
        clock.advance(by: RevocationList.lifetime)
        #expect(try await code() == nil)
        _ = try await state.revokeKey("key-1", at: clock.now)
        #expect(try await code() == nil)
        clock.advance(by: RevocationList.lifetime)
        #expect(try await code() == .expiredToken)
    }

    @Test("credentials minted before a revocation expire, for one user or for all")
    func bulkRevocation() async throws {
        for subject in ["user-1", nil] {
            let state = InMemoryState()
            let issuer = CredentialIssuer(master: master(1))
            let list = RevocationList(state: state, clock: ManualClock(noon))
            let authentication = ObjectAuthentication(region: nil, issuer: issuer, revoked: list) { _ in nil }
            try await state.insert(Revocation(subject: subject, issuedBefore: noon, createdAt: noon))
            for (seconds, works) in [(-1.0, false), (0, true)] {
                var minted = grant()
                minted.upload.issuedAt = noon.addingTimeInterval(seconds)
                let head = try s3Signed("GET", "/bucket-1/sv/1", try issuer.session(minted), at: noon)
                let operation = try s3Operation(head, at: EndpointHosts())
                do throws(ObjectError) {
                    _ = try await authentication.authenticate(head, for: operation, at: noon)
                    #expect(works)
                } catch {
                    #expect(!works && error.code == .expiredToken)
                }
            }
        }
    }

    @Test("a key's owner is found, by header and by query")
    func holder() async throws {
        for lifetime in [nil, 60 as Int64] {
            let head = try s3Signed("GET", "/bucket-1/a", known, lifetime: lifetime)
            let caller = try await caller(head)
            #expect(caller.identity == .administrator && caller.accessKeyID == "SLAKKNOWN" && !caller.isInGrace)
            #expect(caller.claim?.lifetime == lifetime)
            #expect(caller.payload == (lifetime == nil ? .empty : .unsigned))
        }
    }

    @Test("a session's grant is found, by header and by query")
    func sessions() async throws {
        let grant = grant()
        let credentials = try issuer.session(grant)
        for lifetime in [nil, 60 as Int64] {
            let head = try s3Signed("PUT", "/bucket-1250000000/sv/a", credentials, lifetime: lifetime)
            let caller = try await caller(head)
            #expect(caller.grant == grant)
            try caller.authorize(try s3Operation(head, at: endpoint))
        }
    }

    @Test("a session with a missing, foreign or modified token is refused")
    func tokens() async throws {
        let (first, second) = (try issuer.session(grant()), try issuer.session(grant()))
        let token = try #require(first.sessionToken)
        let last = token.last == "A" ? "B" : "A"
        let wrong: [(String?, ObjectErrorCode)] = [
            (nil, .invalidAccessKeyID), ("", .invalidAccessKeyID), (second.sessionToken, .invalidToken),
            ("x", .invalidToken), (String(token.dropLast()) + last, .invalidToken),
        ]
        for (token, code) in wrong {
            for lifetime in [nil, 60 as Int64] {
                let credentials = SigningCredentials(
                    accessKeyID: first.accessKeyID,
                    secretAccessKey: first.secretAccessKey,
                    sessionToken: token
                )
                let head = try s3Signed("GET", "/bucket-1250000000/sv/a", credentials, lifetime: lifetime)
                #expect(await error(head)?.code == code)
            }
        }
        let stolen = SigningCredentials(
            accessKeyID: "SLAKKNOWN",
            secretAccessKey: "secret",
            sessionToken: first.sessionToken
        )
        #expect(await error(try s3Signed("GET", "/bucket-1/a", stolen))?.code == .invalidToken)
    }

    @Test("expired credentials are refused, except to complete an upload within the grace period")
    func expiry() async throws {
        let credentials = try issuer.session(grant(expiresAt: noon.addingTimeInterval(-10)))
        let put = try s3Signed("PUT", "/bucket-1250000000/sv/a", credentials)
        let complete = try s3Signed("POST", "/bucket-1250000000/sv/a?uploadId=1", credentials)
        #expect(await error(put)?.code == .expiredToken)
        #expect(await error(put, grace: 60)?.code == .expiredToken)
        #expect(await error(complete)?.code == .expiredToken)
        #expect(await error(complete, grace: 9)?.code == .expiredToken)
        let caller = try await caller(complete, grace: 60)
        #expect(caller.isInGrace)
        try caller.authorize(try s3Operation(complete, at: endpoint))
        #expect(
            s3Code { () throws(ObjectError) in try caller.authorize(try s3Operation(put, at: endpoint)) }
                == .expiredToken
        )
    }

    @Test("requests without a version 4 signature are refused")
    func others() async throws {
        let target = "/bucket-1/a"
        #expect(await error(try s3Head("GET", target))?.code == .accessDenied)
        let old = try s3Head("GET", target, ["Authorization": "AWS AKID:c2lnbmF0dXJl"])
        #expect(await error(old)?.code == .invalidRequest)
        #expect(await error(old)?.message.contains("Please use AWS4-HMAC-SHA256") == true)
        let query = try s3Head("GET", target + "?AWSAccessKeyId=AKID&Signature=x%3D&Expires=1")
        #expect(await error(query)?.code == .invalidRequest)
        // How to set the client is in it, and the sentence that SDKs know.
        for hint in ["Please use AWS4-HMAC-SHA256", "signature_version='s3v4'"] {
            #expect(await error(query)?.message.contains(hint) == true)
        }
        for text in ["Bearer x", "AWS4-ECDSA-P256-SHA256 Credential=x", "Basic eDp5"] {
            #expect(await error(try s3Head("GET", target, ["Authorization": text]))?.code == .invalidRequest)
        }
        let malformed = try s3Head("GET", target, ["Authorization": "AWS4-HMAC-SHA256 Credential=x, Signature=y"])
        #expect(await error(malformed)?.code == .authorizationHeaderMalformed)
        let part = try s3Head("GET", target + "?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=y")
        #expect(await error(part)?.code == .authorizationQueryParametersError)
        var both = try s3Signed("GET", target, known, lifetime: 60)
        both.fields["Authorization"] = try s3Signed("GET", target, known).fields["Authorization"]
        #expect(await error(both)?.code == .invalidArgument)
    }

    @Test("signatures of another request are refused")
    func wrong() async throws {
        let target = "/bucket-1/a"
        let unknown = SigningCredentials(accessKeyID: "SLAKOTHER", secretAccessKey: "secret")
        #expect(await error(try s3Signed("GET", target, unknown))?.code == .invalidAccessKeyID)
        let secret = SigningCredentials(accessKeyID: "SLAKKNOWN", secretAccessKey: "other")
        let mismatch = await error(try s3Signed("GET", target, secret))
        #expect(mismatch?.code == .signatureDoesNotMatch && mismatch?.details == [])
        let region = await error(try s3Signed("GET", target, known, region: "eu-central-1"))
        #expect(region?.code == .authorizationHeaderMalformed)
        #expect(region?.details == [ObjectError.Detail("Region", "us-east-1")])
        let service = await error(try s3Signed("GET", target, known, lifetime: 60, service: "sts"))
        #expect(service?.code == .authorizationQueryParametersError)

        var head = try s3Signed("PUT", target, known, fields: ["Content-Type": "video/mp4"], lifetime: 60)
        head.fields["Content-Type"] = "text/html"
        #expect(await error(head)?.code == .signatureDoesNotMatch)
        head.fields["Content-Type"] = nil
        let missing = await error(head)
        #expect(missing?.code == .signatureDoesNotMatch && missing?.message.contains("content-type") == true)
        var added = try s3Signed("PUT", target, known)
        added.fields["x-amz-acl"] = "private"
        let unsigned = await error(added)
        #expect(unsigned?.code == .accessDenied)
        #expect(unsigned?.details == [ObjectError.Detail("HeadersNotSigned", "x-amz-acl")])

        let presigned = try s3Signed("GET", target, known, lifetime: 60)
        #expect(await error(presigned, at: noon.addingTimeInterval(59))?.code == nil)
        #expect(await error(presigned, at: noon.addingTimeInterval(60))?.message == "Request has expired")
        #expect(await error(presigned, at: noon.addingTimeInterval(-901))?.code == .accessDenied)
        let plain = try s3Signed("GET", target, known)
        #expect(await error(plain, at: noon.addingTimeInterval(901))?.code == .requestTimeTooSkewed)
    }

    @Test("a failing lookup is reported")
    func failingLookUp() async throws {
        let head = try s3Signed("GET", "/bucket-1/a", known)
        let authentication = ObjectAuthentication(region: nil, issuer: issuer) { _ throws(ObjectError) in
            throw ObjectError(UploadError(.unavailable, "away"), about: .object)
        }
        let error = await #expect(throws: ObjectError.self) {
            try await authentication.authenticate(head, for: .listBuckets(BucketListing()), at: noon)
        }
        #expect(error?.code == .serviceUnavailable)
    }

    // MARK: Authorisation

    private func code(_ caller: ObjectCaller, _ method: String, _ target: String, _ fields: HTTPFields = [:]) throws
        -> ObjectErrorCode?
    {
        let operation = try s3Operation(try s3Head(method, target, fields), at: endpoint)
        return s3Code { () throws(ObjectError) in try caller.authorize(operation) }
    }

    @Test("a grant allows what it covers")
    func within() throws {
        let caller = ObjectCaller(.grant(grant()), accessKeyID: "ASIA")
        let bucket = "/bucket-1250000000"
        for (method, target) in [
            ("HEAD", bucket), ("GET", bucket + "?location"), ("GET", bucket + "?prefix=sv/"),
            ("GET", bucket + "?prefix=sv/a&list-type=2"), ("GET", bucket + "?uploads&prefix=sv/x"),
            ("POST", bucket + "?delete"), ("PUT", bucket + "/sv/a"), ("GET", bucket + "/sv/a"),
            ("GET", bucket + "/sv/a?tagging"), ("PUT", bucket + "/sv/a?tagging"),
            ("PUT", bucket + "/sv/a?uploadId=1&partNumber=1"), ("OPTIONS", "/other/x"),
        ] {
            #expect(try code(caller, method, target) == nil, "\(method) \(target)")
        }
        let inside: HTTPFields = ["x-amz-copy-source": "bucket-1250000000/sv/b"]
        #expect(try code(caller, "PUT", bucket + "/sv/a", inside) == nil)
        try caller.check(ObjectAccess(.deleteObject, bucket: "bucket-1250000000", key: "sv/x"))
    }

    @Test("a grant allows nothing else")
    func without() throws {
        let caller = ObjectCaller(.grant(grant()), accessKeyID: "ASIA")
        let bucket = "/bucket-1250000000"
        for (method, target) in [
            ("GET", "/"), ("PUT", bucket), ("DELETE", bucket), ("GET", bucket + "?cors"),
            ("PUT", bucket + "?lifecycle"),
            ("HEAD", "/bucket-2"), ("GET", bucket), ("GET", bucket + "?prefix=s"), ("GET", bucket + "?uploads"),
            ("POST", "/bucket-2?delete"), ("PUT", bucket + "/a"), ("PUT", "/bucket-2/sv/a"), ("GET", bucket + "/SV/a"),
            ("DELETE", bucket + "/a?tagging"),
        ] {
            #expect(try code(caller, method, target) == .accessDenied, "\(method) \(target)")
        }
        for source in ["bucket-2/sv/b", "bucket-1250000000/b"] {
            let fields: HTTPFields = ["x-amz-copy-source": source]
            #expect(try code(caller, "PUT", bucket + "/sv/a", fields) == .accessDenied)
            #expect(try code(caller, "PUT", bucket + "/sv/a?uploadId=1&partNumber=1", fields) == .accessDenied)
        }
        let none = ObjectCaller(.grant(grant(actions: [.getObject])), accessKeyID: "ASIA")
        #expect(try code(none, "POST", bucket + "?delete") == .accessDenied)
        #expect(try code(none, "HEAD", bucket + "/sv/a") == .accessDenied)
        #expect(try code(none, "GET", bucket + "/sv/a") == nil)
    }

    @Test("an administrator has full access")
    func administrator() throws {
        let caller = ObjectCaller(.administrator, accessKeyID: "SLAK")
        for (method, target) in [
            ("GET", "/"), ("PUT", "/bucket-1"), ("PUT", "/bucket-1?cors"), ("POST", "/b-1?delete"),
        ] {
            #expect(try code(caller, method, target) == nil)
        }
        #expect(caller.listing("x") == .include)
    }

    @Test("size and type are checked where policies require it")
    func conditions() throws {
        let policy = try SessionPolicy(
            #"{"version":"2.0","statement":[{"effect":"allow","action":"*","resource":"*","condition":"#
                + #"{"numeric_less_than_equal":{"cos:content-length":10},"string_equal":{"cos:content-type":"video/mp4"}}}]}"#,
            vendor: .tencent
        )
        let caller = ObjectCaller(.grant(grant().narrowed(by: policy)), accessKeyID: "ASIA")
        let put = ObjectOperation.putObject(ObjectName(bucket: "bucket-1250000000", key: "sv/a"))
        try caller.authorize(put, contentLength: 10, contentType: "video/mp4")
        for (length, type) in [(11, "video/mp4"), (10, "text/html"), (nil, "video/mp4"), (10, nil)]
            as [(Int64?, String?)]
        {
            #expect(
                s3Code { () throws(ObjectError) in try caller.authorize(put, contentLength: length, contentType: type) }
                    == .accessDenied
            )
        }
    }

    @Test("a listing shows only covered keys")
    func listing() {
        let prefix = ObjectCaller(.grant(grant()), accessKeyID: "ASIA")
        #expect(prefix.listing("sv/a") == .include && prefix.listing("t") == .skip)
        let only = ObjectCaller(.grant(grant(.only("sv/a"))), accessKeyID: "ASIA")
        #expect(only.listing("sv/a") == .include && only.listing("sv/a1") == .stop && only.listing("sv/A") == .skip)
    }
}

extension ObjectAuthentication {
    /// Knows one pair of keys, and the sessions of `master(1)`.
    static func knowing(
        _ credentials: SigningCredentials,
        _ identity: ObjectCaller.Identity = .administrator,
        grace: TimeInterval = 0
    ) -> ObjectAuthentication {
        ObjectAuthentication(region: "us-east-1", issuer: CredentialIssuer(master: master(1)), grace: grace) { id in
            id == credentials.accessKeyID ? KeyHolder([credentials], identity) : nil
        }
    }
}
