// JSON: what is read is strictly JSON and of limited depth, and what we write is read as it was.

internal import Bytes

func fuzzJson(_ bytes: [UInt8]) {
    _ = JSONLimits().excess(in: bytes)
    _ = JSONNames.repeated(in: bytes)
    if let value = JSONValue(json: bytes) {
        let json = bytes.starts(with: [0xEF, 0xBB, 0xBF]) ? Array(bytes.dropFirst(3)) : bytes
        expect(JSONSyntax.isValid(json), "\(text(json)) is not JSON")
        check(value, depth: 0)
    }
    let given = text(bytes)
    var json = JSONObjectWriter(capacity: 64)
    json.member(given, given)
    expect(JSONValue(json: json.finish()) == .object([given: .string(given)]), "\(given) is read as another text")
}

private func check(_ value: JSONValue, depth: Int) {
    switch value {
    case .array(let elements):
        expect(depth < JSONValue.maximumDepth, "an array too deep")
        for element in elements { check(element, depth: depth + 1) }
    case .object(let members):
        expect(depth < JSONValue.maximumDepth, "an object too deep")
        for member in members.values { check(member, depth: depth + 1) }
    case .number(let number): expect(number.isFinite, "a number that is none")
    case .null, .bool, .integer, .string: break
    }
}
