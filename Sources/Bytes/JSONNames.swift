internal import Foundation

/// What `JSONDecoder` does not say about an object: names that are there twice, of which it drops one, and commas at the end
/// of objects and arrays, which it allows against RFC 8259.
package enum JSONNames {
    /// The names that the outermost object has more than once, each once, in their order.
    ///
    /// `json` is an object that a decoder has accepted. The result is `nil` if a closing bracket follows a comma.
    package static func repeated(in json: [UInt8]) -> [String]? {
        var seen: Set<String> = []
        var repeated: [String] = []
        var depth = 0
        var isName = false
        var followsComma = false
        var index = json.startIndex
        while index < json.endIndex {
            defer { index += 1 }
            switch json[index] {
            case UInt8(ascii: " "), UInt8(ascii: "\n"), UInt8(ascii: "\r"), UInt8(ascii: "\t"):
                continue
            case UInt8(ascii: "{"), UInt8(ascii: "["):
                depth += 1
                isName = depth == 1
            case UInt8(ascii: "}"), UInt8(ascii: "]"):
                if followsComma { return nil }
                depth -= 1
            case UInt8(ascii: ","):
                isName = depth == 1
                followsComma = true
                continue
            case UInt8(ascii: "\""):
                let end = endOfString(json, from: index)
                if isName, let name = text(json[index..<end]), !seen.insert(name).inserted, !repeated.contains(name) {
                    repeated.append(name)
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
    private static func endOfString(_ json: [UInt8], from start: Int) -> Int {
        var index = start + 1
        while index < json.endIndex, json[index] != UInt8(ascii: "\"") {
            index += json[index] == UInt8(ascii: "\\") ? 2 : 1
        }
        return min(index + 1, json.endIndex)
    }

    /// What a quoted string stands for.
    private static func text(_ quoted: ArraySlice<UInt8>) -> String? {
        guard quoted.contains(UInt8(ascii: "\\")) else {
            return String(decoding: quoted.dropFirst().dropLast(), as: UTF8.self)
        }
        return try? JSONDecoder().decode(String.self, from: Data(quoted))
    }
}
