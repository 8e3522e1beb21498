// Values of fields, read and written: ranges, dates, entity tags and conditions, media types, Accept, Authorization,
// Forwarded, Content-Disposition, CORS, and heads of responses. The first byte of an input chooses which.

internal import Bytes
internal import Glibc
internal import HTTPWire

private let checks: [@Sendable (String) -> Void] = [
    checkRange, checkDate, checkTags, checkMediaType, checkAccept, checkAuthorization, checkForwarded,
    checkDisposition, checkCORS, checkWriting,
]

func fuzzFields(_ bytes: [UInt8]) {
    guard let first = bytes.first else { return }
    checks[Int(first) % checks.count](text(bytes.dropFirst()))
}

/// A field with this value, as one that was received.
private func received(_ name: FieldName, _ value: String) -> HTTPFields {
    var fields = HTTPFields()
    fields.append(name, value)
    return fields
}

private func isPrintable(_ text: String) -> Bool { text.utf8.allSatisfy { $0 >= 0x20 && $0 < 0x7F } }

// MARK: Ranges and dates

/// The size comes before the first space.
private func checkRange(_ given: String) {
    let parts = given.split(separator: " ", maxSplits: 1, omittingEmptySubsequences: false)
    guard let size = Int64(parts[0]), size >= 0 else { return }
    switch ByteRanges.select(parts.count > 1 ? String(parts[1]) : nil, size: size) {
    case .whole: break
    case .unsatisfiable: expect(isPrintable(ByteRanges.unsatisfiedContentRange(size: size)), "Content-Range")
    case .single(let range):
        expect(!range.isEmpty && range.lowerBound >= 0 && range.upperBound <= size, "\(range) of \(size)")
        let written = ByteRanges.contentRange(range, size: size)
        expectEqual(written, "bytes \(range.lowerBound)-\(range.upperBound - 1)/\(size)", "Content-Range")
        expectEqual(
            ByteRanges.select("bytes=\(range.lowerBound)-\(range.upperBound - 1)", size: size),
            .single(range),
            "the same range by its numbers"
        )
    }
}

private func checkDate(_ given: String) {
    if let seconds = Int64(given) {
        let limited = min(max(seconds, -62_167_219_200), 253_402_300_799)
        let written = HTTPDate.format(seconds)
        expectEqual(written.utf8.count, 29, written)
        expectEqual(HTTPDate.parse(written), limited, written)
        var time = time_t(limited)
        var parts = tm()
        gmtime_r(&time, &parts)
        var buffer = [CChar](repeating: 0, count: 64)
        strftime(&buffer, buffer.count, "%d %b ", &parts)
        let day = String(decoding: buffer.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
        expect(written.contains(day), "\(written) is not \(day)")
    }
    if let seconds = HTTPDate.parse(given) {
        expectEqual(HTTPDate.parse(HTTPDate.format(seconds)), seconds, given)
        // Of IMF-fixdate only the day of the week and a leap second may come back otherwise.
        if given.utf8.count == 29, given.hasSuffix("GMT"), !given.contains(":60 ") {
            expect(HTTPDate.format(seconds).dropFirst(3) == given.dropFirst(3), given)
        }
    }
}

// MARK: Entity tags

private func checkTags(_ given: String) {
    if let tag = EntityTag(given) {
        expect(tag.description.utf8.elementsEqual(given.utf8), given)
        expect(tag.matchesWeakly(tag) && tag.matchesStrongly(tag) == !tag.isWeak, given)
        // A tag is in a list of tags wherever it stands.
        if !tag.isWeak {
            for list in [given, "\"x\", \(given)", "W/\"y,\" , \(given) ,\"z\""] {
                let outcome = EntityTagConditions.evaluate(received("If-Match", list), method: .put, tag: tag)
                expectEqual(outcome, .proceed, list)
            }
        }
    }
    let tag = EntityTag(strong: "a-tag")
    for name: FieldName in ["If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "If-Range"] {
        let fields = received(name, given)
        for method in [HTTPMethod.get, .put] {
            let outcome = EntityTagConditions.evaluate(fields, method: method, tag: tag, lastModified: 784_111_777)
            expect(outcome != .notModified || method == .get, "304 for \(method)")
            // Conditions that name no tag and no date do not hold, or are ignored.
            if name == "If-Match", !given.contains("a-tag"), given != "*", given.trimmingWhitespace() != "*" {
                expectEqual(outcome, .preconditionFailed, given)
            }
        }
        if EntityTagConditions.honoursRange(fields, tag: tag, lastModified: 784_111_777), name == "If-Range" {
            expect(given.contains("a-tag") || HTTPDate.parse(fields["If-Range"] ?? "") == 784_111_777, given)
        }
    }
}

// MARK: Media types, Accept, Authorization

private func checkMediaType(_ given: String) {
    guard let type = MediaType(given) else { return }
    let essence = type.essence
    expect(isPrintable(essence) && essence == essence.lowercased(), essence)
    guard let again = MediaType(type.description) else {
        expect(false, "\(type.description) is refused")
        return
    }
    expectEqual(again, type, given)
    expect(
        again.parameters.elementsEqual(type.parameters) { $0.value.utf8.elementsEqual($1.value.utf8) },
        "\(given) became \(type.description)"
    )
}

private func checkAccept(_ given: String) {
    let accept = AcceptHeader(given)
    let offers = ["application/json", "text/html; charset=utf-8", "image/png"]
    for offer in offers {
        expect((0...1000).contains(accept.quality(of: offer)), "quality of \(offer) in \(given)")
    }
    if let best = accept.best(of: offers) {
        expect(offers.allSatisfy { accept.quality(of: $0) <= accept.quality(of: best) }, "best of \(given)")
    } else {
        expect(offers.allSatisfy { accept.quality(of: $0) == 0 }, "nothing of \(given)")
    }
}

private func checkAuthorization(_ given: String) {
    guard let field = AuthorizationHeader(given) else { return }
    expect(isPrintable(field.scheme) && field.scheme == field.scheme.lowercased(), field.scheme)
    if let token = field.bearerToken {
        expect(isPrintable(token) && !token.isEmpty && !token.utf8.contains(0x20), "token \(token)")
        expect(given.hasSuffix(token) || given.trimmingWhitespace().hasSuffix(token), "token \(token) of \(given)")
    }
}

// MARK: Forwarded

private func checkForwarded(_ given: String) {
    for name: FieldName in ["Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"] {
        for isTrusted in [false, true] { checkForwarded(given, in: name, isTrusted: isTrusted) }
    }
}

private func checkForwarded(_ given: String, in name: FieldName, isTrusted: Bool) {
    let forwarded = ForwardedHeaders(received(name, given)) { _ in isTrusted }
    if let scheme = forwarded.scheme { expect(scheme == "http" || scheme == "https", scheme) }
    if let host = forwarded.host { expect(isPrintable(host) && Authority.isValid(host), host) }
    if let client = forwarded.client { expect(isAddress(client), "client \(client) of \(given)") }
}

private func isAddress(_ text: String) -> Bool {
    var four = in_addr()
    var six = in6_addr()
    return inet_pton(AF_INET, text, &four) == 1 || inet_pton(AF_INET6, text, &six) == 1
}

// MARK: Writers

private func checkDisposition(_ given: String) {
    for value in [ContentDisposition.attachment(fileName: given), ContentDisposition.inline(fileName: given)] {
        expect(isPrintable(value), value)
        let pieces = value.split(separator: "\"", omittingEmptySubsequences: false)
        expectEqual(pieces.count, 3, "quotes in \(value)")
        let name = pieces[1]
        expect(!name.isEmpty && !name.contains { "/\\%".contains($0) }, "file name \(name)")
        expect(name != "." && name != "..", "file name \(name)")
        guard pieces[2].isEmpty || pieces[2].hasPrefix("; filename*=UTF-8''") else {
            expect(false, value)
            return
        }
        guard !pieces[2].isEmpty else { continue }
        let encoded = pieces[2].dropFirst("; filename*=UTF-8''".count)
        guard let decoded = PercentEncoding.decode(encoded.utf8), let name = String(validating: decoded, as: UTF8.self)
        else {
            expect(false, value)
            return
        }
        expect(!name.utf8.contains { $0 < 0x20 || $0 == 0x7F || $0 == 0x2F || $0 == 0x5C }, "file name \(name)")
    }
}

private func checkCORS(_ given: String) {
    var head = RequestHead(
        method: .options,
        target: RequestTarget(rawPath: "/", rawQuery: nil, authority: nil, segments: [""]),
        fields: ["Origin": given, "Access-Control-Request-Method": "PATCH", "Access-Control-Request-Headers": given]
    )
    let policies = [
        CORSPolicy(),
        CORSPolicy(origins: .only(["https://app.example"])),
        (try? CORSPolicy.Origins([given])).map { CORSPolicy(origins: $0) },
    ]
    for policy in policies {
        guard let policy else { continue }
        if let response = policy.preflight(head, methods: [.post, .patch]) { checkResponse(response) }
        head.method = .post
        var response = Response(200)
        policy.decorate(&response, for: head)
        if policy.origins == .only(["https://app.example"]),
            let allowed = response.fields["Access-Control-Allow-Origin"]
        {
            expect(allowed.utf8.elementsEqual("https://app.example".utf8), "let in \(allowed)")
        }
        checkResponse(response)
        head.method = .options
    }
}

/// A name before the first `:`, the rest a value.
private func checkWriting(_ given: String) {
    let parts = given.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
    guard let name = FieldName(parts[0]) else { return }
    let value = parts.count > 1 ? String(parts[1]) : ""
    var response = Response(200, ["A": "b"])
    response.fields.append(name, value)
    checkResponse(response)
    response.fields[name] = value
    response.fields[name] = value + value
    expectEqual(response.fields.count(of: name), 1, "set twice")
    checkResponse(response)
    response.fields[name] = nil
    expect(!response.fields.contains(name), "removed")
}

/// A status line, one line for each field, an empty line; nothing breaks out.
private func checkResponse(_ response: Response) {
    let bytes = ResponseHeadWriter.bytes(ResponseHead(response.status, response.fields))
    expect(bytes.suffix(4).elementsEqual([13, 10, 13, 10]), "no empty line at the end")
    let lines = bytes.dropLast(4).split(separator: 10, omittingEmptySubsequences: false)
    expectEqual(lines.count, 1 + response.fields.entries.count, "lines")
    for (index, line) in lines.enumerated() {
        expect(line.last == 13 || index == lines.count - 1, "LF without CR")
        expect(line.dropLast().allSatisfy(HTTPCharacters.isFieldValue), "a control character")
        if index > 0 { expect(line.contains(UInt8(ascii: ":")), "a line that is no field") }
    }
}
