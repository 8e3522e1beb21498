internal import Bytes

/// Where a page of a listing begins: after an entry of an earlier page.
///
/// Keys are in byte order.
package enum ListingPosition: Sendable, Equatable {
    /// After this key; with an id, after that upload among those with the same key.
    case key(String, id: String? = nil)
    /// After all keys with this prefix.
    case prefix(String)

    /// The position of a marker, which may be a key or a common prefix.
    ///
    /// A common prefix ends with the delimiter, and so does the marker for the next page.
    package init(marker: String, prefix: String, delimiter: String?) {
        if let delimiter, Self.group(of: marker, prefix: prefix, delimiter: delimiter)?.utf8.count == marker.utf8.count
        {
            self = .prefix(marker)
        } else {
            self = .key(marker)
        }
    }

    /// The common prefix of a key; `nil` if the delimiter does not occur after the prefix.
    static func group(of key: String, prefix: String, delimiter: String) -> String? {
        let bytes = Array(key.utf8)
        let wanted = Array(delimiter.utf8)
        let start = prefix.utf8.count
        guard !wanted.isEmpty, bytes.count >= start + wanted.count, bytes.starts(with: prefix.utf8) else { return nil }
        for index in start...(bytes.count - wanted.count) where bytes[index...].starts(with: wanted) {
            // The cut follows complete UTF-8 text, so the result is valid UTF-8.
            return String(decoding: bytes[..<(index + wanted.count)], as: UTF8.self)
        }
        return nil
    }

    /// The marker of the next page for clients.
    package var marker: String {
        switch self {
        case .key(let key, _): key
        case .prefix(let prefix): prefix
        }
    }

    /// The key after which to fetch, and the id in a listing of uploads.
    ///
    /// A key has at most 1024 bytes, so no key with the prefix sorts after 256 times the last Unicode character.
    package var cursor: ListingCursor {
        switch self {
        case .key(let key, let id): ListingCursor(key: key, id: id)
        case .prefix(let prefix):
            ListingCursor(
                key: prefix + String(repeating: "\u{10FFFF}", count: S3Names.maximumKeyByteCount / 4),
                id: nil
            )
        }
    }

    // MARK: Tokens

    private static let keyTag: UInt8 = 1
    private static let prefixTag: UInt8 = 2

    /// As a continuation token, which contains nothing but a key from the previous page.
    ///
    /// Not for uploads, because it omits their ids.
    package var token: String {
        let (tag, text) =
            switch self {
            case .key(let key, _): (Self.keyTag, key)
            case .prefix(let prefix): (Self.prefixTag, prefix)
            }
        return Base64.encodeURLSafe([tag] + Array(text.utf8))
    }

    /// `nil` if the text is not a valid token.
    package init?(token: String) {
        guard token.utf8.count <= 4 * S3Names.maximumKeyByteCount, let bytes = Base64.decodeURLSafe(token),
            let tag = bytes.first, let text = String(clientText: bytes.dropFirst()), !text.isEmpty,
            !text.utf8.contains(0)
        else { return nil }
        switch tag {
        case Self.keyTag: self = .key(text)
        case Self.prefixTag: self = .prefix(text)
        default: return nil
        }
    }
}

/// The position after which a store fetches items.
package struct ListingCursor: Sendable, Equatable {
    package let key: String
    /// Items with this key and greater ids follow too; `nil` skips all items with the key.
    package let id: String?

    package init(key: String, id: String? = nil) {
        self.key = key
        self.id = id
    }
}

/// Whether a key is listed.
package enum ListingDecision: Sendable {
    case include
    case skip
    /// Neither this key nor any after it.
    case stop
}
