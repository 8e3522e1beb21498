// Queries, forms, and the encodings that are read and written byte by byte: whatever is accepted survives being written
// and read again.

internal import Bytes
internal import HTTPWire

#if !FUZZING
// Compiled together with the target when it fuzzes.
internal import SluiceTesting
#endif

func fuzzQuery(_ bytes: [UInt8]) {
    checkPercent(bytes)
    checkQuery(text(bytes))
    checkHexadecimal(bytes)
    // Slow, because it is Foundation's.
    var generator = SeededGenerator(for: bytes)
    if generator.oneIn(8) { checkBase64(bytes) }
}

private func checkPercent(_ bytes: [UInt8]) {
    for plusIsSpace in [false, true] {
        let decoded = PercentEncoding.decode(bytes, plusIsSpace: plusIsSpace)
        expectEqual(decoded, decodeByIndex(bytes, plusIsSpace), "decoded")
    }
    let given = text(bytes)
    for isAllowed in [
        PercentEncoding.isUnreserved, PercentEncoding.isPathCharacter, PercentEncoding.isAttributeCharacter,
    ] {
        let encoded = PercentEncoding.encode(given, allowing: isAllowed)
        expect(encoded.utf8.allSatisfy { $0 == UInt8(ascii: "%") || isAllowed($0) }, "encoded as \(encoded)")
        expectEqual(PercentEncoding.decode(encoded.utf8), Array(given.utf8), "encoded and decoded")
    }
}

/// RFC 3986 §2.1, with the whole in hand.
private func decodeByIndex(_ bytes: [UInt8], _ plusIsSpace: Bool) -> [UInt8]? {
    var output: [UInt8] = []
    var index = 0
    while index < bytes.count {
        if bytes[index] == UInt8(ascii: "%") {
            guard index + 2 < bytes.count, bytes[index + 1] != UInt8(ascii: "+"), bytes[index + 1] != UInt8(ascii: "-"),
                let byte = UInt8(text(bytes[index + 1...index + 2]), radix: 16)
            else { return nil }
            output.append(byte)
            index += 3
        } else {
            output.append(plusIsSpace && bytes[index] == UInt8(ascii: "+") ? 0x20 : bytes[index])
            index += 1
        }
    }
    return output
}

private func checkQuery(_ given: String) {
    let query: QueryItems
    do throws(QueryItems.Failure) { query = try QueryItems(given) } catch {
        expect(!error.reason.isEmpty, "no reason")
        return
    }
    expectEqual(query.count, given.utf8.split(separator: UInt8(ascii: "&")).count, "items")
    for item in query.items {
        expect(!item.name.utf8.contains(0) && !item.value.utf8.contains(0), "NUL in an item")
    }
    let written = query.items.map { PercentEncoding.encode($0.name) + "=" + PercentEncoding.encode($0.value) }
        .joined(separator: "&")
    guard let again = try? QueryItems(written) else {
        expect(false, "\(written) is refused")
        return
    }
    expect(
        again.items.elementsEqual(query.items) {
            $0.name.utf8.elementsEqual($1.name.utf8) && $0.value.utf8.elementsEqual($1.value.utf8)
        },
        "\(given) written as \(written)"
    )
}

private func checkHexadecimal(_ bytes: [UInt8]) {
    expectEqual(Hexadecimal.decode(Hexadecimal.encode(bytes)), bytes, "hexadecimal")
    let given = text(bytes)
    if let decoded = Hexadecimal.decode(given) {
        expect(Hexadecimal.encode(decoded) == given.lowercased(), "hexadecimal \(given)")
    }
}

private func checkBase64(_ bytes: [UInt8]) {
    expectEqual(Base64.decode(Base64.encode(bytes)), bytes, "base64")
    expectEqual(Base64.decodeURLSafe(Base64.encodeURLSafe(bytes)), bytes, "base64url")
    let given = text(bytes)
    if let decoded = Base64.decode(given) {
        expect(Base64.encode(decoded).utf8.elementsEqual(given.utf8), "base64 \(given)")
    }
    if let decoded = Base64.decodeURLSafe(given) {
        expect(Base64.encodeURLSafe(decoded).utf8.elementsEqual(given.utf8), "base64url \(given)")
    }
}
