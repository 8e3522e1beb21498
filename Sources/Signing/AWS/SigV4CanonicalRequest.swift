/// The canonical form of a request, which is signed ("Create a signed AWS API request", step 1, AWS IAM User Guide).
enum SigV4CanonicalRequest {
    /// The canonical request.
    ///
    /// - Parameters:
    ///   - request: With all signed headers.
    ///   - query: The signed parameters, in any order.
    ///   - signedHeaders: Names in lower case, in byte order.
    ///   - payload: The last line.
    ///   - rules: How to write the path.
    /// - Returns: ASCII text, except for headers with other characters.
    static func text(
        of request: SigningRequest,
        query: [SigningField],
        signedHeaders: [String],
        payload: SigV4Payload,
        rules: SigV4Rules
    ) -> [UInt8] {
        let newLine = UInt8(ascii: "\n")
        var text = Array(request.method.utf8)
        text.append(newLine)
        appendPath(request.path, rules: rules, to: &text)
        text.append(newLine)
        text.append(contentsOf: self.query(query).utf8)
        text.append(newLine)
        let headers = request.headers.map { (name: SigningText.lowercased($0.name), value: $0.value) }
        for name in signedHeaders {
            text.append(contentsOf: name.utf8)
            text.append(UInt8(ascii: ":"))
            var isFirst = true
            for header in headers where header.name == name {
                if !isFirst { text.append(UInt8(ascii: ",")) }
                isFirst = false
                appendValue(header.value, to: &text)
            }
            text.append(newLine)
        }
        text.append(newLine)
        text.append(contentsOf: signedHeaders.joined(separator: ";").utf8)
        text.append(newLine)
        text.append(contentsOf: payload.text.utf8)
        return text
    }

    /// The escaped parameters in byte order, by name and then by value.
    static func query(_ parameters: [SigningField]) -> String {
        parameters.canonical(keepsEquals: true)
    }

    /// The distinct names in lower case, in byte order.
    static func names(of headers: [SigningField]) -> [String] {
        Set(headers.map { SigningText.lowercased($0.name) }).sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
    }

    /// Appends the value, trimmed, with each run of white space replaced by one space.
    static func appendValue(_ value: String, to text: inout [UInt8]) {
        var isFirst = true
        for word in value.utf8.split(whereSeparator: isWhitespace) {
            if !isFirst { text.append(UInt8(ascii: " ")) }
            isFirst = false
            text.append(contentsOf: word)
        }
    }

    private static func isWhitespace(_ byte: UInt8) -> Bool {
        byte == 0x20 || (0x09...0x0D).contains(byte)
    }

    private static func appendPath(_ path: String, rules: SigV4Rules, to text: inout [UInt8]) {
        let slash = UInt8(ascii: "/")
        guard !path.isEmpty else {
            text.append(slash)
            return
        }
        let segments = path.utf8.split(separator: slash, omittingEmptySubsequences: false)
        for (index, segment) in (rules.normalizesPath ? normalized(segments) : segments).enumerated() {
            if index > 0 { text.append(slash) }
            if rules.escapesPathTwice {
                FormEncoding.append(segment, to: &text)
            } else {
                FormEncoding.append(SigningText.percentDecoded(segment), to: &text)
            }
        }
    }

    private static func normalized(_ segments: [Substring.UTF8View]) -> [Substring.UTF8View] {
        var kept: [Substring.UTF8View] = []
        for segment in segments where !segment.isEmpty && !segment.elementsEqual(".".utf8) {
            if segment.elementsEqual("..".utf8) {
                _ = kept.popLast()
            } else {
                kept.append(segment)
            }
        }
        let empty = Substring().utf8
        return [empty] + kept + (kept.isEmpty || segments.last?.isEmpty == true ? [empty] : [])
    }
}
