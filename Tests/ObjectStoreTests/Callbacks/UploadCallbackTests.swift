import Bytes
import Testing

@testable import ObjectStore

@Suite("Callbacks as clients name them", .timeLimit(.minutes(10)))
struct UploadCallbackTests {
    private func parse(_ json: String, _ variables: ExactNames<String> = [:]) throws(ObjectError) -> UploadCallback {
        try UploadCallback(Base64.encode(json.utf8), variables: variables)
    }

    @Test("URLs keep their order, and default to http")
    func urls() throws {
        let callback = try parse(
            #"{"callbackUrl":"121.101.166.30/test.php; HTTPS://b.example/?a=://;c.example:8080;","callbackBody":"b"}"#
        )
        #expect(
            callback.urls == ["http://121.101.166.30/test.php", "HTTPS://b.example/?a=://", "http://c.example:8080"]
        )
        #expect(callback.host == nil && callback.template.format == .form)
    }

    @Test("all members are read")
    func members() throws {
        let callback = try parse(
            #"""
            {"callbackUrl":"http://a.example","callbackHost":"b.example","callbackSNI":true,"unknown":[1],
            "callbackBody":"{\"u\":${x:u}}","callbackBodyType":"application/json"}
            """#,
            ["x:u": "44"]
        )
        #expect(
            callback.host == "b.example" && callback.template.format == .json && callback.variables == ["x:u": "44"]
        )
        #expect(String(decoding: callback.template.content { _ in .text("1") }, as: UTF8.self) == #"{"u":"1"}"#)
    }

    @Test(
        "invalid callbacks are refused with the messages of OSS",
        arguments: [
            ("", "The callback configuration is not json format."),
            ("x123-*&", "The callback configuration is not base64 encoded."),
            (Base64.encode("{".utf8), "The callback configuration is not json format."),
            (Base64.encode("[]".utf8), "The callback configuration is not json format."),
            (Base64.encode("{}".utf8), "The callback body is empty"),
            (Base64.encode(#"{"callbackUrl":"a.example","callbackBody":""}"#.utf8), "The callback body is empty"),
            (
                Base64.encode(#"{"callbackUrl":"a.example","callbackBody":[1]}"#.utf8),
                "The callbackBody of the callback must"
            ),
            (Base64.encode(#"{"callbackBody":"b"}"#.utf8), "The callback must have a callbackUrl."),
            (Base64.encode(#"{"callbackBody":"b","callbackUrl":""}"#.utf8), "The callback must have a callbackUrl."),
            (Base64.encode(#"{"callbackBody":"b","callbackUrl":" ; "}"#.utf8), "The callbackUrl must be one to five"),
            (
                Base64.encode(#"{"callbackBody":"b","callbackUrl":"a;b;c;d;e;f"}"#.utf8),
                "The callbackUrl must be one to five"
            ),
            (
                Base64.encode(#"{"callbackBody":"b","callbackUrl":"a","callbackBodyType":"text/plain"}"#.utf8),
                "The callbackBodyType must be"
            ),
            (
                Base64.encode(#"{"callbackBody":"b","callbackUrl":"a","callbackBodyType":123}"#.utf8),
                "The callbackBodyType of the callback must"
            ),
            (Base64.encode(#"{"callbackBody":"$","callbackUrl":"a"}"#.utf8), "Left brace must be adjacent"),
        ]
    )
    func refused(_ text: String, _ message: String) throws {
        let error = try #require(throws: ObjectError.self) { try UploadCallback(text, variables: [:]) }
        #expect(error.code == .invalidArgument && error.message.hasPrefix(message), "\(error.message)")
        #expect(error.details.contains { $0.name == "ArgumentName" })
    }

    @Test("the maximum is 5 KB of Base64")
    func length() throws {
        func text(_ count: Int) -> String {
            Base64.encode((#"{"callbackUrl":"a","callbackBody":""# + String(repeating: "b", count: count) + "\"}").utf8)
        }
        let longest = UploadCallback.maximumBytes / 4 * 3 - 37
        #expect(text(longest).utf8.count == UploadCallback.maximumBytes)
        #expect(throws: Never.self) { try UploadCallback(text(longest), variables: [:]) }
        let error = try #require(throws: ObjectError.self) { try UploadCallback(text(longest + 1), variables: [:]) }
        #expect(error.message.hasPrefix("The length of callback exceed max value"))
        let other = try #require(throws: ObjectError.self) { try UploadCallback.variables(text(longest + 1)) }
        #expect(other.message.hasPrefix("The length of callback var exceed max value"))
    }

    @Test("variables of the client are read")
    func variables() throws {
        let text = Base64.encode(#"{"x:a":"1","x:B_c":"ü"}"#.utf8)
        #expect(try UploadCallback.variables(text) == ["x:a": "1", "x:b_c": "ü"])
        for wrong in [
            #"{"a":"1"}"#, #"{"x:a":"1","x:A":"1"}"#, #"{"x:":"1"}"#, #"{"x:a":1}"#, #"{"x:a":null}"#, "[]",
            #"{"x:a":"1""#,
        ] {
            #expect(throws: ObjectError.self) { try UploadCallback.variables(Base64.encode(wrong.utf8)) }
        }
        #expect(throws: ObjectError.self) { try UploadCallback.variables("e30") }
    }
}
