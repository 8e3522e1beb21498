import Bytes
import Testing

@Suite("limits of JSON", .timeLimit(.minutes(10)))
struct JSONLimitsTests {
    private static func limits(depth: Int = 3, members: Int = 3, elements: Int = 3) -> JSONLimits {
        var limits = JSONLimits()
        (limits.depth, limits.members, limits.elements) = (depth, members, elements)
        return limits
    }

    @Test(
        "a document within the limits passes",
        arguments: [
            "", "1", "\"a,b,c,d,e\"", "{}", "[]", "[ ]", "{\"a\":1,\"b\":2,\"c\":3}", "[1,2,3]", "[[[]]]",
            "{\"a\":[1,2,3],\"b\":{\"c\":1}}", "{\"a\\\"{[,,,,\":\"[[[[[{{{{,,,,\"}", " { \"a\" : [ 1 , 2 , 3 ] } ",
        ]
    )
    func within(json: String) {
        #expect(Self.limits().excess(in: Array(json.utf8)) == nil)
    }

    @Test(
        "a document beyond a limit is refused with that limit",
        arguments: [
            ("{\"a\":1,\"b\":2,\"c\":3,\"d\":4}", "at most 3 members"),
            ("{\"a\":{\"b\":{}},\"c\":{\"d\":1}}", "at most 3 members"),
            ("[1,2,3,4]", "at most 3 array elements"),
            ("[[1],[2],3]", "at most 3 array elements"),
            ("[[[[]]]]", "at most 3 nested objects and arrays"),
            ("[[[{", "at most 3 nested objects and arrays"),
        ]
    )
    func beyond(json: String, limit: String) {
        #expect(Self.limits().excess(in: Array(json.utf8)) == limit)
    }

    @Test("each repeated name is listed once")
    func manyRepeated() {
        let names = (0..<20_000).map { "\"\($0)\":0" }
        let json = "{" + (names + names + names).joined(separator: ",") + "}"
        #expect(JSONNames.repeated(in: Array(json.utf8))?.count == 20_000)
    }
}
