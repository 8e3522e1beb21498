internal import Foundation

/// Text in which parts are searched for without regard to case.
package struct SearchableText: Sendable {
    fileprivate let bytes: [UInt8]

    package init(_ text: String) { bytes = Self.folded(text) }

    /// Canonically equivalent texts have equal bytes.
    fileprivate static func folded(_ text: String) -> [UInt8] {
        Array(text.lowercased().precomposedStringWithCanonicalMapping.utf8)
    }
}

/// A part of texts that is searched for without regard to case.
///
/// It is prepared once. Each search takes time by the length of the text only (Knuth, Morris and Pratt): `contains` takes
/// time by the product of both lengths, which is milliseconds for a description of one letter.
package struct SearchedPart: Sendable, Equatable {
    private let bytes: [UInt8]
    /// By the number of bytes that match: how many of them match still if the next one does not.
    private let shorter: [Int]

    package init(_ text: String) {
        let bytes = SearchableText.folded(text)
        var shorter = [Int](repeating: 0, count: bytes.count + 1)
        var matched = 0
        for index in bytes.indices.dropFirst() {
            while matched > 0, bytes[index] != bytes[matched] { matched = shorter[matched] }
            if bytes[index] == bytes[matched] { matched += 1 }
            shorter[index + 1] = matched
        }
        self.bytes = bytes
        self.shorter = shorter
    }

    /// Whether the text has it; no text has an empty one.
    package func isPart(of text: SearchableText) -> Bool {
        if bytes.isEmpty { return false }
        var matched = 0
        for byte in text.bytes {
            if matched == bytes.count { return true }
            while matched > 0, byte != bytes[matched] { matched = shorter[matched] }
            if byte == bytes[matched] { matched += 1 }
        }
        return matched == bytes.count
    }
}
