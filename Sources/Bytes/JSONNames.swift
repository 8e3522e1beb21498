internal import Foundation

/// What `JSONDecoder` does not say about an object: names that are there twice, of which it drops one, and commas at the end
/// of objects and arrays, which it allows against RFC 8259.
package enum JSONNames {
    /// The names that an object has more than once, each once, in their order.
    ///
    /// - Parameters:
    ///   - json: An object that a decoder has accepted.
    ///   - isDeep: Looks into the objects within it, too, each on its own.
    /// - Returns: `nil` if a closing bracket follows a comma.
    package static func repeated(in json: [UInt8], isDeep: Bool = false) -> [String]? {
        // One for each open bracket: the names in the object so far; `nil` for an array, or an object not looked into.
        var open: [Set<String>?] = []
        var repeated: [String] = []
        var told: Set<String> = []
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
                    if !isNew, told.insert(name).inserted { repeated.append(name) }
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

    /// What a quoted string stands for.
    private static func text(_ quoted: ArraySlice<UInt8>) -> String? {
        guard quoted.contains(UInt8(ascii: "\\")) else {
            return String(decoding: quoted.dropFirst().dropLast(), as: UTF8.self)
        }
        return try? JSONDecoder().decode(String.self, from: Data(quoted))
    }
}
