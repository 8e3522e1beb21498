internal import Bytes

/// Where a page of a listing begins: behind something that was told before.
///
/// Keys are in the order of their bytes.
package enum ListingPosition: Sendable, Equatable {
    /// Behind this key; with an id, behind the upload with that id among those of the key.
    case key(String, id: String? = nil)
    /// Behind all keys that begin so.
    case prefix(String)

    /// The position of a marker, which may be a key or what stands for several.
    ///
    /// What a page tells once for all keys that begin so ends with the delimiter, and so does the marker for the next page.
    package init(marker: String, prefix: String, delimiter: String?) {
        if let delimiter, Self.group(of: marker, prefix: prefix, delimiter: delimiter)?.utf8.count == marker.utf8.count
        {
            self = .prefix(marker)
        } else {
            self = .key(marker)
        }
    }

    /// What a page tells in place of the key; `nil` if the delimiter is not behind the prefix in it.
    static func group(of key: String, prefix: String, delimiter: String) -> String? {
        let bytes = Array(key.utf8)
        let wanted = Array(delimiter.utf8)
        let start = prefix.utf8.count
        guard !wanted.isEmpty, bytes.count >= start + wanted.count, bytes.starts(with: prefix.utf8) else { return nil }
        for index in start...(bytes.count - wanted.count) where bytes[index...].starts(with: wanted) {
            // It ends behind a whole text in UTF-8, so it is one itself.
            return String(decoding: bytes[..<(index + wanted.count)], as: UTF8.self)
        }
        return nil
    }

    /// What is told to clients as marker of the next page.
    package var marker: String {
        switch self {
        case .key(let key, _): key
        case .prefix(let prefix): prefix
        }
    }

    /// The key behind which keys are to be looked for, and of what id if it is that of uploads.
    ///
    /// No key of 1024 bytes that begins with the prefix is behind 256 of the last character of Unicode.
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

    /// As a continuation token, which holds nothing but a key that the page before it told.
    ///
    /// Not for uploads, whose ids it leaves out.
    package var token: String {
        let (tag, text) =
            switch self {
            case .key(let key, _): (Self.keyTag, key)
            case .prefix(let prefix): (Self.prefixTag, prefix)
            }
        return Base64.encodeURLSafe([tag] + Array(text.utf8))
    }

    /// `nil` for a text that is no such token.
    package init?(token: String) {
        guard token.utf8.count <= 4 * S3Names.maximumKeyByteCount, let bytes = Base64.decodeURLSafe(token),
            let tag = bytes.first, let text = String(validating: bytes.dropFirst(), as: UTF8.self), !text.isEmpty,
            !text.utf8.contains(0)
        else { return nil }
        switch tag {
        case Self.keyTag: self = .key(text)
        case Self.prefixTag: self = .prefix(text)
        default: return nil
        }
    }
}

/// Behind what to look for items in a store.
package struct ListingCursor: Sendable, Equatable {
    package let key: String
    /// Items with the key and greater ids are behind it, too; `nil`: none with the key.
    package let id: String?

    package init(key: String, id: String? = nil) {
        self.key = key
        self.id = id
    }
}

/// Whether a listing tells of a key.
package enum ListingDecision: Sendable {
    case include
    case skip
    /// Neither of it nor of any key behind it.
    case stop
}
