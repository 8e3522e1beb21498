/// How large and how deep JSON may be that a client sends; checked by one look at its bytes, before anything is made of them.
///
/// What a decoder makes of a document takes many times its memory.
package struct JSONLimits: Sendable {
    /// Objects and arrays within each other.
    package var depth = 32
    /// Members of all objects together.
    package var members = 1000
    /// Elements of all arrays together.
    package var elements = 20_000

    package init() {}

    /// What a document has too much of, as words that say how much is allowed; `nil` if it keeps within the limits.
    ///
    /// Of bytes that are no JSON it says anything.
    package func excess(in json: [UInt8]) -> String? {
        // One for each open bracket: whether it is that of an object.
        var open: [Bool] = []
        var members = 0
        var elements = 0
        // A bracket was opened, and nothing has followed it.
        var isEmpty = false
        var index = json.startIndex
        while index < json.endIndex {
            let byte = json[index]
            if byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 {
                index += 1
                continue
            }
            let isClosing = byte == UInt8(ascii: "}") || byte == UInt8(ascii: "]")
            // The first entry has no comma before it.
            if byte == UInt8(ascii: ",") || (isEmpty && !isClosing), let isObject = open.last {
                if isObject { members += 1 } else { elements += 1 }
                if members > self.members { return "at most \(self.members) members" }
                if elements > self.elements { return "at most \(self.elements) elements of arrays" }
            }
            isEmpty = false
            switch byte {
            case UInt8(ascii: "{"), UInt8(ascii: "["):
                open.append(byte == UInt8(ascii: "{"))
                isEmpty = true
                if open.count > depth { return "at most \(depth) objects and arrays within each other" }
            case UInt8(ascii: "}"), UInt8(ascii: "]"): _ = open.popLast()
            case UInt8(ascii: "\""):
                index = JSONNames.endOfString(json, from: index)
                continue
            default: break
            }
            index += 1
        }
        return nil
    }
}
