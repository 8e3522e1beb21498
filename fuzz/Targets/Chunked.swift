// The chunked transfer coding: the result does not depend on the split or on how the content is taken, and a second decoder,
// written directly from the grammar, agrees.

internal import HTTPWire

#if !FUZZING
// Compiled together with the target when it fuzzes.
internal import SluiceTesting
#endif

func fuzzChunked(_ bytes: [UInt8]) {
    var generator = SeededGenerator(for: bytes)
    let whole = decode(bytes, cuts: [], take: .max)
    let cuts = generator.cuts(4, in: bytes.count)
    expectEqual(decode(bytes, cuts: cuts, take: Int.random(in: 1...9, using: &generator)), whole, "cut at \(cuts)")
    if bytes.count <= 128, generator.oneIn(8) {
        expectEqual(decode(bytes, cuts: Array(0..<bytes.count), take: 1), whole, "cut at every byte")
    }
    let reference = readByGrammar(bytes)
    switch whole {
    case .ended(let content, _, let rest):
        expectEqual(reference.map { $0 == (content, rest) }, true, "the grammar reads it otherwise")
    case .failed, .incomplete:
        // Only the limit of chunk extensions may refuse what the grammar allows.
        expect(reference == nil || bytes.count > 4096, "the grammar allows it")
    }
    if generator.oneIn(4) { checkEncoded(bytes, &generator) }
}

private enum Outcome: Equatable {
    case ended(content: [UInt8], trailers: HTTPFields, rest: Int)
    case failed(ChunkedDecoder.Failure)
    case incomplete(content: [UInt8])
}

/// As a connection does it that receives pieces ending at `cuts` and takes at most `take` bytes of content at once, from
/// its buffer while that holds some, else from the pieces themselves.
private func decode(_ bytes: [UInt8], cuts: [Int], take: Int) -> Outcome {
    var decoder = ChunkedDecoder()
    var content: [UInt8] = []
    var start = 0
    for cut in cuts + [bytes.count] {
        piece: while true {
            if start < cut, decoder.remainingInChunk > 0 {
                let taken = min(take, cut - start, Int(clamping: decoder.remainingInChunk))
                content += bytes[start..<start + taken]
                start += taken
                decoder.tookData(taken)
                continue
            }
            let step: ChunkedDecoder.Step
            do { step = try decoder.next(bytes.span.extracting(start..<cut)) } catch { return .failed(error) }
            switch step {
            case .needMore(let consumed):
                start += consumed
                expectEqual(start, cut, "bytes left over")
                break piece
            case .data(let skip, let count):
                start += skip
                expect(count >= 1 && count <= cut - start, "\(count) bytes of content")
                expect(Int64(count) <= decoder.remainingInChunk, "more content than the chunk holds")
            case .end(let consumed, let trailers):
                checkTrailers(trailers)
                return .ended(content: content, trailers: trailers, rest: bytes.count - start - consumed)
            }
        }
    }
    return .incomplete(content: content)
}

private func checkTrailers(_ trailers: HTTPFields) {
    for index in trailers.entries.indices {
        let name = trailers.rawName(at: index)
        expect(!name.isEmpty && name.allSatisfy(HTTPCharacters.isToken), "a name that is no token")
        expect(trailers.rawValue(at: index).allSatisfy(HTTPCharacters.isFieldValue), "a control character in a value")
    }
    for name: FieldName in ["Content-Length", "Transfer-Encoding", "Host", "Authorization", "Connection"] {
        expect(!trailers.contains(name), "\(name) in the trailers")
    }
}

/// RFC 9112 §7.1 with the whole body in hand; `nil` for what is refused or not complete.
private func readByGrammar(_ bytes: [UInt8]) -> (content: [UInt8], rest: Int)? {
    var content: [UInt8] = []
    var position = 0
    func line() -> ArraySlice<UInt8>? {
        var end = position
        while end + 1 < bytes.count {
            if bytes[end] == 13, bytes[end + 1] == 10 {
                defer { position = end + 2 }
                return bytes[position..<end]
            }
            guard HTTPCharacters.isFieldValue(bytes[end]) else { return nil }
            end += 1
        }
        return nil
    }
    while true {
        guard let sizeLine = line() else { return nil }
        let digits = sizeLine.prefix { $0 != UInt8(ascii: ";") }
        guard (1...16).contains(digits.count), digits.first != UInt8(ascii: "+"), digits.first != UInt8(ascii: "-"),
            let size = UInt64(text(digits), radix: 16), let size = Int64(exactly: size)
        else { return nil }
        if size == 0 { break }
        guard size <= Int64(bytes.count - position) else { return nil }
        content += bytes[position..<position + Int(size)]
        position += Int(size)
        guard position + 2 <= bytes.count, bytes[position] == 13, bytes[position + 1] == 10 else { return nil }
        position += 2
    }
    // As many trailers as are allowed.
    for _ in 0...64 {
        guard let field = line() else { return nil }
        if field.isEmpty { return (content, bytes.count - position) }
        guard let colon = field.firstIndex(of: UInt8(ascii: ":")), colon > field.startIndex,
            field[..<colon].allSatisfy(HTTPCharacters.isToken)
        else { return nil }
    }
    return nil
}

/// The decoder reads what the encoder writes.
private func checkEncoded(_ content: [UInt8], _ generator: inout SeededGenerator) {
    var encoded: [UInt8] = []
    var start = 0
    for cut in generator.cuts(3, in: content.count) + [content.count] {
        encoded += ChunkedEncoder.chunk(Array(content[start..<cut]))
        start = cut
    }
    encoded += ChunkedEncoder.terminator()
    expectEqual(
        decode(encoded + [0], cuts: generator.cuts(2, in: encoded.count), take: 7),
        .ended(content: content, trailers: HTTPFields(), rest: 1),
        "encoded and decoded"
    )
}
