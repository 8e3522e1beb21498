/// Finds two errors in JSON that decoders do not report: repeated names, of which they drop one, and trailing commas,
/// which `JSONDecoder` accepts against RFC 8259.
package enum JSONNames {
    /// Whether no object in a document has a name twice, and no closing bracket follows a comma.
    ///
    /// - Parameter json: A document that a decoder has accepted.
    /// - Returns: Whether both is so.
    package static func areUnique(in json: [UInt8]) -> Bool { repeated(in: json) == [] }

    /// The names that an object, at any depth, has more than once, each listed once, in order.
    ///
    /// Names are compared by their bytes.
    ///
    /// - Parameter json: A document that a decoder has accepted.
    /// - Returns: The names; `nil` if a closing bracket follows a comma.
    package static func repeated(in json: [UInt8]) -> [String]? {
        // One entry for each open bracket: the names in the object so far; `nil` for an array.
        var open: [Set<ExactText>?] = []
        var repeated: [String] = []
        var reported: Set<ExactText> = []
        var isName = false
        var followsComma = false
        var index = json.startIndex
        while index < json.endIndex {
            defer { index += 1 }
            switch json[index] {
            case UInt8(ascii: " "), UInt8(ascii: "\n"), UInt8(ascii: "\r"), UInt8(ascii: "\t"):
                continue
            case UInt8(ascii: "{"), UInt8(ascii: "["):
                isName = json[index] == UInt8(ascii: "{")
                open.append(isName ? [] : nil)
            case UInt8(ascii: "}"), UInt8(ascii: "]"):
                if followsComma { return nil }
                _ = open.popLast()
                isName = false
            case UInt8(ascii: ","):
                isName = open.last.map { $0 != nil } ?? false
                followsComma = true
                continue
            case UInt8(ascii: "\""):
                let end = endOfString(json, from: index)
                if isName, let name = text(json[index..<end]).map({ ExactText($0) }) {
                    let isNew = open[open.count - 1]?.insert(name).inserted ?? true
                    if !isNew, reported.insert(name).inserted { repeated.append(name.text) }
                }
                isName = false
                index = end - 1
            default:
                break
            }
            followsComma = false
        }
        return repeated
    }

    /// The index after the closing quotation mark of the string that begins at `start`.
    static func endOfString(_ json: [UInt8], from start: Int) -> Int {
        var index = start + 1
        while index < json.endIndex, json[index] != UInt8(ascii: "\"") {
            index += json[index] == UInt8(ascii: "\\") ? 2 : 1
        }
        return min(index + 1, json.endIndex)
    }

    /// Decodes a quoted string.
    private static func text(_ quoted: ArraySlice<UInt8>) -> String? {
        guard quoted.contains(UInt8(ascii: "\\")) else {
            return String(clientText: quoted.dropFirst().dropLast())
        }
        guard case .string(let text)? = JSONValue(json: Array(quoted)) else { return nil }
        return text
    }
}
