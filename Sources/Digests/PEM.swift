internal import Bytes

/// Text with blocks of binary content (RFC 7468).
package enum PEM {
    /// The complete blocks of a text, in order; text between them is ignored, and so are blocks that are not base64.
    package static func blocks(in text: String) -> [(label: String, content: [UInt8])] {
        var blocks: [(label: String, content: [UInt8])] = []
        var block: (label: Substring, content: String)?
        for line in text.split(whereSeparator: \.isNewline) {
            if let label = label(line, "-----BEGIN ") {
                block = (label, "")
            } else if let label = label(line, "-----END ") {
                if let block, block.label == label, let content = Base64.decode(block.content) {
                    blocks.append((String(label), content))
                }
                block = nil
            } else {
                block?.content += line.filter { !$0.isWhitespace }
            }
        }
        return blocks
    }

    /// One block, which ends with a line end.
    package static func text(_ label: String, _ content: [UInt8]) -> String {
        var lines = ["-----BEGIN \(label)-----"]
        var rest = Base64.encode(content)[...]
        while !rest.isEmpty {
            lines.append(String(rest.prefix(64)))
            rest = rest.dropFirst(64)
        }
        return (lines + ["-----END \(label)-----", ""]).joined(separator: "\n")
    }

    private static func label(_ line: Substring, _ prefix: String) -> Substring? {
        var line = line
        while line.last?.isWhitespace == true { line.removeLast() }
        guard line.hasPrefix(prefix), line.hasSuffix("-----") else { return nil }
        return line.dropFirst(prefix.count).dropLast(5)
    }
}
