import Bytes
import Testing

@testable import Identity

@Suite("Names of claims", .timeLimit(.minutes(10)))
struct ClaimNameTests {
    private let claims: JSONMembers = [
        "sub": .string("anna"), "a.b": .integer(7), "flag": .bool(true), "half": .number(0.5), "none": .null,
        "list": .array([.string("a"), .string("b")]), "mixed": .array([.string("a"), .integer(1)]),
        "app": .object(["plan": .string("gold"), "x/y": .string("slash"), "x~y": .string("tilde")]),
    ]

    @Test("a name is taken as it is, and a pointer descends")
    func values() throws {
        func text(_ name: String) throws -> String? { try #require(ClaimName(name)).text(in: claims) }
        #expect(try text("sub") == "anna" && text("/sub") == "anna")
        #expect(try text("a.b") == "7" && text("flag") == "true" && text("half") == "0.5")
        #expect(try text("/app/plan") == "gold")
        #expect(try text("/app/x~1y") == "slash" && text("/app/x~0y") == "tilde")
        #expect(try text("/list/0") == "a" && text("/list/1") == "b")
        for name in [
            "none", "app", "list", "other", "/app/other", "/sub/a", "/list/2", "/list/00", "/list/-", "app/plan",
        ] {
            #expect(try text(name) == nil, "\(name)")
        }
    }

    @Test("a claim of another form is not one that is absent")
    func obstructed() throws {
        func isObstructed(_ name: String) throws -> Bool { try #require(ClaimName(name)).isObstructed(in: claims) }
        for name in [
            "/sub/a", "/flag/a/b", "/list/a", "/list/00", "/list/-", "/list/0/a", "/list/99999999999999999999",
        ] {
            #expect(try isObstructed(name), "\(name)")
        }
        for name in ["sub", "other", "none", "/none/a", "/other/a", "/app/other", "/list/2", "/list/0", "/app/plan"] {
            #expect(try !isObstructed(name), "\(name)")
        }
    }

    @Test("words are an array of strings, or a string with spaces")
    func words() throws {
        func words(_ name: String) throws -> [String]? { try #require(ClaimName(name)).words(in: claims) }
        #expect(try words("list") == ["a", "b"])
        #expect(try words("sub") == ["anna"])
        #expect(try #require(ClaimName("scope")).words(in: ["scope": .string(" a  b ")]) == ["a", "b"])
        for name in ["mixed", "app", "a.b", "none", "other"] { #expect(try words(name) == nil, "\(name)") }
    }

    @Test(
        "invalid names are refused",
        arguments: ["", "/", "//a", "/a/", "/a~2b", "/a~", String(repeating: "a", count: 256)]
    )
    func invalid(text: String) {
        #expect(ClaimName(text) == nil)
    }
}
