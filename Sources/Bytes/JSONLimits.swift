/// Limits on the size and depth of JSON from clients.
///
/// One pass over the bytes checks them before anything is decoded.
///
/// Decoding a document takes many times its size in memory.
package struct JSONLimits: Sendable {
    /// Levels of nested objects and arrays.
    package var depth = 32
    /// Members of all objects together.
    package var members = 1000
    /// Elements of all arrays together.
    package var elements = 20_000

    package init() {}

    /// Which limit a document exceeds, as text that names the allowed number; `nil` if it exceeds none.
    ///
    /// The result has no meaning if the bytes are not JSON.
    package func excess(in json: [UInt8]) -> String? {
        // One entry for each open bracket: whether it opened an object.
        var open: [Bool] = []
        var members = 0
        var elements = 0
        // A bracket was opened and nothing has followed it yet.
        var isEmpty = false
        var index = json.startIndex
        while index < json.endIndex {
            let byte = json[index]
            if byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 {
                index += 1
                continue
            }
            let isClosing = byte == UInt8(ascii: "}") || byte == UInt8(ascii: "]")
            // No comma precedes the first entry.
            if byte == UInt8(ascii: ",") || (isEmpty && !isClosing), let isObject = open.last {
                if isObject { members += 1 } else { elements += 1 }
                if members > self.members { return "at most \(self.members) members" }
                if elements > self.elements { return "at most \(self.elements) array elements" }
            }
            isEmpty = false
            switch byte {
            case UInt8(ascii: "{"), UInt8(ascii: "["):
                open.append(byte == UInt8(ascii: "{"))
                isEmpty = true
                if open.count > depth { return "at most \(depth) nested objects and arrays" }
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
