import Bytes
import Foundation
import Testing

@testable import TencentVOD

@Suite("Signature request", .timeLimit(.minutes(10)))
struct SignatureRequestTests {
    func read(_ json: String) throws(InvalidSignatureRequest) -> SignatureRequest {
        try SignatureRequest(json: Array(json.utf8))
    }

    func problems(_ json: String) -> [FieldProblem] {
        do {
            _ = try read(json)
            return []
        } catch {
            return error.problems
        }
    }

    @Test("every documented field is read")
    func allFields() throws {
        let request = try read(
            #"""
            {"secretId": "AKID1", "currentTimeStamp": 1571215095, "expireTime": 1571301495, "random": 220625, "classId": -1,
             "procedure": "LongVideoPreset", "taskPriority": -10, "taskNotifyMode": "Change",
             "sourceContext": "{\"type\":\"1\"}", "oneTimeValid": true, "vodSubAppId": 1500012345,
             "sessionContext": "user-42&x=\u4e2d", "storageRegion": "ap-chongqing", "expiresIn": 60, "subject": "u",
             "maxBytes": 5, "contentTypes": ["video/*"]}
            """#
        )
        var expected = SignatureRequest()
        expected.secretID = "AKID1"
        expected.currentTimeStamp = 1_571_215_095
        expected.expireTime = 1_571_301_495
        expected.random = 220_625
        expected.classID = -1
        expected.procedure = "LongVideoPreset"
        expected.taskPriority = -10
        expected.taskNotifyMode = "Change"
        expected.sourceContext = #"{"type":"1"}"#
        expected.oneTimeValid = true
        expected.vodSubAppID = 1_500_012_345
        expected.sessionContext = "user-42&x=中"
        expected.storageRegion = "ap-chongqing"
        expected.expiresIn = 60
        expected.subject = "u"
        expected.maximumBytes = 5
        expected.contentTypes = ["video/*"]
        #expect(request == expected)
    }

    @Test(
        "nothing, an empty object and null values ask for the defaults",
        arguments: ["", "{}", " {\n} ", "null fields"]
    )
    func defaults(_ json: String) throws {
        let names = SignatureField.allCases.map { "\"\($0.rawValue)\": null" }.joined(separator: ",")
        #expect(try read(json == "null fields" ? "{\(names)}" : json) == SignatureRequest())
    }

    @Test("in direct mode, a key with limits chooses only what the settings list, and the user is its subject")
    func keyWithLimits() throws {
        var settings = TencentVODSettings()
        settings.procedures = ["Preset"]
        settings.subApplications = ["7"]
        func refused(_ json: String) throws -> [String] {
            try read(json).problems(ofKeyWithLimits: settings).map(\.field)
        }
        #expect(try refused(#"{"subject": "dora", "classId": 3, "sessionContext": "s", "oneTimeValid": true}"#).isEmpty)
        #expect(try refused(#"{"procedure": "Preset", "taskPriority": 1, "vodSubAppId": 7}"#).isEmpty)
        #expect(try refused(#"{"vodSubAppId": 0}"#).isEmpty)
        #expect(try refused(#"{"procedure": "preset"}"#) == ["procedure"])
        #expect(try refused(#"{"sourceContext": "eve"}"#) == ["sourceContext"])
        #expect(try refused(#"{"vodSubAppId": 8}"#) == ["vodSubAppId"])
        #expect(try refused(#"{"storageRegion": "ap-chongqing"}"#) == ["storageRegion"])
        settings = TencentVODSettings()
        #expect(try refused(#"{"procedure": "Preset", "vodSubAppId": 7}"#) == ["procedure", "vodSubAppId"])
    }

    @Test("a one-time flag is a boolean, 1 or 0")
    func oneTime() throws {
        #expect(try read(#"{"oneTimeValid": true}"#).oneTimeValid == true)
        #expect(try read(#"{"oneTimeValid": false}"#).oneTimeValid == false)
        #expect(try read(#"{"oneTimeValid": 1}"#).oneTimeValid == true)
        #expect(try read(#"{"oneTimeValid": 0}"#).oneTimeValid == false)
        for value in ["2", "-1", "0.5", #""1""#, #""true""#, "[]", "{}"] {
            let message = "must be true, false, 1 or 0"
            #expect(
                problems(#"{"oneTimeValid": \#(value)}"#) == [FieldProblem(field: "oneTimeValid", message: message)],
                "\(value)"
            )
        }
    }

    @Test("each field refuses every other JSON type", arguments: SignatureField.allCases)
    func types(_ field: SignatureField) {
        let texts: Set<SignatureField> = [
            .secretId, .procedure, .taskNotifyMode, .sourceContext, .sessionContext, .storageRegion, .subject,
        ]
        var values = field == .contentTypes ? ["[[]]", "{}", "[1]"] : ["[]", "{}", "[1]"]
        values += ["1.5", "1e400", "99999999999999999999"]
        if field != .oneTimeValid { values += ["true", "false"] }
        values += texts.contains(field) ? ["1", "0"] : [#""1""#, #""""#]
        for value in values {
            let found = problems("{\"\(field.rawValue)\": \(value)}")
            #expect(found.map(\.field) == [field.rawValue] || (value == "1e400" && found.isEmpty), "\(value)")
        }
    }

    @Test("all wrong types and all unknown fields are reported at once, documented ones first")
    func allProblems() {
        let found = problems(#"{"zebra": 1, "subject": 1, "classId": "x", "ClassID": 1, "random": [], "": 1}"#)
        #expect(found.map(\.field) == ["random", "classId", "subject", "", "ClassID", "zebra"])
        #expect(found.last?.message == "is not a field of this request")
    }

    @Test("repeated fields are reported, however they are written")
    func duplicates() {
        let message = "must occur only once"
        #expect(problems(#"{"random":1,"random":1}"#) == [FieldProblem(field: "random", message: message)])
        #expect(problems(#"{"random":1,"rand\u006fm":2}"#) == [FieldProblem(field: "random", message: message)])
        #expect(
            problems(#"{"random":1 , "random":2,"random":3,"subject":"a","subject":"a"}"#).map(\.field)
                == ["random", "subject"]
        )
        // The same text as a value, or as a name further inside, is no repetition.
        #expect(problems(#"{"subject":"random","procedure":"random","random":1}"#).isEmpty)
        #expect(problems(#"{"subject":"\"random\":1,\"random\":","random":1}"#).isEmpty)
        #expect(problems(#"{"x":{"random":1},"random":1}"#).map(\.field) == ["x"])
        #expect(problems(#"{"x":{"random":1,"random":2},"random":1}"#).map(\.field) == ["x", "random"])
        #expect(problems(#"{"x":[{"a":1},"a",{"a":2},"a"],"random":1}"#).map(\.field) == ["x"])
    }

    @Test("repeated names are found in each object")
    func names() {
        #expect(
            JSONNames.repeated(in: Array(#"{"a":1,"b":{"a":1},"a\"":[1,{"b":2}],"c":"a","a\"":2}"#.utf8)) == ["a\""]
        )
        #expect(JSONNames.repeated(in: Array("{}".utf8))?.isEmpty == true)
        // Not valid, and still no trap.
        for broken in [#"{""#, #"{"\"#, #"{"a"#, "}}}", "]", #"{"a\"#, "\"", ""] {
            #expect(JSONNames.repeated(in: Array(broken.utf8))?.isEmpty == true)
        }
        #expect(JSONNames.repeated(in: Array(#"{"a":",}"}"#.utf8))?.isEmpty == true)
        #expect(JSONNames.repeated(in: Array(#"{"a":1 , }"#.utf8)) == nil)
    }

    @Test(
        "a body that is not a JSON object is refused as a whole",
        arguments: [
            " ", "null", "[]", "1", "\"x\"", "true", "{", "}", "{]", "{\"random\":}", "{\"random\":1,}", "{random:1}",
            "{'random':1}", "{\"random\":1}x", "{\"random\":NaN}", "{\"random\":0x1}", "// comment\n{}", "{}{}",
            "\u{0}",
            "{\"subject\":\"a\u{0}\"}", "{\"random\":1 , \n}", "{\"subject\":[1,],\"random\":1}",
            String(repeating: "[", count: 100_000),
            String(repeating: "{\"a\":", count: 10_000),
        ]
    )
    func notAnObject(_ json: String) {
        let error = #expect(throws: InvalidSignatureRequest.self) { try read(json) }
        #expect(error?.problems.isEmpty == true)
        #expect(error?.message.contains("JSON object") == true)
    }

    @Test("a number or text that breaks the grammar of JSON is a problem of its field")
    func grammar() {
        #expect(problems("{\"random\":01}").map(\.field) == ["random"])
        #expect(problems("{\"subject\":\"\n\"}").map(\.field) == ["subject"])
        #expect(problems(#"{"subject":"\x"}"#).map(\.field) == ["subject"])
        #expect(problems(#"{"subject":"\ud800"}"#).map(\.field) == ["subject"])
    }

    @Test("a body in an encoding other than UTF-8 is refused")
    func encodings() throws {
        for encoding in [String.Encoding.utf16LittleEndian, .utf16BigEndian, .utf32LittleEndian, .utf32BigEndian] {
            let body = [UInt8](try #require(#"{"random":1,"random":2}"#.data(using: encoding)))
            #expect(throws: InvalidSignatureRequest.self) { try SignatureRequest(json: body) }
        }
        let latin = Array(#"{"subject":""#.utf8) + [0xE4] + Array(#""}"#.utf8)
        #expect(throws: InvalidSignatureRequest.self) { try SignatureRequest(json: latin) }
    }

    @Test("the message of an error contains all problems")
    func message() {
        let error = #expect(throws: InvalidSignatureRequest.self) { try read(#"{"random":"x","zebra":1}"#) }
        #expect(
            error?.message == "random must be an integer from 0 to 4294967295; zebra is not a field of this request."
        )
    }
}
