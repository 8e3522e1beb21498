import Testing

@testable import Bytes

@Suite("Names in JSON", .timeLimit(.minutes(10)))
struct JSONNamesTests {
    @Test("repeated names in nested objects are found, each object separately")
    func deep() {
        let json = Array(#"{"a":[{"b":1,"c":{"b":2}},{"b":3,"\u0062":4}],"c":{"a":5,"a":6,"a":7},"b":["b","b"]}"#.utf8)
        #expect(JSONNames.repeated(in: json) == ["b", "a"])
        #expect(JSONNames.repeated(in: Array(#"{"a":[{"b":1},]}"#.utf8)) == nil)
        #expect(JSONNames.repeated(in: Array(#"{"a":["x",{"y":["z"]},"x"],"x":1}"#.utf8)) == [])
        #expect(JSONNames.repeated(in: Array(#"[{"a":1},{"a":2},{"b":1,"b":2}]"#.utf8)) == ["b"])
        #expect(JSONNames.areUnique(in: Array(#"[{},{"a":{}},{"a":{}}]"#.utf8)))
    }
}
