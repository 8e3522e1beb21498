import Foundation
import Signing
import Testing

@testable import TencentVOD

@Suite("Tencent signature issuer", .timeLimit(.minutes(10)))
struct TencentSignatureIssuerTests {
    static let credentials = TencentCredentials(
        secretID: "AKIDUfLUEUigQiXqm7CVSspKJnuaiIKtxqAv",
        secretKey: "bLcPnl88WU30VY57ipRhSePfPdOfSruK"
    )
    static let now = Date(timeIntervalSince1970: 1_700_000_000.75)

    let issuer = TencentSignatureIssuer(credentials, mode: .relay)

    func issue(_ json: String, by issuer: TencentSignatureIssuer? = nil) throws -> IssuedSignature {
        try (issuer ?? self.issuer).issue(try SignatureRequest(json: Array(json.utf8)), at: Self.now)
    }

    func verify(_ issued: IssuedSignature, at now: Int64 = 1_700_000_000) throws -> TencentUploadSignature.Parameters {
        try TencentUploadSignature.verify(
            issued.signature,
            secretKey: { $0 == Self.credentials.secretID ? Self.credentials.secretKey : nil },
            at: now
        ).parameters
    }

    func problems(_ json: String) -> [FieldProblem] {
        do {
            _ = try issue(json)
            return []
        } catch {
            return (error as? InvalidSignatureRequest)?.problems ?? []
        }
    }

    /// The value of `name` in a file of Tests/Fixtures/tencent, from the block that has the line `name = <block>`.
    func fixture(_ block: String, _ name: String) throws -> String {
        let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        let url = folder.appending(path: "Fixtures/tencent/four-implementations.txt")
        let blocks = try String(contentsOf: url, encoding: .utf8).split(separator: "\n\n")
        let lines = try #require(blocks.first { $0.contains("name = \(block)\n") }).split(separator: "\n")
        return String(try #require(lines.first { $0.hasPrefix("\(name) = ") }).dropFirst(name.count + 3))
    }

    @Test("an empty request is signed with the defaults")
    func defaults() throws {
        let issued = try issue("")
        #expect(issued.secretID == Self.credentials.secretID)
        #expect(issued.currentTimeStamp == 1_700_000_000)
        #expect(issued.expireTime == 1_700_086_400)
        let expected = TencentUploadSignature.Parameters(
            secretID: Self.credentials.secretID,
            currentTimeStamp: 1_700_000_000,
            expireTime: 1_700_086_400,
            random: issued.random
        )
        #expect(try verify(issued) == expected)
    }

    @Test(
        "V1 and V2 come out when all values are given, in both modes",
        arguments: TencentSignatureIssuer.Mode.allCases
    )
    func vectors(_ mode: TencentSignatureIssuer.Mode) throws {
        let issuer = TencentSignatureIssuer(Self.credentials, mode: mode)
        let first = try issue(
            #"{"currentTimeStamp": 1571215095, "expireTime": 1571301495, "random": 220625}"#,
            by: issuer
        )
        #expect(first.signature == (try fixture("V1", "signature")))
        #expect(first.random == 220_625)
        let second = try issue(
            #"""
            {"secretId": "AKIDUfLUEUigQiXqm7CVSspKJnuaiIKtxqAv", "currentTimeStamp": 1571215095, "expiresIn": 86400,
             "random": 220625, "classId": 0, "procedure": "LongVideoPreset", "taskPriority": 0, "taskNotifyMode": "Finish",
             "sourceContext": "{\"type\":\"1\"}", "oneTimeValid": 1, "vodSubAppId": 1500012345,
             "sessionContext": "user-42&x=中", "storageRegion": "ap-chongqing"}
            """#,
            by: issuer
        )
        #expect(second.signature == (try fixture("V2", "signature")))
    }

    @Test("the relay gets the subject as a parameter of its own, the cloud as sourceContext unless the app sets one")
    func subject() throws {
        let body = #"{"subject": "Zoë/1", "sourceContext": "mine"}"#
        let relayed = try verify(try issue(body))
        #expect(relayed.additional == [.init(name: "sluiceSubject", value: "Zoë/1")])
        #expect(relayed.sourceContext == "mine")
        let direct = try verify(try issue(body, by: TencentSignatureIssuer(Self.credentials, mode: .direct)))
        #expect(direct.additional.isEmpty)
        #expect(direct.sourceContext == "mine")
        let named = try verify(
            try issue(#"{"subject": "Zoë/1"}"#, by: TencentSignatureIssuer(Self.credentials, mode: .direct))
        )
        #expect(named.additional.isEmpty)
        #expect(named.sourceContext == "Zoë/1")
    }

    @Test("a subject that is too long for sourceContext is refused for the cloud only")
    func longSubject() throws {
        let direct = TencentSignatureIssuer(Self.credentials, mode: .direct)
        let subject = String(repeating: "a", count: 251)
        #expect(throws: Never.self) { try issue("{\"subject\": \"\(subject)\"}") }
        #expect(throws: Never.self) { try issue("{\"subject\": \"\(subject)\", \"sourceContext\": \"\"}", by: direct) }
        #expect(throws: Never.self) { try issue("{\"subject\": \"\(subject.dropLast())\"}", by: direct) }
        let error = #expect(throws: InvalidSignatureRequest.self) {
            try issue("{\"subject\": \"\(subject)\"}", by: direct)
        }
        #expect(error?.problems.map(\.field) == ["subject"])
    }

    @Test("no two signatures of one second are equal")
    func distinct() throws {
        let signatures = try (0..<2000).map { _ in try issue(#"{"oneTimeValid": true}"#) }
        #expect(Set(signatures.map(\.signature)).count == 2000)
        #expect(Set(signatures.map(\.random)).count == 2000)
    }

    @Test("concurrent requests get different numbers")
    func concurrent() async throws {
        let issuer = issuer
        let numbers = try await withThrowingTaskGroup(of: [UInt32].self) { group in
            for _ in 0..<8 {
                group.addTask { try (0..<250).map { _ in try issuer.issue(SignatureRequest(), at: Self.now).random } }
            }
            return try await group.reduce(into: []) { $0 += $1 }
        }
        #expect(Set(numbers).count == 2000)
    }

    @Test("the response has the vendor's member names")
    func encoding() throws {
        let issued = try issue(#"{"random": 7, "expiresIn": 60}"#)
        let object = try #require(
            try JSONSerialization.jsonObject(with: try JSONEncoder().encode(issued)) as? [String: Any]
        )
        #expect(Set(object.keys) == ["signature", "secretId", "currentTimeStamp", "expireTime", "random"])
        #expect(object["signature"] as? String == issued.signature)
        #expect(object["secretId"] as? String == Self.credentials.secretID)
        #expect(object["currentTimeStamp"] as? Int == 1_700_000_000)
        #expect(object["expireTime"] as? Int == 1_700_000_060)
        #expect(object["random"] as? Int == 7)
    }

    @Test(
        "values at the limits are signed",
        arguments: [
            #"{"expiresIn": 1}"#, #"{"expiresIn": 7776000}"#, #"{"expireTime": 1700000001}"#,
            #"{"expireTime": 1707776000}"#, #"{"random": 0}"#, #"{"random": 4294967295}"#,
            #"{"currentTimeStamp": 0, "expireTime": 7776000}"#, #"{"currentTimeStamp": 0}"#,
            #"{"currentTimeStamp": 1700000900}"#, #"{"currentTimeStamp": 1700000900, "expireTime": 1707776000}"#,
            #"{"procedure": "p", "taskPriority": -10}"#, #"{"procedure": "p", "taskPriority": 10}"#,
            #"{"procedure": "p", "taskNotifyMode": "Finish"}"#, #"{"procedure": "p", "taskNotifyMode": "Change"}"#,
            #"{"procedure": "p", "taskNotifyMode": "None"}"#, #"{"sourceContext": ""}"#, #"{"vodSubAppId": 0}"#,
            #"{"storageRegion": "a"}"#, #"{"classId": -9223372036854775808}"#,
            "{\"sourceContext\": \"\(String(repeating: "中", count: 250))\"}",
            "{\"sessionContext\": \"\(String(repeating: "🎬", count: 1000))\"}",
            "{\"subject\": \"\(String(repeating: "é", count: 128))\"}",
        ]
    )
    func limits(_ json: String) throws {
        let issued = try issue(json)
        #expect(try verify(issued, at: issued.currentTimeStamp).expireTime == issued.expireTime)
    }

    @Test(
        "values beyond the limits are refused with the limit",
        arguments: [
            (#"{"expiresIn": 0}"#, "expiresIn", "7776000"),
            (#"{"expiresIn": -5}"#, "expiresIn", "7776000"),
            (#"{"expiresIn": 7776001}"#, "expiresIn", "90 days"),
            (#"{"expiresIn": 9223372036854775807}"#, "expiresIn", "90 days"),
            (#"{"expiresIn": 60, "expireTime": 1700000060}"#, "expiresIn", "expireTime"),
            (#"{"expireTime": 1707776001}"#, "expireTime", "90 days"),
            (#"{"expireTime": 1700000000}"#, "expireTime", "later"),
            (#"{"expireTime": 9223372036854775807}"#, "expireTime", "90 days"),
            (#"{"expireTime": -9223372036854775808}"#, "expireTime", "later"),
            (#"{"currentTimeStamp": 1571215095, "expireTime": 1571215095}"#, "expireTime", "later"),
            (#"{"currentTimeStamp": 1571215095, "expireTime": 1578991096}"#, "expireTime", "90 days"),
            (#"{"currentTimeStamp": 1700000001, "expireTime": 1707776001}"#, "expireTime", "90 days"),
            (#"{"currentTimeStamp": 1700000001, "expiresIn": 7776000}"#, "expiresIn", "90 days"),
            (#"{"currentTimeStamp": 1700000901}"#, "currentTimeStamp", "900 seconds (limits.clockSkew)"),
            (#"{"currentTimeStamp": 1700000901, "expiresIn": 1}"#, "currentTimeStamp", "900 seconds"),
            (#"{"currentTimeStamp": 9223372036854775807}"#, "currentTimeStamp", "90 days"),
            (#"{"currentTimeStamp": -1}"#, "currentTimeStamp", "negative"),
            (#"{"currentTimeStamp": -9223372036854775808, "expireTime": 1}"#, "currentTimeStamp", "negative"),
            (#"{"random": -1}"#, "random", "4294967295"),
            (#"{"random": 4294967296}"#, "random", "4294967295"),
            (#"{"procedure": ""}"#, "procedure", "1 to 1024"),
            ("{\"procedure\": \"\(String(repeating: "中", count: 1025))\"}", "procedure", "1 to 1024"),
            (#"{"procedure": "p", "taskPriority": 11}"#, "taskPriority", "-10 to 10"),
            (#"{"procedure": "p", "taskPriority": -11}"#, "taskPriority", "-10 to 10"),
            (#"{"taskPriority": 0}"#, "taskPriority", "together with procedure"),
            (#"{"taskNotifyMode": "Finish"}"#, "taskNotifyMode", "together with procedure"),
            (#"{"procedure": "p", "taskNotifyMode": "finish"}"#, "taskNotifyMode", "Finish, Change or None"),
            (#"{"procedure": "p", "taskNotifyMode": ""}"#, "taskNotifyMode", "Finish, Change or None"),
            ("{\"sourceContext\": \"\(String(repeating: "中", count: 251))\"}", "sourceContext", "250"),
            ("{\"sessionContext\": \"\(String(repeating: "a", count: 1001))\"}", "sessionContext", "1000"),
            (#"{"vodSubAppId": -1}"#, "vodSubAppId", "negative"),
            (#"{"storageRegion": ""}"#, "storageRegion", "lower-case"),
            (#"{"storageRegion": "ap-Chongqing"}"#, "storageRegion", "lower-case"),
            (#"{"storageRegion": "ap_x"}"#, "storageRegion", "lower-case"),
            (#"{"storageRegion": "ap-x\n"}"#, "storageRegion", "lower-case"),
            (#"{"secretId": "AKIDother"}"#, "secretId", "signs with"),
            (#"{"secretId": ""}"#, "secretId", "signs with"),
            (#"{"subject": ""}"#, "subject", "1 to 256"),
            ("{\"subject\": \"\(String(repeating: "a", count: 257))\"}", "subject", "1 to 256"),
        ]
    )
    func beyondLimits(_ json: String, _ field: String, _ hint: String) {
        let found = problems(json)
        #expect(found.map(\.field) == [field])
        #expect(found.first?.message.contains(hint) == true)
    }

    @Test("all problems are reported at once, in documentation order")
    func allProblems() {
        let found = problems(
            #"""
            {"subject": "", "random": -1, "taskPriority": 99, "storageRegion": "X", "expiresIn": 0, "vodSubAppId": -1,
             "currentTimeStamp": -1, "secretId": "other", "taskNotifyMode": "x"}
            """#
        )
        #expect(
            found.map(\.field) == [
                "secretId", "currentTimeStamp", "random", "taskPriority", "taskPriority", "taskNotifyMode",
                "taskNotifyMode", "vodSubAppId", "storageRegion", "expiresIn", "subject",
            ]
        )
    }

    @Test("a signature that no upload would accept is not issued, and the field that makes it longest is named")
    func lengths() throws {
        func refused(_ json: String) throws -> [String] {
            do throws(InvalidSignatureRequest) {
                _ = try issuer.issue(try SignatureRequest(json: Array(json.utf8)), at: Self.now)
                return []
            } catch {
                return error.problems.map(\.field)
            }
        }
        // Three bytes each, of which each is percent-encoded.
        let long = String(repeating: "中", count: 1000)
        #expect(try refused("{\"sessionContext\": \"\(long)\"}").isEmpty)
        #expect(try refused("{\"procedure\": \"\(long)\"}").isEmpty)
        let shorter = long.dropLast()
        #expect(
            try refused(#"{"procedure": "\#(shorter)", "sessionContext": "\#(long)"}"#) == ["sessionContext"]
        )
        #expect(try refused(#"{"procedure": "\#(long)", "sessionContext": "\#(shorter)"}"#) == ["procedure"])
        let types = (0..<20).map { "\"video/\($0)\(String(repeating: "x", count: 1000))\"" }.joined(separator: ",")
        #expect(try refused("{\"contentTypes\": [\(types)]}") == ["contentTypes"])
        let issued = try issue("{\"sessionContext\": \"\(long)\"}")
        #expect(issued.signature.utf8.count <= 16_384)
    }

    @Test("a clock that is far off does no harm", arguments: [-1e300, -1, 0, 1e17, 1e300, .infinity, .nan])
    func clocks(_ seconds: Double) throws {
        let issued = try issuer.issue(SignatureRequest(), at: Date(timeIntervalSince1970: seconds))
        #expect(issued.expireTime - issued.currentTimeStamp == SignatureRequest.defaultLifetime)
    }

    @Test("Sluice's own credentials look like a cloud account's and follow from the master secret")
    func relayCredentials() throws {
        let master = try #require(MasterSecret(bytes: [UInt8](0..<32)))
        let credentials = TencentCredentials.relay(from: master)
        #expect(credentials == TencentCredentials.relay(from: master))
        #expect(credentials.secretID.wholeMatch(of: /AKID[0-9A-Za-z]{32}/) != nil)
        #expect(credentials.secretKey.wholeMatch(of: /[0-9A-Za-z]{32}/) != nil)
        #expect(!credentials.secretID.hasSuffix(credentials.secretKey))
        let other = TencentCredentials.relay(from: try #require(MasterSecret(bytes: [UInt8](1...32))))
        #expect(other.secretID != credentials.secretID)
        #expect(other.secretKey != credentials.secretKey)
    }

    @Test("credentials do not show their key")
    func redaction() {
        var dumped = ""
        dump(Self.credentials, to: &dumped)
        for text in ["\(Self.credentials)", String(reflecting: Self.credentials), dumped] {
            #expect(text.contains(Self.credentials.secretID))
            #expect(!text.contains(Self.credentials.secretKey))
        }
    }
}
