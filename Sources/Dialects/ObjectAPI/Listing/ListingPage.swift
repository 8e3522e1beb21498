/// A page of a listing: items, and what stands for several of them with a common beginning.
package struct ListingPage<Item> {
    package fileprivate(set) var items: [Item] = []
    /// Up to the first delimiter behind the prefix, with it; in order.
    package fileprivate(set) var commonPrefixes: [String] = []
    /// Where the next page begins; `nil` if this is the last one.
    package fileprivate(set) var next: ListingPosition?
    /// Of what was told last.
    fileprivate var last: ListingPosition?

    package var count: Int { items.count + commonPrefixes.count }
    package var isTruncated: Bool { next != nil }
}

extension ListingPage: Sendable where Item: Sendable {}
extension ListingPage: Equatable where Item: Equatable {}

/// Makes pages of items that somebody has in the order of the bytes of their keys.
package struct Listing: Sendable {
    package var prefix: String
    package var delimiter: String?
    /// Most items and common prefixes of the page; for 0 it is empty and the last one.
    package var maximum: Int

    package init(prefix: String, delimiter: String?, maximum: Int) {
        self.prefix = prefix
        self.delimiter = delimiter
        self.maximum = maximum
    }

    /// Most items that are asked for at a time.
    static let largestFetch = 1000
    private static let firstGroupedFetch = 128
    private static let smallestFetch = 8

    /// The page that begins at a position.
    ///
    /// Of items with a common prefix that was told the others are not read, but jumped over; the store is asked for fewer
    /// items at a time where that happens, and for more where it does not.
    ///
    /// - Parameters:
    ///   - start: `nil` for the first page.
    ///   - name: The key of an item, and its id if items may have the same key.
    ///   - decide: Whether an item is told of, by its key.
    ///   - fetch: Items behind a cursor that have the prefix, in order, at most as many as are asked for, and fewer only if
    ///     there are no more.
    /// - Returns: The page.
    /// - Throws: What `fetch` throws.
    package func page<Item, Failure: Error>(
        from start: ListingPosition?,
        name: (Item) -> ListingCursor,
        deciding decide: (String) -> ListingDecision = { _ in .include },
        fetch: (ListingCursor?, Int) async throws(Failure) -> [Item]
    ) async throws(Failure) -> ListingPage<Item> {
        var page = ListingPage<Item>()
        guard maximum > 0 else { return page }
        var position = start
        var limit = delimiter == nil ? min(maximum + 1, Self.largestFetch) : Self.firstGroupedFetch
        while true {
            let items = try await fetch(position?.cursor, limit)
            for item in items {
                let cursor = name(item)
                if case .prefix(let told)? = position, cursor.key.utf8.starts(with: told.utf8) { continue }
                guard cursor.key.utf8.starts(with: prefix.utf8) else { continue }
                switch decide(cursor.key) {
                case .include: break
                case .skip:
                    position = .key(cursor.key, id: cursor.id)
                    continue
                case .stop: return page
                }
                guard page.count < maximum else {
                    page.next = page.last
                    return page
                }
                if let delimiter,
                    let group = ListingPosition.group(of: cursor.key, prefix: prefix, delimiter: delimiter)
                {
                    page.commonPrefixes.append(group)
                    position = .prefix(group)
                } else {
                    page.items.append(item)
                    position = .key(cursor.key, id: cursor.id)
                }
                page.last = position
            }
            guard items.count >= limit else { return page }
            if case .prefix? = position {
                limit = max(Self.smallestFetch, limit / 4)
            } else {
                limit = min(Self.largestFetch, limit * 2)
            }
        }
    }
}
