import Foundation
import HTTPWire
import Signing
import Testing
import UploadCore
import UploadModel

@testable import ObjectGrants
@testable import ObjectStore
@testable import Presigning

@Suite("presigned URLs and forms", .timeLimit(.minutes(10)))
struct PresigningTests {
    private static let upload = "01jd3v0m5xq4n8e2r7t9w6y1zk"
    private static let operations: [PresignedOperation] = [
        .getObject, .headObject, .putObject, .deleteObject, .uploadPart(10_000, uploadID: upload),
        .listParts(uploadID: upload), .completeMultipartUpload(uploadID: upload),
        .abortMultipartUpload(uploadID: upload),
    ]
    /// Each contains something that URLs encode specially.
    private static let keys = [
        "a/1.mp4", "a/ü 1+2&=?#%41;.mp4", "a//b/", "a/'()*!~$,:@", "a/🦥", "a/b%2Fc", "a?uploads", "a/+ +",
    ]

    private func presigner(_ vendor: Vendor, _ issuer: CredentialIssuer) -> ObjectPresigner {
        ObjectPresigner(issuer: issuer, vendor: vendor, origin: "http://s3.example.org", region: "us-east-1")
    }

    /// Valid for sixty seconds from noon.
    private func grant() -> Grant {
        Grant(
            id: "grant-1",
            subject: "user-1",
            maximumBytes: 9,
            contentTypes: ["video/mp4"],
            expiresAt: noon.addingTimeInterval(60),
            metadata: ["album": "7"]
        )
    }

    /// The request that a holder of the URL sends.
    private func head(_ signed: PresignedRequest) throws -> RequestHead {
        var fields: HTTPFields = [:]
        for header in signed.headers { fields.append(try #require(FieldName(header.name)), header.value) }
        let prefix = "http://s3.example.org"
        #expect(signed.url.hasPrefix(prefix + "/"))
        return try s3Head(signed.method, String(signed.url.dropFirst(prefix.count)), fields)
    }

    // MARK: Each scheme

    @Test("each scheme's verifier accepts them, until they expire and only for what was signed", arguments: keys)
    func verified(key: String) throws {
        let issuer = CredentialIssuer(master: master(1))
        let name = ObjectName(bucket: "bucket-1", key: key)
        for vendor in Vendor.allCases {
            for operation in Self.operations {
                let headers = operation == .putObject ? [SigningField("Content-Type", "video/mp4")] : []
                let signed = try presigner(vendor, issuer)
                    .request(operation, name, headers: headers, under: grant(), at: noon)
                let head = try head(signed)
                #expect(try verify(head, name, vendor, issuer, at: 0) == [operation.action])
                #expect(try verify(head, name, vendor, issuer, at: 59) == [operation.action])
                #expect(throws: (any Error).self) { try verify(head, name, vendor, issuer, at: 61) }
                var other = head
                other.method = operation.method == "GET" ? .put : .get
                #expect(throws: RequestSignatureFailure.wrongSignature) {
                    try verify(other, name, vendor, issuer, at: 0)
                }
                if operation == .putObject {
                    other = head
                    other.fields["Content-Type"] = "text/html"
                    #expect(throws: RequestSignatureFailure.wrongSignature) {
                        try verify(other, name, vendor, issuer, at: 0)
                    }
                }
                let elsewhere = ObjectName(bucket: "bucket-1", key: key + "x")
                other = head
                other.target = try RequestTarget(
                    parsing: SigningRequest.path(of: "/bucket-1/\(key)x") + "?" + (head.target.rawQuery ?? "")
                )
                #expect(throws: RequestSignatureFailure.wrongSignature) {
                    try verify(other, elsewhere, vendor, issuer, at: 0)
                }
            }
        }
    }

    /// Verifies the signature of a request.
    ///
    /// - Returns: The session behind its token.
    private func verify(
        _ head: RequestHead,
        _ name: ObjectName,
        _ vendor: Vendor,
        _ issuer: CredentialIssuer,
        at seconds: Int64
    ) throws -> Set<ObjectAction> {
        let now = noon.unixSeconds + seconds
        let request = try SigningRequest(head)
        func open(_ id: String, _ token: String?) throws -> (SigningCredentials, ObjectGrant) {
            #expect(AccessKeyID.vendor(of: id) == vendor)
            let date = Date(timeIntervalSince1970: Double(now))
            let session = try issuer.open(accessKeyID: id, token: token, at: date)
            let credentials = SigningCredentials(
                accessKeyID: id,
                secretAccessKey: session.secretAccessKey.text,
                sessionToken: token
            )
            return (credentials, session.grant)
        }
        let grant: ObjectGrant
        switch vendor {
        case .aws:
            let verifier = SigV4Verifier(region: "us-east-1")
            let claim = try verifier.claim(request, at: now)
            let (credentials, opened) = try open(claim.accessKeyID, claim.token)
            grant = opened
            _ = try verifier.verify(claim, credentials: credentials)
        case .aliyun:
            let verifier = OSSVerifier(region: "us-east-1") { HTTPDate.parse($0) }
            let claim = try verifier.claim(request, at: now)
            #expect(claim.version == .v4)
            let (credentials, opened) = try open(claim.accessKeyID, claim.token)
            grant = opened
            let resource = OSSResource(bucket: name.bucket, key: name.key)
            _ = try verifier.verify(claim, resources: [resource], credentials: credentials)
        case .tencent:
            let verifier = COSVerifier()
            let claim = try verifier.claim(request, at: now)
            #expect(claim.signedHeaders.contains("host"))
            #expect(Set(["uploadid", "partnumber"]).isSuperset(of: claim.signedParameters))
            #expect(claim.signedParameters.count == request.query.count(where: { !$0.name.hasPrefix("q-") }) - 1)
            let (credentials, opened) = try open(claim.secretID, claim.token)
            grant = opened
            try verifier.verify(claim, credentials: credentials)
        }
        #expect(grant.bucket == name.bucket)
        #expect(grant.keys == .only(name.key))
        #expect(grant.upload.maximumBytes == (grant.actions == [.putObject] ? 9 : nil))
        return grant.actions
    }

    @Test("part URLs belong to one session, in order")
    func parts() throws {
        let issuer = CredentialIssuer(master: master(1))
        let name = ObjectName(bucket: "bucket-1", key: "a/1")
        for vendor in Vendor.allCases {
            let signed = try presigner(vendor, issuer)
                .parts([3, 1, 2], of: Self.upload, name, under: grant(), at: noon)
            #expect(signed.map(\.method) == ["PUT", "PUT", "PUT"])
            for (number, part) in zip([3, 1, 2], signed) {
                let head = try head(part)
                let query = try head.target.queryItems()
                #expect(query.first("partNumber") == String(number))
                #expect(query.first("uploadId") == Self.upload)
                #expect(try verify(head, name, vendor, issuer, at: 0) == [.uploadPart])
            }
        }
    }

    @Test("a URL lasts at least a second, and at most as long as vendors allow")
    func lifetimes() throws {
        let presigner = presigner(.aws, CredentialIssuer(master: master(1)))
        var grant = grant()
        for (end, seconds) in [(noon.addingTimeInterval(-9), "1"), (.distantFuture, "604800")] {
            grant.expiresAt = end
            let signed = try presigner.request(
                .getObject,
                ObjectName(bucket: "bucket-1", key: "a"),
                under: grant,
                at: noon
            )
            #expect(try head(signed).target.queryItems().first("X-Amz-Expires") == seconds)
        }
    }

    // MARK: Forms

    /// The form as a page sends it, with additional fields.
    private func filled(
        _ form: PresignedForm,
        _ vendor: Vendor,
        _ changes: [String: String] = [:]
    ) throws -> PostForm {
        var fields = form.fields.filter { changes[$0.name] == nil }.map { (name: $0.name, value: $0.value) }
        fields += changes.map { (name: $0.key, value: $0.value) }
        return try PostForm(fields, fileName: "dir\\f.txt", vendor: vendor)
    }

    @Test("a signed form for S3 is accepted, with the file name after the prefix")
    func formOfS3() async throws {
        let issuer = CredentialIssuer(master: master(1))
        let authentication = ObjectAuthentication(region: "us-east-1", issuer: issuer) { _ in nil }
        let signed = try presigner(.aws, issuer).form(
            "bucket-1",
            .prefix("a/"),
            contentType: "image/*",
            fields: [SigningField("success_action_status", "201")],
            under: grant(),
            at: noon
        )
        let form = signed
        #expect(form.url == "http://s3.example.org/bucket-1/")
        #expect(form.fields.first { $0.name == "Content-Type" } == nil)
        let whole = try filled(form, .aws, ["Content-Type": "image/png"])
        #expect(whole["key"] == "a/f.txt")
        let (caller, policy, _) = try await authentication.authenticate(whole, bucket: "bucket-1", at: noon)
        #expect(caller.grant?.actions == [.postObject])
        #expect(caller.grant?.keys == .prefix("a/"))
        #expect(caller.uploadGrant.metadata == ["album": "7"])
        #expect(policy.contentLengths == 0...9)
        #expect(policy.expiresAt == noon.addingTimeInterval(60))
        let refused: [([String: String], String)] = [
            (["Content-Type": "text/html"], "bucket-1"), (["key": "b/1"], "bucket-1"), ([:], "bucket-2"),
            (["x-amz-meta-a": "1"], "bucket-1"), (["success_action_status": "200"], "bucket-1"),
            (["x-amz-signature": String(repeating: "0", count: 64)], "bucket-1"),
        ]
        for (changes, bucket) in refused {
            let other = try filled(form, .aws, ["Content-Type": "image/png"].merging(changes) { $1 })
            await #expect(throws: ObjectError.self, "\(changes) \(bucket)") {
                _ = try await authentication.authenticate(other, bucket: bucket, at: noon)
            }
        }
        await #expect(throws: ObjectError.self) {
            _ = try await authentication.authenticate(whole, bucket: "bucket-1", at: noon.addingTimeInterval(60))
        }
    }

    @Test("a signed form for OSS is accepted")
    func formOfOSS() throws {
        let issuer = CredentialIssuer(master: master(1))
        let name = ObjectGrant.Keys.only("a/1.mp4")
        let signed = try presigner(.aliyun, issuer)
            .form("bucket-1", name, contentType: "video/mp4", under: grant(), at: noon)
        let form = signed
        let verifier = OSSVerifier(region: "us-east-1") { HTTPDate.parse($0) }
        let claim = try verifier.claim(form: form.fields, at: noon.unixSeconds)
        let session = try issuer.open(accessKeyID: claim.accessKeyID, token: claim.token, at: noon)
        let credentials = SigningCredentials(
            accessKeyID: claim.accessKeyID,
            secretAccessKey: session.secretAccessKey.text,
            sessionToken: claim.token
        )
        try verifier.verify(claim, credentials: credentials)
        let policy = try PostPolicy(base64: claim.policy, vendor: .aliyun)
        try policy.check(try filled(form, .aliyun), bucket: "bucket-1", at: noon)
        for changes in [["key": "a/2.mp4"], ["Content-Type": "text/html"], ["x-oss-security-token": "other"]] {
            #expect(throws: PostPolicyProblem.self) {
                try policy.check(try filled(form, .aliyun, changes), bucket: "bucket-1", at: noon)
            }
        }
    }

    @Test("a signed form for COS is accepted")
    func formOfCOS() throws {
        let issuer = CredentialIssuer(master: master(1))
        let form = try presigner(.tencent, issuer)
            .form("bucket-1", .prefix("a/"), contentType: "video/mp4", under: grant(), at: noon)
        let verifier = COSVerifier()
        let claim = try verifier.claim(form: form.fields, at: noon.unixSeconds)
        let session = try issuer.open(accessKeyID: claim.secretID, token: claim.token, at: noon)
        let credentials = SigningCredentials(
            accessKeyID: claim.secretID,
            secretAccessKey: session.secretAccessKey.text,
            sessionToken: claim.token
        )
        try verifier.verify(claim, credentials: credentials)
        let policy = try PostPolicy(base64: claim.policy, vendor: .tencent)
        let whole = try filled(form, .tencent)
        #expect(whole["key"] == "a/f.txt")
        try policy.check(whole, bucket: "bucket-1", at: noon)
        for changes in [["key": "b/2.mp4"], ["Content-Type": "text/html"], ["q-key-time": "1;2"], ["q-ak": "other"]] {
            #expect(throws: PostPolicyProblem.self, "\(changes)") {
                try policy.check(try filled(form, .tencent, changes), bucket: "bucket-1", at: noon)
            }
        }
        #expect(throws: RequestSignatureFailure.expired) {
            _ = try verifier.claim(form: form.fields, at: noon.unixSeconds + 61)
        }
    }

    @Test(
        "a policy for COS must name who signed it, by what and until when",
        arguments: ["q-sign-algorithm", "q-ak", "q-sign-time"]
    )
    func demandedInCOS(_ name: String) throws {
        let conditions = ["q-sign-algorithm": "sha1", "q-ak": "AKID", "q-sign-time": "1;2"].filter { $0.key != name }
        let json = try JSONEncoder().encode([conditions])
        let text = "{\"expiration\":\"2100-01-01T00:00:00Z\",\"conditions\":\(String(decoding: json, as: UTF8.self))}"
        let policy = try PostPolicy(base64: Data(text.utf8).base64EncodedString(), vendor: .tencent)
        let form = try PostForm(
            [("key", "a"), ("q-sign-algorithm", "sha1"), ("q-ak", "AKID"), ("q-key-time", "1;2")],
            fileName: ""
        )
        #expect(throws: PostPolicyProblem.fieldNotCovered(name)) {
            try policy.check(form, bucket: "bucket-1", at: Date(timeIntervalSince1970: 0))
        }
    }

    @Test("the form states any allowed media type")
    func mediaTypesOfForms() throws {
        let presigner = presigner(.aws, CredentialIssuer(master: master(1)))
        let cases: [(String?, String, Bool)] = [
            (nil, "text/html", true), ("*/*", "text/html", true), ("text/*", "text/html", true),
            ("text/*", "image/png", false), ("text/plain", "text/plain", true), ("text/plain", "text/html", false),
        ]
        for (allowed, sent, isTaken) in cases {
            let signed = try presigner.form("bucket-1", .only("a"), contentType: allowed, under: grant(), at: noon)
            let form = try filled(signed, .aws, ["Content-Type": sent])
            let policy = try PostPolicy(base64: try #require(form["policy"]), vendor: .aws)
            if isTaken {
                try policy.check(form, bucket: "bucket-1", at: noon)
            } else {
                #expect(throws: PostPolicyProblem.self) { try policy.check(form, bucket: "bucket-1", at: noon) }
            }
        }
    }

    // MARK: At the endpoint

    @Test("an upload by part URLs, up to the complete object; they allow nothing else")
    func uploadByParts() async throws {
        let bench = try await ObjectBench()
        let presigner = presigner(.aws, bench.issuer)
        let uploads = MultipartUploads(uploads: bench.services.uploads, parts: bench.services.parts)
        let name = ObjectName(bucket: "bucket-1", key: "a/b c")
        let upload = try await uploads.begin(name, S3ObjectHeaders(contentType: "video/mp4"), under: grant())
        let id = upload.id.text
        #expect(try await uploads.find(id, of: name) == upload)
        let part = try #require(try presigner.parts([1], of: id, name, under: grant(), at: noon).first)
        var sent = try head(part)
        sent.fields["Content-Length"] = "5"
        #expect(await bench.send(sent, Array("12345".utf8)).outcome == "200")
        sent.fields["Content-Length"] = "10"
        #expect(await bench.send(sent, Array("1234567890".utf8)).outcome == "400 EntityTooLarge")
        let list = try presigner.request(.listParts(uploadID: id), name, under: grant(), at: noon)
        let listing = await bench.send(try head(list))
        #expect(listing.text?.contains("827ccb0eea8a706c4c34a16891f84e7b") == true)
        let body = Array(
            """
            <CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>827ccb0eea8a706c4c34a16891f84e7b</ETag></Part>\
            </CompleteMultipartUpload>
            """.utf8
        )
        var complete = try head(
            presigner.request(.completeMultipartUpload(uploadID: id), name, under: grant(), at: noon)
        )
        complete.fields["Content-Length"] = String(body.count)
        #expect(await bench.send(complete, body).outcome == "200")
        let object = try await bench.services.objects.object(name)
        #expect(object?.size == 5)
        #expect(object?.metadata["album"] == "7")
        #expect(object?.contentType == "video/mp4")
        let missing = ObjectName(bucket: "bucket-1", key: "a/other")
        await #expect(throws: UploadError.self) { try await uploads.find(id, of: missing, isOpen: false) }
        await #expect(throws: UploadError.self) { try await uploads.find(id, of: name) }
        await #expect(throws: UploadError.self) { try await uploads.find("no-id", of: name) }
    }

    @Test("a token from a URL allows only what the URL does")
    func tokensOfURLs() async throws {
        let bench = try await ObjectBench()
        let name = ObjectName(bucket: "bucket-1", key: "a/1")
        let signed = try presigner(.aws, bench.issuer).request(.putObject, name, under: grant(), at: noon)
        let query = try head(signed).target.queryItems()
        let id = try #require(query.first("X-Amz-Credential")?.split(separator: "/").first.map { String($0) })
        let token = try #require(query.first("X-Amz-Security-Token"))
        let secret = try bench.issuer.open(accessKeyID: id, token: token, at: noon).secretAccessKey.text
        // As if the secret were known.
        let credentials = SigningCredentials(accessKeyID: id, secretAccessKey: secret, sessionToken: token)
        for (method, target) in [
            ("GET", "/bucket-1/a/1"), ("HEAD", "/bucket-1/a/1"), ("DELETE", "/bucket-1/a/1"),
            ("PUT", "/bucket-1/a/2"), ("PUT", "/bucket-2/a/1"), ("POST", "/bucket-1/a/1?uploads"),
            ("GET", "/bucket-1"), ("GET", "/"), ("PUT", "/bucket-1/a/1?partNumber=1&uploadId=\(Self.upload)"),
        ] {
            #expect(
                try await bench.send(method, target, credentials).outcome == "403 AccessDenied",
                "\(method) \(target)"
            )
        }
        let body = Array("1".utf8)
        let typed: HTTPFields = ["Content-Type": "video/mp4"]
        #expect(
            try await bench.send("PUT", "/bucket-1/a/1", credentials, typed, content: body).outcome == "200"
        )
    }
}
