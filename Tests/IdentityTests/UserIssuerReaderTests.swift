import Signing
import Testing
import UploadModel

@testable import Identity

@Suite("Issuers of tokens in the settings", .timeLimit(.minutes(10)))
struct UserIssuerReaderTests {
    private func read(_ text: String) throws -> UserIssuerList { try #require(UserIssuerReader.list(in: text)) }

    @Test("an issuer needs a name and an audience only")
    func defaults() throws {
        let list = try read(#"[{"issuer": "https://login.example", "audience": "app, web"}]"#)
        #expect(list.problems.isEmpty)
        let issuer = try #require(list.issuers.first)
        #expect(issuer.issuer == "https://login.example" && issuer.audiences == ["app", "web"])
        #expect(issuer.keys == .discovered && issuer.authorities == nil)
        #expect(issuer.algorithms == Set(JSONWebAlgorithm.allCases))
        #expect(issuer.subjectClaim.text == "sub" && issuer.subjectPrefix == nil)
        #expect(issuer.scopes == [.upload, .read] && issuer.scopeClaim == nil)
        #expect(issuer.maximumBytes == nil && issuer.contentTypes.isEmpty && issuer.metadata.isEmpty)
        #expect(issuer.maximumLifetime == 86_400 && issuer.mintedLifetime == 43_200 && issuer.leeway == 60)
    }

    @Test("every member is read, as JSON of its type and as text")
    func all() throws {
        for (bytes, types) in [("1024", #"["video/*", "image/png"]"#), (#""1KiB""#, #""video/*, image/png""#)] {
            let list = try read(
                """
                [{"issuer": "partner", "audience": ["app"], "keyFile": "/keys.pem", "algorithms": "EdDSA, PS256",
                "subjectClaim": "uid", "subjectPrefix": "p:", "scopes": ["upload", "mint"], "scopeClaim": "scope",
                "scopePrefix": "sluice:", "maximumBytes": \(bytes), "maximumBytesClaim": "max",
                "contentTypes": \(types), "contentTypesClaim": "/limits/types", "metadata": {"plan": "/app/plan"},
                "maximumLifetime": "1h", "mintedLifetime": "30m", "leeway": 0}]
                """
            )
            #expect(list.problems.isEmpty)
            let issuer = try #require(list.issuers.first)
            #expect(issuer.keys == .file("/keys.pem") && issuer.algorithms == [.edDSA, .ps256])
            #expect(issuer.subjectClaim.text == "uid" && issuer.subjectPrefix == "p:")
            #expect(issuer.scopes == [.upload, .mint] && issuer.scopeClaim?.text == "scope")
            #expect(issuer.scopePrefix == "sluice:")
            #expect(issuer.maximumBytes == 1024 && issuer.maximumBytesClaim?.text == "max")
            #expect(issuer.contentTypes == ["video/*", "image/png"])
            #expect(issuer.contentTypesClaim?.text == "/limits/types")
            #expect(issuer.metadata.mapValues(\.text) == ["plan": "/app/plan"])
            #expect(issuer.maximumLifetime == 3600 && issuer.mintedLifetime == 1800 && issuer.leeway == 0)
        }
    }

    @Test(
        "wrong members are named",
        arguments: [
            (#"{"issuer": "https://a.example"}"#, ["audience"]), (#"{"audience": "app"}"#, ["issuer"]),
            (#"{"issuer": "", "audience": ["a", 1], "x": 1}"#, ["audience", "issuer", "x"]),
            (#"{"issuer": "partner", "audience": "app"}"#, ["issuer"]),
            (#"{"issuer": "http://a.example", "audience": "app"}"#, ["issuer"]),
            (#"{"issuer": "p", "audience": "a", "jwksUrl": "http://a.example/keys"}"#, ["jwksUrl"]),
            (#"{"issuer": "p", "audience": "a", "jwksUrl": "https://a.example/", "keyFile": "a"}"#, ["keyFile"]),
            (#"{"issuer": "p", "audience": "a", "keyFile": "a", "scopes": ["admin"]}"#, ["scopes"]),
            (#"{"issuer": "p", "audience": "a", "keyFile": "a", "scopes": []}"#, ["scopes"]),
            (#"{"issuer": "p", "audience": "a", "keyFile": "a", "algorithms": "none"}"#, ["algorithms"]),
            (#"{"issuer": "p", "audience": "a", "keyFile": "a", "subjectPrefix": "a\n"}"#, ["subjectPrefix"]),
            (#"{"issuer": "p", "audience": "a", "keyFile": "a", "contentTypes": "video"}"#, ["contentTypes"]),
            (#"{"issuer": "p", "audience": "a", "keyFile": "a", "maximumBytes": -1}"#, ["maximumBytes"]),
            (#"{"issuer": "p", "audience": "a", "keyFile": "a", "metadata": {"a,b": "c"}}"#, ["metadata.a,b"]),
            (#"{"issuer": "p", "audience": "a", "keyFile": "a", "metadata": ["c"]}"#, ["metadata"]),
            (#"{"issuer": "p", "audience": "a", "keyFile": "a", "maximumLifetime": "31d"}"#, ["maximumLifetime"]),
            (#"{"issuer": "p", "audience": "a", "keyFile": "a", "leeway": "301s"}"#, ["leeway"]),
        ]
    )
    func wrong(entry: String, names: [String]) throws {
        let list = try read("[\(entry)]")
        #expect(list.problems.map(\.place).sorted() == names.map { "[0].\($0)" })
        #expect(list.issuers.isEmpty)
    }

    @Test("issuers and their users must not be confused")
    func conflicts() throws {
        func places(_ prefixes: String?..., issuers: [String] = ["a", "b", "c"]) throws -> [String] {
            let entries = zip(prefixes, issuers)
                .map { prefix, issuer in
                    let member = prefix.map { #", "subjectPrefix": "\#($0)""# } ?? ""
                    return #"{"issuer": "\#(issuer)", "audience": "app", "keyFile": "k"\#(member)}"#
                }
            return try read("[\(entries.joined(separator: ","))]").problems.map(\.place)
        }
        #expect(try places("a:", "b:", "c:") == [])
        #expect(try places("a:", "a:", "c:") == [])
        #expect(try places(nil, "b:") == ["[0].subjectPrefix"])
        #expect(try places("", "b:") == ["[1].subjectPrefix"])
        #expect(try places("a:b", "a:") == ["[1].subjectPrefix"])
        #expect(try places("a:", "a:", issuers: ["a", "a"]) == ["[1].issuer"])
    }

    @Test("text that is not a list is refused, and so is a name that is there twice")
    func syntax() throws {
        for text in ["", "{}", "https://login.example", "[", "[{}],", #"["a",]"#] {
            #expect(UserIssuerReader.list(in: text) == nil, "\(text)")
        }
        #expect(try read("[1]").problems.map(\.place) == ["[0]"])
        let twice = #"[{"issuer": "a", "issuer": "b", "audience": "app", "keyFile": "k"}]"#
        #expect(try read(twice).problems.map(\.place) == [""])
        #expect(try read("[]").issuers.isEmpty)
    }
}
