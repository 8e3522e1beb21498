internal import Bytes

/// The names and values of a query or a form (`application/x-www-form-urlencoded`), decoded once, in order.
package struct QueryItems: Sendable, Equatable {
    package struct Item: Sendable, Equatable {
        package let name: String
        package let value: String
    }

    /// Why a query is refused.
    package struct Failure: Error, Equatable, Sendable {
        package let reason: String
    }

    package let items: [Item]

    /// Splits at `&` and at the first `=` of an item; `+` means a space and `%XX` a byte of UTF-8.
    ///
    /// An item without `=` has an empty value. Empty items are ignored.
    ///
    /// - Parameter text: The query without `?`; `nil` means an empty query.
    /// - Throws: `Failure` for a `%` without two hexadecimal digits, for text that is not UTF-8, and for NUL.
    package init(_ text: String?) throws(Failure) {
        var items: [Item] = []
        for piece in (text ?? "").utf8.split(separator: UInt8(ascii: "&")) {
            let equals = piece.firstIndex(of: UInt8(ascii: "="))
            items.append(
                Item(
                    name: try Self.decode(piece[..<(equals ?? piece.endIndex)]),
                    value: try equals.map { (mark) throws(Failure) in
                        try Self.decode(piece[piece.index(after: mark)...])
                    } ?? ""
                )
            )
        }
        self.items = items
    }

    package var count: Int { items.count }

    package var isEmpty: Bool { items.isEmpty }

    /// The value of the first item of that name.
    package func first(_ name: String) -> String? { items.first { $0.name.isExactly(name) }?.value }

    /// The values of all items of that name, in order.
    package func all(_ name: String) -> [String] { items.filter { $0.name.isExactly(name) }.map(\.value) }

    private static func decode(_ encoded: Substring.UTF8View) throws(Failure) -> String {
        guard let bytes = PercentEncoding.decode(encoded, plusIsSpace: true) else {
            throw Failure(reason: "% in the query that is not followed by two hexadecimal digits")
        }
        guard !bytes.contains(0) else { throw Failure(reason: "encoded NUL in the query") }
        guard let text = String(clientText: bytes) else {
            throw Failure(reason: "query is not \(ClientText.requirement)")
        }
        return text
    }
}

extension RequestTarget {
    /// The decoded query.
    ///
    /// - Throws: `QueryItems.Failure`.
    package func queryItems() throws(QueryItems.Failure) -> QueryItems { try QueryItems(rawQuery) }
}
