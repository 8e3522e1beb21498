internal import Bytes

/// The media types that a client accepts (RFC 9110 §12.5.1).
package struct AcceptHeader: Sendable, Equatable {
    private struct Range: Sendable, Equatable {
        let mediaType: MediaType
        /// In thousandths.
        let quality: Int
    }

    private let ranges: [Range]

    /// - Parameter field: The value of Accept. `nil`, or a value with nothing well-formed in it, accepts everything
    ///   equally.
    package init(_ field: String?) {
        ranges = FieldValueSyntax.split(field ?? "", at: UInt8(ascii: ",")).compactMap(Self.range)
    }

    /// The weight of `mediaType`: 0 (not acceptable) to 1000.
    ///
    /// The most specific matching range decides.
    package func quality(of mediaType: String) -> Int {
        guard let offered = MediaType(mediaType) else { return 0 }
        guard !ranges.isEmpty else { return 1000 }
        var best: (specificity: Int, quality: Int)?
        for range in ranges {
            guard let specificity = Self.specificity(of: range.mediaType, for: offered) else { continue }
            if specificity > best?.specificity ?? -1 { best = (specificity, range.quality) }
        }
        return best?.quality ?? 0
    }

    /// Whether `mediaType` has a higher weight than `other`.
    package func prefers(_ mediaType: String, over other: String) -> Bool {
        quality(of: mediaType) > quality(of: other)
    }

    /// The offer with the highest weight, the first one among equals; `nil` if none is acceptable.
    package func best(of offers: [String]) -> String? {
        var best: (offer: String, quality: Int)?
        for offer in offers {
            let quality = quality(of: offer)
            if quality > best?.quality ?? 0 { best = (offer, quality) }
        }
        return best?.offer
    }

    /// 0 for `*/*`, 1 for `type/*`, more for a full type and each of its parameters; `nil` if the range does not match.
    private static func specificity(of range: MediaType, for offered: MediaType) -> Int? {
        guard range.type != "*" else { return range.subtype == "*" ? 0 : nil }
        guard range.type == offered.type else { return nil }
        guard range.subtype != "*" else { return 1 }
        guard range.subtype == offered.subtype else { return nil }
        let agrees = range.parameters.allSatisfy { wanted in
            offered.parameter(wanted.name)?.lowercasedASCII() == wanted.value.lowercasedASCII()
        }
        return agrees ? 2 + range.parameters.count : nil
    }

    private static func range(_ text: String) -> Range? {
        var pieces = FieldValueSyntax.split(text, at: UInt8(ascii: ";"))
        var quality = 1000
        if let index = pieces.firstIndex(where: { $0.lowercasedASCII().hasPrefix("q=") }) {
            guard let parsed = thousandths(pieces[index].dropFirst(2)) else { return nil }
            quality = parsed
            // Parameters after the weight do not belong to the media type.
            pieces.removeSubrange(index...)
        }
        return MediaType(pieces.joined(separator: ";")).map { Range(mediaType: $0, quality: quality) }
    }

    /// `0`, `1` or a fraction with up to three digits (RFC 9110 §12.4.2).
    private static func thousandths(_ text: Substring) -> Int? {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count <= 2, let whole = parts.first, whole == "0" || whole == "1" else { return nil }
        let fraction = parts.count == 2 ? parts[1] : ""
        guard fraction.utf8.count <= 3, fraction.utf8.allSatisfy(HTTPCharacters.isDigit) else { return nil }
        let padded = String(fraction) + String(repeating: "0", count: 3 - fraction.utf8.count)
        guard let part = Int(padded), whole == "0" || part == 0 else { return nil }
        return whole == "1" ? 1000 : part
    }
}
