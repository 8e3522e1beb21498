internal import Foundation

/// Finds two errors in JSON objects that `JSONDecoder` does not report: repeated names, of which it drops one, and
/// trailing commas, which it accepts against RFC 8259.
package enum JSONNames {
    /// The names that an object has more than once, each listed once, in order.
    ///
    /// - Parameters:
    ///   - json: An object that a decoder has accepted.
    ///   - isDeep: Also checks nested objects, each separately.
    /// - Returns: The names; `nil` if a closing bracket follows a comma.
    package static func repeated(in json: [UInt8], isDeep: Bool = false) -> [String]? {
        // One entry for each open bracket: the names in the object so far; `nil` for an array or an object that is
        // skipped.
        var open: [Set<String>?] = []
        var repeated: [String] = []
        var reported: Set<String> = []
        var isName = false
        var followsComma = false
        var index = json.startIndex
        while index < json.endIndex {
            defer { index += 1 }
            switch json[index] {
            case UInt8(ascii: " "), UInt8(ascii: "\n"), UInt8(ascii: "\r"), UInt8(ascii: "\t"):
                continue
            case UInt8(ascii: "{"), UInt8(ascii: "["):
                isName = json[index] == UInt8(ascii: "{") && (isDeep || open.isEmpty)
                open.append(isName ? [] : nil)
            case UInt8(ascii: "}"), UInt8(ascii: "]"):
                if followsComma { return nil }
                _ = open.popLast()
            case UInt8(ascii: ","):
                isName = open.last.map { $0 != nil } ?? false
                followsComma = true
                continue
            case UInt8(ascii: "\""):
                let end = endOfString(json, from: index)
                if isName, let name = text(json[index..<end]) {
                    let isNew = open[open.count - 1]?.insert(name).inserted ?? true
                    if !isNew, reported.insert(name).inserted { repeated.append(name) }
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
            return String(decoding: quoted.dropFirst().dropLast(), as: UTF8.self)
        }
        return try? JSONDecoder().decode(String.self, from: Data(quoted))
    }
}
