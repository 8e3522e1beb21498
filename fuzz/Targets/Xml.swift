// Small XML documents: the size of the result is limited, and escaped text parses to the original.

internal import Bytes
internal import XMLText

func fuzzXml(_ bytes: [UInt8]) {
    if let root = XMLNode.parse(bytes) {
        var count = 0
        check(root, depth: 1, &count)
        expect(count <= bytes.count, "more elements than bytes")
    }
    let given = text(bytes)
    // Except characters that XML cannot contain, and line ends, which are normalised (XML 1.0 §2.2, §2.11).
    let isText = given.unicodeScalars.allSatisfy { $0.value >= 0x20 && $0.value != 0xFFFE && $0.value != 0xFFFF }
    guard isText else { return }
    let written = "<a><b>\(xmlEscaped(given))</b></a>"
    guard let root = XMLNode.parse(Array(written.utf8)) else { return expect(false, "\(written) is refused") }
    expect(root["b"]?.utf8.elementsEqual(given.utf8) ?? false, "\(written) is read as \(root["b"] ?? "nothing")")
}

private func check(_ node: XMLNode, depth: Int, _ count: inout Int) {
    count += 1
    expect(depth <= 16, "an element within 16 others")
    expect(!node.name.text.isEmpty, "an element without a name")
    for child in node.children { check(child, depth: depth + 1, &count) }
}
