import Foundation
import HTTPWire
import Signing
import SluiceTesting
import Testing
import UploadCore
import UploadModel

@testable import CloudCalls
@testable import ObjectGrants
@testable import TokenServices

@Suite("Requests to the token services", .timeLimit(.minutes(10)))
struct TokenCallTests {
    private static let schemes: [TokenMessage.Scheme] = [.aws, .rpcQuery, .rpcForm, .acs3, .tc3, .tc1]

    @Test("there are calls of SDKs for each vendor")
    func count() {
        #expect(TokenVector.all.count { $0.vendor == .aws } == 2)
        #expect(TokenVector.all.count { $0.vendor == .aliyun } == 4)
        #expect(TokenVector.all.count { $0.vendor == .tencent } == 7)
    }

    @Test("SDK requests return the requested credentials", arguments: TokenVector.all)
    func accepted(_ vector: TokenVector) async throws {
        let bench = TokenBench()
        let response = try await bench.send(vector.message)
        #expect(response.status == 200)
        #expect(response.trace.route == "STS" && response.trace.errorCode == nil)
        #expect(response.fields["Cache-Control"] == "no-store")
        #expect(response.fields["Content-Type"] == Self.contentType(of: vector))
        #expect(bench.mintedCount == 1)
        let grant = try bench.session(response, of: vector.vendor).grant
        #expect(grant.upload.issuer == "key_a")
        #expect(grant.upload.subject == (vector.source.hasPrefix("qcloud") ? "cos-sts-python" : "alice"))
        #expect(grant.upload.expiresAt == noon.addingTimeInterval(900))
        #expect(grant.allows(.putObject, bucket: "bucket-1250000000", key: "a b/1"))
        #expect(!grant.allows(.putObject, bucket: "bucket-1250000000", key: "a/1"))
        #expect(!grant.allows(.putObject, bucket: "bucket-2", key: "a b/1"))
        #expect(!grant.allows(.deleteObject, bucket: "bucket-1250000000", key: "a b/1"))
        bench.clock.advance(by: 900)
        #expect(throws: CredentialFailure.expired(noon.addingTimeInterval(900))) {
            try bench.session(response, of: vector.vendor)
        }
    }

    private static func contentType(of vector: TokenVector) -> String {
        switch vector.vendor {
        case .aws: "text/xml"
        case .aliyun: "application/json;charset=utf-8"
        case .tencent: "application/json"
        }
    }

    @Test("nothing that SDKs sign can be modified", arguments: TokenVector.all)
    func altered(_ vector: TokenVector) async throws {
        let wrong: [Vendor: String] = [
            .aws: "403 SignatureDoesNotMatch", .aliyun: "400 SignatureDoesNotMatch",
            .tencent: "200 AuthFailure.SignatureFailure",
        ]
        let bench = TokenBench()
        let changes = [
            ("bucket-1250000000", "bucket-1250000001"), ("DurationSeconds=900", "DurationSeconds=901"),
            ("\"DurationSeconds\": 900", "\"DurationSeconds\": 901"), ("alice", "alicf"),
            ("cos-sts-python", "cos-sts-pythom"), ("SLAKKNOWN", "SLAKMINTER"),
        ]
        let altered = changes.map { vector.message.replacing($0.0, with: $0.1) }
            .filter {
                $0.target != vector.target || $0.content != vector.body || $0.fields.description.contains("SLAKM")
            }
        #expect(altered.count == 4)
        for message in altered {
            let outcome = try await bench.send(message).outcome
            #expect(outcome == wrong[vector.vendor])
        }
        #expect(bench.mintedCount == 0)
        // None of these has used up the nonce.
        #expect(try await bench.send(vector.message).status == 200)
    }

    @Test("clocks may differ as much as vendors allow", arguments: TokenVector.all)
    func skewed(_ vector: TokenVector) async throws {
        let (limit, code): (TimeInterval, String) =
            switch vector.vendor {
            case .aws: (900, "403 RequestExpired")
            case .aliyun: (900, "400 InvalidTimeStamp.Expired")
            case .tencent: (300, "200 AuthFailure.SignatureExpire")
            }
        for sign in [-1.0, 1] {
            let bench = TokenBench()
            bench.clock.advance(by: sign * limit)
            #expect(try await bench.send(vector.message).outcome == "200")
            bench.clock.advance(by: sign)
            #expect(try await bench.send(vector.message).outcome == code)
        }
    }

    @Test("a request whose signature has a nonce works once", arguments: TokenVector.all)
    func replayed(_ vector: TokenVector) async throws {
        let bench = TokenBench()
        #expect(try await bench.send(vector.message).outcome == "200")
        let hasNonce =
            vector.vendor == .aliyun
            || vector.vendor == .tencent && !vector.headers.contains { $0[0] == "X-TC-Action" }
        let expected = vector.vendor == .aliyun ? "400 SignatureNonceUsed" : "200 AuthFailure.SignatureFailure"
        for _ in 0..<2 {
            bench.clock.advance(by: 100)
            #expect(try await bench.send(vector.message).outcome == (hasNonce ? expected : "200"))
        }
        #expect(bench.mintedCount == (hasNonce ? 1 : 3))
    }

    @Test("a nonce belongs to a key, in whatever scheme, and to a timestamp in that of Tencent Cloud")
    func nonces() async throws {
        let bench = TokenBench()
        #expect(try await bench.send(.signed(.rpcForm)).outcome == "200")
        #expect(try await bench.send(.signed(.rpcForm, shift: 1)).outcome == "400 SignatureNonceUsed")
        #expect(try await bench.send(.signed(.acs3)).outcome == "400 SignatureNonceUsed")
        #expect(try await bench.send(.signed(.rpcQuery, by: TokenBench.minter)).outcome == "200")
        #expect(try await bench.send(.signed(.tc1)).outcome == "200")
        #expect(try await bench.send(.signed(.tc1)).outcome == "200 AuthFailure.SignatureFailure")
        #expect(try await bench.send(.signed(.tc1, shift: 1)).outcome == "200")
        // A day later nobody remembers it.
        bench.clock.advance(by: 86_400)
        #expect(try await bench.send(.signed(.rpcForm, shift: 86_400)).outcome == "200")
    }

    @Test("sessions can do no more than the minting key", arguments: schemes)
    func bounds(_ scheme: TokenMessage.Scheme) async throws {
        let vendor: Vendor =
            switch scheme {
            case .aws: .aws
            case .rpcQuery, .rpcForm, .acs3: .aliyun
            case .tc3, .tc1: .tencent
            }
        let policies: [Vendor: String] = [
            .aws: TokenMessage.iam, .aliyun: TokenMessage.ram, .tencent: TokenMessage.cam,
        ]
        let bench = TokenBench()
        for (credentials, issuer, mayRead) in [
            (TokenBench.minter, "key_m", false), (TokenBench.administrator, "key_a", true),
        ] {
            let message = try TokenMessage.signed(scheme, ["Policy": policies[vendor]], by: credentials)
            let grant = try bench.session(try await bench.send(message), of: vendor).grant
            #expect(grant.upload.issuer == issuer)
            #expect(grant.allows(.putObject, bucket: "b", key: "k"))
            #expect(grant.allows(.getObject, bucket: "b", key: "k") == mayRead)
            #expect(grant.allows(.deleteObject, bucket: "b", key: "k") == mayRead)
        }
    }

    @Test("Alibaba Cloud's responses are XML unless the call says otherwise or is signed in the header")
    func formats() async throws {
        let bench = TokenBench()
        let rows: [(TokenMessage.Scheme, String?, String)] = [
            (.rpcForm, nil, "text/xml;charset=utf-8"), (.rpcForm, "XML", "text/xml;charset=utf-8"),
            (.rpcQuery, "JSON", "application/json;charset=utf-8"), (.acs3, nil, "application/json;charset=utf-8"),
            (.acs3, "xml", "text/xml;charset=utf-8"),
        ]
        for (index, (scheme, format, expected)) in rows.enumerated() {
            let message = try TokenMessage.signed(scheme, ["Format": format], nonce: "\(index)")
            let response = try await bench.send(message)
            #expect(response.status == 200)
            #expect(response.fields["Content-Type"] == expected)
            _ = try bench.session(response, of: .aliyun)
            let again = try await bench.send(message)
            #expect(again.outcome == "400 SignatureNonceUsed")
            #expect(again.fields["Content-Type"] == expected)
        }
    }

    @Test("a wrong signature is refused with the text to sign, as Alibaba Cloud's SDK expects")
    func stringToSign() async throws {
        let bench = TokenBench()
        let id = TokenBench.administrator.accessKeyID
        let other = SigningCredentials(accessKeyID: id, secretAccessKey: "wrong")
        let message = try TokenMessage.signed(.rpcQuery, ["Format": "JSON"], by: other)
        let text = try #require(try await bench.send(message).text)
        let parts = text.split(separator: "server string to sign is:")
        #expect(parts.count == 2)
        #expect(parts.last?.hasPrefix("GET&%2F&AccessKeyId%3DSLAKKNOWN%26Action%3DAssumeRole%26Format%3DJSON") == true)
        let header = try await bench.send(.signed(.acs3, by: other))
        #expect(header.text?.contains("server string to sign is:ACS3-HMAC-SHA256\\n") == true)
    }

    @Test("requests to the object store are distinguished")
    func meant() throws {
        let none: [(String, String, [(String, String)])] = [
            ("GET", "/", []), ("GET", "/?list-type=2", []), ("POST", "/bucket", [("X-TC-Action", "x")]),
            ("PUT", "/", [("X-TC-Action", "x")]), ("OPTIONS", "/", [("x-acs-action", "x")]),
            ("POST", "/?delete", [("Content-Type", "application/xml")]),
            // As curl sends it for SDKs in C.
            ("POST", "/?delete", [("Content-Type", "application/x-www-form-urlencoded")]),
            ("POST", "/", [("Content-Type", "multipart/form-data; boundary=x")]),
            ("GET", "/?OSSAccessKeyId=x&Signature=y", []), ("GET", "/?q-ak=x", []), ("GET", "/k?SecretId=x", []),
            ("GET", "/", [("Authorization", "AWS4-HMAC-SHA256 Credential=x")]),
        ]
        for (method, target, fields) in none {
            let head = try TokenMessage(method: method, target: target, fields: fields, content: "").head()
            #expect(!TokenServiceHandler.isMeant(by: head), "\(method) \(target)")
        }
        let calls: [(String, String, [(String, String)])] = [
            ("GET", "/?SecretId=x", []), ("POST", "/", [("X-TC-Action", "x")]), ("POST", "/", [("x-acs-action", "x")]),
            ("GET", "/?SignatureNonce=x", []), ("POST", "/", [("Authorization", "ACS3-HMAC-SHA256 x")]),
            ("POST", "/", [("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")]),
        ]
        for (method, target, fields) in calls {
            let head = try TokenMessage(method: method, target: target, fields: fields, content: "").head()
            #expect(TokenServiceHandler.isMeant(by: head), "\(method) \(target)")
        }
    }

    @Test("nonces are forgotten only after they expire")
    func memory() {
        let nonces = UsedNonces(capacity: 2)
        #expect(nonces.use("a", of: "k", until: 1100, at: 1000) == .new)
        #expect(nonces.use("b", of: "k", until: 1200, at: 1000) == .new)
        #expect(nonces.use("a", of: "k", until: 1200, at: 1100) == .used)
        #expect(nonces.use("c", of: "k", until: 1200, at: 1100) == .full)
        // "a" is over, so its place is free, for itself or another.
        #expect(nonces.use("c", of: "k", until: 1300, at: 1161) == .new)
        #expect(nonces.use("a", of: "k", until: 1300, at: 1161) == .full)
        #expect(nonces.use("b", of: "k", until: 1300, at: 1200) == .used)
        #expect(nonces.use("b", of: "k", until: 1300, at: 1201) == .new)
    }

    @Test("services share the places, but not the nonces")
    func services() {
        let nonces = UsedNonces(capacity: 2)
        for service in ["sts", "vod"] {
            #expect(nonces.use("a", of: "k", for: service, until: 1100, at: 1000) == .new)
            #expect(nonces.use("a", of: "k", for: service, until: 1100, at: 1000) == .used)
        }
        #expect(nonces.use("a", of: "k", for: "other", until: 1100, at: 1000) == .full)
    }

    @Test("one does not take the places of others, with however many access key ids")
    func shares() {
        let nonces = UsedNonces(capacity: 5)
        func use(_ nonce: String, _ id: String, _ shares: UsedNonces.Shares, _ now: Int64 = 1000) -> UsedNonces.Outcome
        {
            nonces.use(nonce, of: id, within: shares, until: now + 100, at: now)
        }
        let eve = UsedNonces.Shares.session("s", of: "eve", from: "k", most: 2)
        #expect(use("a", "s1", eve) == .new)
        #expect(use("b", "s2", eve) == .new)
        #expect(use("c", "s3", eve) == .full)
        #expect(use("c", "s4", .session("s", of: "bob", from: "k", most: 2)) == .new)
        #expect(use("c", "k", .key("k", most: 1)) == .new)
        #expect(use("d", "k", .key("k", most: 1)) == .full)
        #expect(use("a", "s1", eve) == .used)
        #expect(use("d", "other", .all) == .new)
        #expect(use("e", "other", .all) == .full)
        // After they are forgotten.
        #expect(use("c", "s3", eve, 1161) == .new)
        #expect(use("d", "s3", eve, 1161) == .new)
        #expect(use("e", "s4", eve, 1161) == .full)
    }

    @Test(
        "users have a 64th of the usual memory each, all sessions of a key have half, and a limited key has a quarter"
    )
    func usualShares() {
        func count(_ shares: (Int) -> UsedNonces.Shares) -> Int {
            let nonces = UsedNonces()
            for number in 0..<200_000 {
                let outcome = nonces.use("n", of: "\(number)", within: shares(number), until: 2000, at: 1000)
                guard outcome == .new else { return number }
            }
            return 200_000
        }
        #expect(count { .session("\($0)", of: "eve", from: "k") } == 4096)
        #expect(count { .session("s", of: "user-\($0)", from: "k") } == 131_072)
        #expect(count { _ in .session("s", of: nil, from: "k") } == 4096)
        #expect(count { .session("\($0)", of: nil, from: "k") } == 131_072)
        #expect(count { _ in .key("k") } == 65_536)
        #expect(count { _ in .all } == 200_000)
    }

    @Test("however many users and limited keys call, an eighth is left to the app's server")
    func leftForServer() {
        let nonces = UsedNonces(capacity: 16)
        func use(_ number: Int, _ shares: UsedNonces.Shares) -> UsedNonces.Outcome {
            nonces.use("\(number)", of: "k", within: shares, until: 2000, at: 1000)
        }
        let outcomes = (0..<20).map { number in
            use(number, number % 2 == 0 ? .key("k\(number)") : .session("s", of: "u", from: "k\(number)"))
        }
        #expect(outcomes == (0..<20).map { $0 < 14 ? .new : .full })
        #expect(use(3, .key("k")) == .used)
        #expect([use(20, .all), use(21, .all), use(22, .all)] == [.new, .new, .full])
    }

    @Test("a node remembers 262,144 nonces")
    func capacity() {
        let nonces = UsedNonces()
        for number in 0..<262_144 {
            guard nonces.use("\(number)", of: "k", until: 2000, at: 1000) == .new else {
                Issue.record("nonce \(number) was not taken")
                return
            }
        }
        #expect(nonces.use("more", of: "k", until: 2000, at: 1000) == .full)
        #expect(nonces.use("0", of: "k", until: 2000, at: 1000) == .used)
    }
}
