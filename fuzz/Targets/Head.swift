// The head of a request: any split parses the same, what is accepted obeys the grammar, and what it says about framing
// agrees with its fields.

internal import HTTPWire

#if !FUZZING
// Compiled together with the target when it fuzzes.
internal import SluiceTesting
#endif

func fuzzHead(_ bytes: [UInt8]) {
    var generator = SeededGenerator(for: bytes)
    check(bytes, limits: HeadLimits(), &generator)
    if generator.oneIn(2) {
        check(
            bytes,
            limits: HeadLimits(
                maximumRequestLine: Int.random(in: 1...80, using: &generator),
                maximumBytes: Int.random(in: 1...200, using: &generator),
                maximumFields: Int.random(in: 1...4, using: &generator)
            ),
            &generator
        )
    }
}

private func check(_ bytes: [UInt8], limits: HeadLimits, _ generator: inout SeededGenerator) {
    let whole = HeadOutcome.of(bytes, limits: limits)
    let cuts = generator.cuts(3, in: bytes.count)
    expectEqual(HeadOutcome.of(bytes, cuts: cuts, limits: limits), whole, "cut at \(cuts)")
    if bytes.count <= 128, generator.oneIn(8) {
        expectEqual(HeadOutcome.of(bytes, cuts: Array(0..<bytes.count), limits: limits), whole, "cut at every byte")
    }
    switch whole {
    case .failed(let failure):
        expect([400, 414, 417, 431, 501, 505].contains(failure.status.code), "status \(failure.status.code)")
        expect(!failure.reason.isEmpty, "no reason")
    case .incomplete:
        // Two empty lines before the request line do not count.
        expect(bytes.count < limits.maximumBytes + 4, "an incomplete head of \(bytes.count) bytes")
    case .parsed(let summary):
        checkParsed(bytes, summary, limits)
    }
}

private func checkParsed(_ bytes: [UInt8], _ summary: HeadOutcome.Summary, _ limits: HeadLimits) {
    let end = summary.consumed
    expect(end <= bytes.count && bytes[..<end].suffix(4).elementsEqual([13, 10, 13, 10]), "no empty line at the end")
    let alone = Array(bytes[..<end])
    expectEqual(HeadOutcome.of(alone, limits: limits), .parsed(summary), "what follows a head changes it")
    expectEqual(HeadOutcome.of(Array(alone.dropLast()), limits: limits), .incomplete, "complete before its end")
    checkFields(summary.fields, limits)
    checkFraming(summary)
    checkTarget(summary)
    checkRewritten(summary)
}

/// RFC 9112 §5: names are tokens, values hold no control characters and no white space around them.
private func checkFields(_ fields: HTTPFields, _ limits: HeadLimits) {
    expect(fields.entries.count <= limits.maximumFields, "\(fields.entries.count) fields")
    for index in fields.entries.indices {
        let name = fields.rawName(at: index)
        expect(!name.isEmpty && name.allSatisfy(HTTPCharacters.isToken), "a name that is no token")
        let value = fields.rawValue(at: index)
        expect(value.allSatisfy(HTTPCharacters.isFieldValue), "a control character in a value")
        let ends = [value.first, value.last].compactMap(\.self)
        expect(!ends.contains(0x20) && !ends.contains(0x09), "white space around a value")
    }
}

/// RFC 9112 §6.3, derived from the fields again.
private func checkFraming(_ summary: HeadOutcome.Summary) {
    let lengths = summary.fields.all("Content-Length")
    let codings = summary.fields.all("Transfer-Encoding")
    switch summary.framing {
    case .none: expect(lengths.isEmpty && codings.isEmpty, "content without framing")
    case .length(let length):
        expect(codings.isEmpty && lengths.count == 1, "more than one framing")
        let digits = lengths.first?.utf8.allSatisfy { $0 >= UInt8(ascii: "0") && $0 <= UInt8(ascii: "9") }
        expect(digits == true && lengths.first.flatMap { Int64($0) } == length, "\(lengths) is not \(length)")
    case .chunked:
        expect(lengths.isEmpty && summary.version == .http1_1, "chunked beside another framing, or in HTTP/1.0")
        expect(codings.count == 1 && codings.first?.lowercased() == "chunked", "chunked from \(codings)")
    }
    let hosts = summary.fields.count(of: "Host")
    expect(hosts == 1 || hosts == 0 && summary.version == .http1_0, "\(hosts) Host fields")
    let connection = summary.fields.list("Connection").map { $0.lowercased() }
    expect(!(connection.contains("close") && summary.keepsAlive), "kept open in spite of close")
    if summary.expectsContinue {
        expect(summary.version == .http1_1 && summary.framing != .none, "100 for nothing")
    }
}

private func checkTarget(_ summary: HeadOutcome.Summary) {
    let target = summary.target
    expect(target.rawPath == "*" || target.rawPath.utf8.first == UInt8(ascii: "/"), "path \(target.rawPath)")
    expect(target.rawPath != "*" || summary.method == "OPTIONS", "* with \(summary.method)")
    for segment in target.segments {
        expect(!segment.utf8.contains { $0 < 0x20 || $0 == 0x7F }, "a control character in the path")
    }
}

/// A parsed head that is written again parses to the same.
private func checkRewritten(_ summary: HeadOutcome.Summary) {
    let target = summary.target
    var line = summary.method + " "
    if let authority = target.authority { line += "http://" + authority }
    line += target.rawPath
    if let query = target.rawQuery { line += "?" + query }
    line += summary.version == .http1_1 ? " HTTP/1.1\r\n" : " HTTP/1.0\r\n"
    var rewritten = Array(line.utf8)
    summary.fields.serialize(into: &rewritten)
    rewritten += [13, 10]
    guard case .parsed(var again) = HeadOutcome.of(rewritten, limits: HeadLimits(maximumBytes: 1 << 20)) else {
        expect(false, "not understood when written again: \(text(rewritten))")
        return
    }
    expectEqual(again.consumed, rewritten.count, "length of what was written again")
    again.consumed = summary.consumed
    expect(again == summary, "understood otherwise when written again: \(text(rewritten))")
}
