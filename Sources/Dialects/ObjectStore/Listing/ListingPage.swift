/// A page of a listing: items and common prefixes.
package struct ListingPage<Item> {
    package fileprivate(set) var items: [Item] = []
    /// Each ends with the first delimiter after the prefix; sorted.
    package fileprivate(set) var commonPrefixes: [String] = []
    /// Position of the next page; `nil` if this is the last one.
    package fileprivate(set) var next: ListingPosition?
    /// Position of the last item or common prefix on the page.
    fileprivate var last: ListingPosition?

    package var count: Int { items.count + commonPrefixes.count }
    package var isTruncated: Bool { next != nil }
}

extension ListingPage {
    /// The same page with other items.
    package func map<Other>(_ transform: (Item) -> Other) -> ListingPage<Other> {
        var page = ListingPage<Other>()
        page.items = items.map(transform)
        (page.commonPrefixes, page.next, page.last) = (commonPrefixes, next, last)
        return page
    }
}

extension ListingPage: Sendable where Item: Sendable {}
extension ListingPage: Equatable where Item: Equatable {}

/// Builds pages from items that a store provides in byte order of their keys.
package struct Listing: Sendable {
    package var prefix: String
    package var delimiter: String?
    /// Maximum number of items and common prefixes; with 0 the page is empty and the last one.
    package var maximum: Int

    package init(prefix: String, delimiter: String?, maximum: Int) {
        self.prefix = prefix
        self.delimiter = delimiter
        self.maximum = maximum
    }

    /// Maximum number of items per fetch: those of a full page, and one that shows that there are more.
    static let largestFetch = 1001
    private static let firstGroupedFetch = 128
    private static let smallestFetch = 8

    /// Builds the page that begins at a position.
    ///
    /// Once a common prefix is listed, its other items are skipped without reading them. Fetches get smaller where that
    /// happens, and larger where it does not.
    ///
    /// - Parameters:
    ///   - start: `nil` for the first page.
    ///   - name: The key of an item, and its id if several items may have the same key.
    ///   - decide: Whether an item is listed, by its key.
    ///   - isShown: Whether an item that `decide` includes is listed.
    ///   - fetch: Returns items with the prefix after a cursor, sorted, at most the given number, and fewer only if
    ///     there are no more.
    /// - Returns: The page.
    /// - Throws: Errors of `fetch`.
    package func page<Item, Failure: Error>(
        from start: ListingPosition?,
        name: (Item) -> ListingCursor,
        deciding decide: (String) -> ListingDecision = { _ in .include },
        showing isShown: (Item) -> Bool = { _ in true },
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
                if case .prefix(let reported)? = position, cursor.key.utf8.starts(with: reported.utf8) { continue }
                guard cursor.key.utf8.starts(with: prefix.utf8) else { continue }
                switch decide(cursor.key) {
                case .include where isShown(item): break
                case .include, .skip:
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
