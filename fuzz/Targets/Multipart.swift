// Multipart content: the result does not depend on the split, and a second parser written directly from the grammar agrees.

internal import HTTPWire

#if !FUZZING
// Compiled together with the target when it fuzzes.
internal import SluiceTesting
#endif

func fuzzMultipart(_ bytes: [UInt8]) {
    var generator = SeededGenerator(for: bytes)
    let whole = parse(bytes, cuts: [], take: .max)
    let cuts = generator.cuts(4, in: bytes.count)
    expectEqual(parse(bytes, cuts: cuts, take: Int.random(in: 1...9, using: &generator)), whole, "cut at \(cuts)")
    if bytes.count <= 128, generator.oneIn(8) {
        expectEqual(parse(bytes, cuts: Array(0..<bytes.count), take: 1), whole, "cut at every byte")
    }
    switch whole {
    case .parts(let parts): expectEqual(readByGrammar(bytes), parts, "the grammar reads it otherwise")
    case .incomplete: expect(readByGrammar(bytes) == nil, "the grammar sees an end")
    // Heads have their own rules; `Fields` tests them.
    case .failed: break
    }
    checkWritten(bytes, &generator)
    checkDisposition(bytes)
}

private enum Outcome: Equatable {
    case parts([[UInt8]])
    case failed
    case incomplete
}

private let boundary = MediaType("multipart/form-data; boundary=b").flatMap { MultipartBoundary(of: $0) }

private func parse(_ bytes: [UInt8], cuts: [Int], take: Int) -> Outcome {
    guard let boundary else { return .failed }
    var parser = MultipartParser(boundary: boundary)
    var parts: [[UInt8]] = []
    var isInPart = false
    var start = 0
    for cut in cuts + [bytes.count] {
        parser.append(Array(bytes[start..<cut]))
        start = cut
        piece: while true {
            let step: MultipartParser.Step
            do { step = try parser.next(maximum: take) } catch { return .failed }
            switch step {
            case .needMore: break piece
            case .part(let head):
                expect(!isInPart, "a part in a part")
                for index in head.entries.indices {
                    let name = head.rawName(at: index)
                    expect(!name.isEmpty && name.allSatisfy(HTTPCharacters.isToken), "a name that is no token")
                    expect(head.rawValue(at: index).allSatisfy(HTTPCharacters.isFieldValue), "a control character")
                }
                isInPart = true
                parts.append([])
            case .data(let data):
                expect(isInPart && (1...take).contains(data.count), "\(data.count) bytes of data")
                parts[parts.count - 1] += data
            case .endOfPart:
                expect(isInPart, "an end of no part")
                isInPart = false
            case .end:
                expect(!isInPart, "an end within a part")
                return .parts(parts)
            }
        }
    }
    return .incomplete
}

/// RFC 2046 §5.1.1 with the whole in hand; `nil` for what is not complete.
private func readByGrammar(_ bytes: [UInt8]) -> [[UInt8]]? {
    let text = [13, 10] + bytes
    let delimiter = Array("\r\n--b".utf8)
    func find(_ wanted: [UInt8], from start: Int) -> Int? {
        guard start + wanted.count <= text.count else { return nil }
        return (start...text.count - wanted.count).first { text[$0..<$0 + wanted.count].elementsEqual(wanted) }
    }
    var parts: [[UInt8]] = []
    guard var position = find(delimiter, from: 0) else { return nil }
    while true {
        position += delimiter.count
        if text[position...].starts(with: "--".utf8) { return parts }
        while position < text.count, [32, 9].contains(text[position]) { position += 1 }
        guard text[position...].starts(with: [13, 10]) else { return nil }
        // The CRLF of the boundary and the empty line are one CRLFCRLF, if there is no field.
        guard let emptyLine = find([13, 10, 13, 10], from: position) else { return nil }
        let content = emptyLine + 4
        guard let end = find(delimiter, from: content - 2) else { return nil }
        parts.append(end < content ? [] : Array(text[content..<end]))
        position = end
    }
}

/// What a client writes parses to the original.
private func checkWritten(_ bytes: [UInt8], _ generator: inout SeededGenerator) {
    let delimiter = Array("\r\n--b".utf8)
    let framed = [13, 10] + bytes
    let holdsDelimiter =
        framed.count >= delimiter.count
        && (0...framed.count - delimiter.count).contains { framed[$0...].starts(with: delimiter) }
    if holdsDelimiter { return }
    let written =
        Array("--b\r\nA: 1\r\n\r\n".utf8) + bytes + Array("\r\n--b\r\n\r\n".utf8) + bytes + Array("\r\n--b--".utf8)
    expectEqual(
        parse(written, cuts: generator.cuts(3, in: written.count), take: 1 << 20),
        .parts([bytes, bytes]),
        "written and read"
    )
}

/// Any bytes are allowed; names in the form of browsers parse to the original.
private func checkDisposition(_ bytes: [UInt8]) {
    if let disposition = FormDisposition(bytes) {
        expect(disposition.filename?.utf8.contains(UInt8(ascii: "/")) != true, "a path as a file name")
    }
    guard String(validating: bytes, as: UTF8.self) != nil, !bytes.contains(where: { "\\%".utf8.contains($0) }) else {
        return
    }
    var encoded: [UInt8] = []
    for byte in bytes {
        switch byte {
        case UInt8(ascii: "\""): encoded += "%22".utf8
        case 13: encoded += "%0D".utf8
        case 10: encoded += "%0A".utf8
        default: encoded.append(byte)
        }
    }
    let read = FormDisposition(Array("form-data; name=\"".utf8) + encoded + Array("\"".utf8))
    expectEqual(read.map { Array($0.name.utf8) }, bytes, "a name as browsers write it")
}
