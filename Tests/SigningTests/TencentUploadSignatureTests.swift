import Bytes
import Digests
import Testing

@testable import Signing

@Suite("Tencent upload signature", .timeLimit(.minutes(10)))
struct TencentUploadSignatureTests {
    typealias Signature = TencentUploadSignature

    static let secretID = "AKIDUfLUEUigQiXqm7CVSspKJnuaiIKtxqAv"
    static let secretKey = "bLcPnl88WU30VY57ipRhSePfPdOfSruK"
    /// A time at which V1 to V4 are valid.
    static let now: Int64 = 1_571_215_100

    static let minimal = Signature.Parameters(
        secretID: secretID,
        currentTimeStamp: 1_571_215_095,
        expireTime: 1_571_301_495,
        random: 220_625
    )

    static let full = Signature.Parameters(
        secretID: secretID,
        currentTimeStamp: 1_571_215_095,
        expireTime: 1_571_301_495,
        random: 220_625,
        classID: 0,
        procedure: "LongVideoPreset",
        taskPriority: 0,
        taskNotifyMode: "Finish",
        sourceContext: #"{"type":"1"}"#,
        oneTimeValid: true,
        vodSubAppID: 1_500_012_345,
        sessionContext: "user-42&x=中",
        storageRegion: "ap-chongqing"
    )

    /// Signs `original` unchanged, with the key of the vectors.
    func signed(_ original: String) -> String {
        Signature.sign(original: Array(original.utf8), with: Signature.Key(Self.secretKey))
    }

    func verify(_ signature: String, at now: Int64 = now) throws(SignatureFailure) -> Signature.Verified {
        try Signature.verify(
            signature,
            secretKey: { [Self.secretID, "AKIDtest"].contains($0) ? Self.secretKey : nil },
            at: now
        )
    }

    @Test("there are six vectors")
    func vectorCount() {
        #expect(TencentVector.all.map(\.name) == ["vod-ugc-upload-guide", "cos-v4-sdk", "V1", "V2", "V3", "V4"])
    }

    @Test("the published originals produce the published signatures", arguments: TencentVector.all)
    func rawConstruction(_ vector: TencentVector) throws {
        let key = Signature.Key(vector.secretKey)
        #expect(Signature.sign(original: Array(vector.original.utf8), with: key) == vector.signature)
        let parsed = try Signature.parse(vector.signature)
        #expect(parsed.code == vector.code)
        #expect(parsed.original == Array(vector.original.utf8))
    }

    @Test("parameters are written as in V1 and V2")
    func signing() throws {
        #expect(Signature.sign(Self.minimal, secretKey: Self.secretKey) == (try TencentVector.named("V1")).signature)
        #expect(Signature.sign(Self.full, secretKey: Self.secretKey) == (try TencentVector.named("V2")).signature)
    }

    @Test("V1 and V2 verify and yield the signed parameters")
    func verifying() throws {
        for (name, parameters) in [("V1", Self.minimal), ("V2", Self.full)] {
            let vector = try TencentVector.named(name)
            let verified = try verify(vector.signature)
            #expect(verified.parameters == parameters)
            #expect(verified.code == vector.code)
        }
    }

    @Test("V3 and V4, two encodings of one value, verify and mean the same")
    func encodings() throws {
        let third = try verify(try TencentVector.named("V3").signature)
        let fourth = try verify(try TencentVector.named("V4").signature)
        #expect(third.parameters.sourceContext == "a b")
        #expect(third.parameters == fourth.parameters)
        #expect(third.code != fourth.code)
    }

    @Test("the order of the parameters does not matter")
    func order() throws {
        let pairs = try TencentVector.named("V2").original.split(separator: "&")
        for shift in pairs.indices {
            let original = (pairs[shift...] + pairs[..<shift]).reversed().joined(separator: "&")
            #expect(try verify(signed(original)).parameters == Self.full)
        }
    }

    @Test("an optional parameter without a value is not there")
    func emptyParameters() throws {
        let names = [
            "classId", "procedure", "taskPriority", "taskNotifyMode", "sourceContext", "oneTimeValid", "vodSubAppId",
            "sessionContext", "storageRegion",
        ]
        let original = try TencentVector.named("V1").original
        let empty = names.map { "&\($0)=" }.joined()
        #expect(try verify(signed(original + empty)).parameters == verify(signed(original)).parameters)
    }

    @Test("unknown parameters are kept and do no harm")
    func unknownParameters() throws {
        let parameters = try verify(signed(try TencentVector.named("V1").original + "&sluiceSubject=a%2Fb&x="))
            .parameters
        #expect(parameters.additional == [.init(name: "sluiceSubject", value: "a/b"), .init(name: "x", value: "")])
    }

    @Test(
        "any text survives signing and verifying",
        arguments: ["", " ", "+", "%", "a&b=c", "中文 🎬", "\u{0}\n\r\t", "%41", "a+b%20c", "~-._!*'()", "é"]
    )
    func texts(_ text: String) throws {
        var parameters = Self.full
        parameters.sourceContext = text
        parameters.sessionContext = text + text
        parameters.procedure = text
        parameters.additional = [.init(name: "x \(text)", value: text)]
        let verified = try verify(Signature.sign(parameters, secretKey: Self.secretKey)).parameters
        if text.isEmpty {
            (parameters.sourceContext, parameters.sessionContext, parameters.procedure) = (nil, nil, nil)
        }
        #expect(verified == parameters)
    }

    @Test("extreme integers survive signing and verifying")
    func integers() throws {
        var parameters = Self.full
        parameters.random = .max
        parameters.classID = .min
        parameters.taskPriority = -10
        parameters.vodSubAppID = .max
        parameters.oneTimeValid = false
        #expect(try verify(Signature.sign(parameters, secretKey: Self.secretKey)).parameters == parameters)
    }

    @Test("a changed character anywhere is refused")
    func changes() throws {
        let signature = try TencentVector.named("V1").signature
        for index in signature.utf8.indices {
            var changed = Array(signature.utf8)
            let position = signature.utf8.distance(from: signature.utf8.startIndex, to: index)
            changed[position] = changed[position] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
            #expect(throws: SignatureFailure.self) { try verify(String(decoding: changed, as: UTF8.self)) }
        }
    }

    @Test("the wrong key is refused")
    func wrongKey() {
        let signature = Signature.sign(Self.minimal, secretKey: "another")
        #expect(throws: SignatureFailure.wrongCode) { try verify(signature) }
        #expect(throws: SignatureFailure.unknownSecretID) {
            try Signature.verify(signature, secretKey: { _ in nil }, at: Self.now)
        }
    }

    @Test("text that is not strict base64 is refused")
    func base64() throws {
        let signature = try TencentVector.named("V2").signature
        let bad = [
            "*", "not base64", signature + "\n", " " + signature, String(signature.dropLast()), signature + "=",
            signature.replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: ""),
            // The last character has bits that belong to no byte.
            signature.replacing("bmc=", with: "bmd="),
        ]
        for text in bad where text != signature {
            #expect(throws: SignatureFailure.notBase64) { try verify(text) }
        }
        #expect(throws: SignatureFailure.tooShort) { try verify("") }
        #expect(throws: SignatureFailure.tooShort) { try verify(Base64.encode([UInt8](repeating: 65, count: 20))) }
        #expect(throws: SignatureFailure.malformed) { try verify(Base64.encode([UInt8](repeating: 65, count: 21))) }
    }

    @Test(
        "an original that is not form-encoded is refused",
        arguments: ["a", "a=1&", "&a=1", "a=1&&b=2", "=1", "a=%", "a=%4", "a=%zz", "a=%FF", "%C3=1", "a=1&b"]
    )
    func malformed(_ original: String) {
        #expect(throws: SignatureFailure.malformed) { try verify(signed(original)) }
        #expect(throws: SignatureFailure.malformed) { try Signature.parse(signed(original)) }
    }

    @Test("a value that is not UTF-8 is refused")
    func notUTF8() {
        let bytes = Array("secretId=a&x=".utf8) + [0xC3, 0x28]
        let signature = Signature.sign(original: bytes, with: Signature.Key(Self.secretKey))
        #expect(throws: SignatureFailure.malformed) { try verify(signature) }
    }

    @Test(
        "a genuine signature with wrong parameters is refused with the reason",
        arguments: [
            ("random=1", SignatureFailure.missingParameter("secretId")),
            ("secretId=AKIDtest", .missingParameter("currentTimeStamp")),
            ("secretId=AKIDtest&currentTimeStamp=1", .missingParameter("expireTime")),
            ("secretId=AKIDtest&currentTimeStamp=1&expireTime=2", .missingParameter("random")),
            ("secretId=AKIDtest&secretId=AKIDtest", .duplicateParameter("secretId")),
            ("secretId=AKIDtest&secret%49d=AKIDother", .duplicateParameter("secretId")),
            ("secretId=AKIDtest&x=1&x=1", .duplicateParameter("x")),
            ("secretId=AKIDnobody&random=1", .unknownSecretID),
            ("secretId=&random=1", .unknownSecretID),
            ("secretId=AKIDtest&currentTimeStamp=1571215095.5", .notAnInteger("currentTimeStamp")),
            ("secretId=AKIDtest&currentTimeStamp=%2B1571215095", .notAnInteger("currentTimeStamp")),
            ("secretId=AKIDtest&currentTimeStamp=", .notAnInteger("currentTimeStamp")),
            ("secretId=AKIDtest&expireTime=0x10", .notAnInteger("expireTime")),
            ("secretId=AKIDtest&expireTime=1e9", .notAnInteger("expireTime")),
            ("secretId=AKIDtest&expireTime=-", .notAnInteger("expireTime")),
            ("secretId=AKIDtest&expireTime=9223372036854775808", .outOfRange("expireTime")),
            ("secretId=AKIDtest&classId=one", .notAnInteger("classId")),
            ("secretId=AKIDtest&random=", .notAnInteger("random")),
            ("secretId=AKIDtest&taskPriority=high", .notAnInteger("taskPriority")),
            ("secretId=AKIDtest&vodSubAppId=%D9%A1", .notAnInteger("vodSubAppId")),
            ("secretId=AKIDtest&oneTimeValid=true", .notAnInteger("oneTimeValid")),
            ("secretId=AKIDtest&oneTimeValid=2", .outOfRange("oneTimeValid")),
            ("secretId=AKIDtest&currentTimeStamp=1&expireTime=2&random=4294967296", .outOfRange("random")),
            ("secretId=AKIDtest&currentTimeStamp=1&expireTime=2&random=-1", .outOfRange("random")),
            ("secretId=AKIDtest&currentTimeStamp=1571215095&expireTime=1571215100&random=1", .expired),
            (
                "secretId=AKIDtest&currentTimeStamp=-9223372036854775808&expireTime=9223372036854775807&random=1",
                .lifetimeTooLong
            ),
        ]
    )
    func wrongParameters(_ original: String, _ failure: SignatureFailure) {
        #expect(throws: failure) { try verify(signed(original)) }
    }

    @Test("a signature is valid in the last second before the expiry and not at the expiry")
    func expiry() throws {
        let signature = try TencentVector.named("V1").signature
        #expect(try verify(signature, at: 1_571_301_494).parameters == Self.minimal)
        #expect(throws: SignatureFailure.expired) { try verify(signature, at: 1_571_301_495) }
    }

    @Test("90 days are allowed, one second more is not")
    func lifetime() throws {
        var parameters = Self.minimal
        parameters.expireTime = parameters.currentTimeStamp + 7_776_000
        #expect(try verify(Signature.sign(parameters, secretKey: Self.secretKey)).parameters == parameters)
        parameters.expireTime += 1
        let signature = Signature.sign(parameters, secretKey: Self.secretKey)
        #expect(throws: SignatureFailure.lifetimeTooLong) { try verify(signature) }
    }

    @Test("a signer's clock may be ahead by as much as clocks may differ, and 90 days count from now")
    func ahead() throws {
        var parameters = Self.minimal
        let now = parameters.currentTimeStamp
        for (ahead, skew, isValid) in [(900, 900, true), (901, 900, false), (10, 10, true), (11, 10, false)]
            as [(Int64, Int64, Bool)]
        {
            parameters.currentTimeStamp = now + ahead
            parameters.expireTime = now + ahead + 600
            let signature = Signature.sign(parameters, secretKey: Self.secretKey)
            func verified() throws {
                _ = try Signature.verify(signature, secretKey: { _ in Self.secretKey }, at: now, skew: skew)
            }
            if isValid {
                try verified()
            } else {
                #expect(throws: SignatureFailure.notYetValid) { try verified() }
            }
        }
        parameters.currentTimeStamp = now + 300
        parameters.expireTime = now + 7_776_001
        let long = Signature.sign(parameters, secretKey: Self.secretKey)
        #expect(throws: SignatureFailure.lifetimeTooLong) { try verify(long, at: now) }
    }

    @Test("the code is checked before anything else")
    func codeFirst() {
        let original = Array("secretId=AKIDtest&currentTimeStamp=x&expireTime=1&random=1".utf8)
        let forged = Base64.encode([UInt8](repeating: 0, count: 20) + original)
        #expect(throws: SignatureFailure.wrongCode) { try verify(forged) }
    }
}
