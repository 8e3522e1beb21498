// Request targets: both parsers agree, a segment cannot leave its place, and the target can be written again.

internal import HTTPWire

#if !FUZZING
// Compiled together with the target when it fuzzes.
internal import SluiceTesting
#endif

func fuzzTarget(_ bytes: [UInt8]) {
    let given = text(bytes)
    for method in [HTTPMethod.get, .options] {
        let target: RequestTarget?
        do throws(HeadFailure) {
            target = try RequestTarget(parsing: given, method: method)
        } catch {
            expect(error.status.code == 400, "status \(error.status.code)")
            target = nil
        }
        if let target {
            check(target, given)
            checkBelow(target)
        }
        checkInHead(bytes, method, target)
    }
    _ = Authority.isValid(given)
}

private func check(_ target: RequestTarget, _ given: String) {
    if target.rawPath == "*" {
        expect(given == "*" && target.segments.isEmpty && target.rawQuery == nil, "asterisk form of \(given)")
        return
    }
    let raw = Array(target.rawPath.utf8)
    expect(raw.first == UInt8(ascii: "/"), "path \(target.rawPath)")
    expectEqual(target.segments.count, raw.count { $0 == UInt8(ascii: "/") }, "segments")
    expect(given.hasSuffix(target.rawPath + (target.rawQuery.map { "?" + $0 } ?? "")) || target.rawPath == "/", given)
    for segment in target.segments {
        expect(!segment.utf8.contains { $0 < 0x20 || $0 == 0x7F }, "a control character in the path")
    }
    if let authority = target.authority { expect(Authority.isValid(authority), "authority \(authority)") }
    // Encoded again, every segment is what it was; a slash or percent sign in it came from an encoded one only.
    let path = target.segments.map { "/" + PercentEncoding.encode($0) }.joined()
    guard let again = try? RequestTarget(parsing: path) else {
        expect(false, "\(path) is refused")
        return
    }
    expect(again.segments.elementsEqual(target.segments) { $0.utf8.elementsEqual($1.utf8) }, "segments of \(path)")
    // Decoded once: the bytes of a segment are those of its piece of the path.
    for (piece, segment) in zip(
        raw.dropFirst().split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false),
        target.segments
    ) {
        expect(PercentEncoding.decode(piece).map { $0.elementsEqual(segment.utf8) } == true, "decoded \(text(piece))")
    }
}

/// A base path takes away what it is, and nothing that only looks like it.
private func checkBelow(_ target: RequestTarget) {
    guard let base = BasePath("/a/b") else { return expect(false, "a base path is refused") }
    if let rest = base.relative(target), target.rawPath != "*" {
        expect(target.segments.starts(with: ["a", "b"]), "\(target.rawPath) is not below \(base)")
        expect(target.rawPath.hasSuffix(rest.rawPath) || rest.rawPath == "/", "\(rest.rawPath) of \(target.rawPath)")
        expect((try? RequestTarget(parsing: rest.rawPath))?.segments == rest.segments, "segments of \(rest.rawPath)")
    }
    guard target.rawPath != "*", let below = try? RequestTarget(parsing: base.description + target.rawPath)
    else { return }
    let rest = base.relative(below)
    expect(rest?.rawPath == target.rawPath && rest?.segments == target.segments, "\(below.rawPath)")
}

/// The same target in a request line.
private func checkInHead(_ bytes: [UInt8], _ method: HTTPMethod, _ target: RequestTarget?) {
    let head = Array("\(method.rawValue) ".utf8) + bytes + Array(" HTTP/1.1\r\nHost: a\r\n\r\n".utf8)
    switch HeadOutcome.of(head) {
    case .parsed(let summary):
        // Bytes that are a request line of their own end this one early.
        if summary.consumed == head.count, summary.fields.entries.count == 1 {
            expect(summary.target == target, "\(summary.target) is not \(String(describing: target))")
        }
    case .failed, .incomplete:
        expect(target == nil || bytes.count > 8000, "refused in a request line, but not alone")
    }
}
