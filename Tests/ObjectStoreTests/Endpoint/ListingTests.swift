import Foundation
import SluiceTesting
import Testing

@testable import ObjectStore

@Suite("Pages of listings", .timeLimit(.minutes(10)))
struct ListingTests {
    /// The items of a store, and how many were fetched.
    private final class Store {
        let items: [ListingCursor]
        var read = 0
        var calls = 0

        init(_ items: [ListingCursor]) {
            self.items = items.sorted(by: Self.precedes)
        }

        static func precedes(_ first: ListingCursor, _ second: ListingCursor) -> Bool {
            first.key == second.key
                ? (first.id ?? "").utf8.lexicographicallyPrecedes((second.id ?? "").utf8)
                : first.key.utf8.lexicographicallyPrecedes(second.key.utf8)
        }

        func fetch(_ prefix: String, _ cursor: ListingCursor?, _ limit: Int) -> [ListingCursor] {
            calls += 1
            let found = items.filter { item in
                guard item.key.utf8.starts(with: prefix.utf8) else { return false }
                guard let cursor else { return true }
                if Array(item.key.utf8) == Array(cursor.key.utf8), let id = cursor.id {
                    return id.utf8.lexicographicallyPrecedes((item.id ?? "").utf8)
                }
                return cursor.key.utf8.lexicographicallyPrecedes(item.key.utf8)
            }
            read += min(limit, found.count)
            return Array(found.prefix(limit))
        }
    }

    /// A straightforward listing to compare with.
    private func expectedListing(
        _ items: [ListingCursor],
        prefix: String,
        delimiter: String?,
        _ decide: (String) -> ListingDecision
    ) -> [String] {
        var listed: [String] = []
        for item in items where item.key.utf8.starts(with: prefix.utf8) {
            switch decide(item.key) {
            case .skip: continue
            case .stop: return listed
            case .include: break
            }
            let rest = item.key.unicodeScalars.dropFirst(prefix.unicodeScalars.count)
            let text = String(String.UnicodeScalarView(rest))
            if let delimiter, let range = text.range(of: delimiter, options: .literal) {
                let group = "group " + prefix + text[..<range.upperBound]
                if listed.last != group { listed.append(group) }
            } else {
                listed.append(item.key + " " + (item.id ?? ""))
            }
        }
        return listed
    }

    private func keys(_ random: inout SeededGenerator) -> [String] {
        let pieces = ["a", "b", "/", "/", "ü", "+", " ", "--", "\u{10FFFF}", "日"]
        let count = Int.random(in: 0...60, using: &random)
        return (0..<count).map { _ in
            (0...Int.random(in: 0...5, using: &random)).map { _ in pieces.randomElement(using: &random) ?? "" }.joined()
        }
    }

    @Test("all pages together equal the straightforward listing", arguments: 0..<300 as Range<UInt64>)
    func model(_ seed: UInt64) async throws {
        var random = SeededGenerator(seed: seed)
        let keys = Set(keys(&random))
        let hasIDs = Bool.random(using: &random)
        let items = keys.flatMap { key in
            hasIDs
                ? (0..<Int.random(in: 1...3, using: &random)).map { ListingCursor(key: key, id: "id\($0)") }
                : [ListingCursor(key: key)]
        }
        let store = Store(items)
        let prefix = Bool.random(using: &random) ? "" : ["a", "a/", "ü", "b/a"].randomElement(using: &random) ?? ""
        let delimiter = [nil, "/", "/", "--", "ü", "+ "].randomElement(using: &random) ?? nil
        let hidden = Set(keys.filter { _ in Int.random(in: 0...4, using: &random) == 0 })
        let end = Bool.random(using: &random) ? keys.randomElement(using: &random) : nil
        let decide: (String) -> ListingDecision = { key in
            if let end, end.utf8.lexicographicallyPrecedes(key.utf8) { return .stop }
            return hidden.contains(key) ? .skip : .include
        }
        let wanted = expectedListing(store.items, prefix: prefix, delimiter: delimiter, decide)
        let listing = Listing(prefix: prefix, delimiter: delimiter, maximum: Int.random(in: 1...7, using: &random))
        var found: [String] = []
        var position: ListingPosition?
        var pages = 0
        repeat {
            let page = await listing.page(from: position, name: { $0 }, deciding: decide) { cursor, limit in
                store.fetch(prefix, cursor, limit)
            }
            // In one order, as the store has them.
            let entries =
                page.items.map { ($0.key, $0.key + " " + ($0.id ?? "")) }
                + page.commonPrefixes.map { ($0, "group " + $0) }
            found += entries.sorted { first, second in
                first.0 == second.0
                    ? first.1.utf8.lexicographicallyPrecedes(second.1.utf8)
                    : first.0.utf8.lexicographicallyPrecedes(second.0.utf8)
            }.map(\.1)
            #expect(page.count <= listing.maximum && (page.count == listing.maximum || !page.isTruncated))
            // As a client returns it.
            position = page.next.flatMap { next in
                switch next {
                case .key(_, id: .some), .prefix: next
                case .key: ListingPosition(token: next.token)
                }
            }
            pages += 1
        } while position != nil && pages < 1000
        #expect(found == wanted, "seed \(seed), prefix \(prefix), delimiter \(delimiter ?? "none")")
        #expect(pages == max(1, (wanted.count + listing.maximum - 1) / listing.maximum))
    }

    @Test("keys behind a listed common prefix are not read")
    func jumps() async throws {
        var keys: [String] = []
        for folder in 0..<20 { for file in 0..<2000 { keys.append("folder\(folder)/\(file)") } }
        let store = Store(keys.map { ListingCursor(key: $0) } + [ListingCursor(key: "z")])
        let page = await Listing(prefix: "", delimiter: "/", maximum: 1000).page(from: nil, name: { $0 }) {
            store.fetch("", $0, $1)
        }
        #expect(page.commonPrefixes.count == 20 && page.items.map(\.key) == ["z"] && !page.isTruncated)
        #expect(store.read < 1000)
    }

    @Test("a single key is found without reading further")
    func only() async throws {
        let store = Store((0..<5000).map { ListingCursor(key: "a\($0)") } + [ListingCursor(key: "a")])
        let page = await Listing(prefix: "a", delimiter: nil, maximum: 1000).page(
            from: nil,
            name: { $0 },
            deciding: { $0 == "a" ? .include : .stop },
            fetch: { store.fetch("a", $0, $1) }
        )
        #expect(page.items.map(\.key) == ["a"] && !page.isTruncated && store.calls == 1)
    }

    @Test("a page of zero items is the last one, and fetches nothing")
    func nothing() async throws {
        let store = Store([ListingCursor(key: "a")])
        let page = await Listing(prefix: "", delimiter: nil, maximum: 0).page(from: nil, name: { $0 }) {
            store.fetch("", $0, $1)
        }
        #expect(page.count == 0 && !page.isTruncated && store.calls == 0)
    }

    @Test("a marker is a key or a common prefix")
    func markers() {
        #expect(ListingPosition(marker: "a/", prefix: "", delimiter: "/") == .prefix("a/"))
        #expect(ListingPosition(marker: "a/b", prefix: "", delimiter: "/") == .key("a/b"))
        #expect(ListingPosition(marker: "a/", prefix: "a/", delimiter: "/") == .key("a/"))
        #expect(ListingPosition(marker: "a/b/", prefix: "a/", delimiter: "/") == .prefix("a/b/"))
        #expect(ListingPosition(marker: "a/", prefix: "", delimiter: nil) == .key("a/"))
        #expect(ListingPosition(marker: "", prefix: "", delimiter: "/") == .key(""))
    }

    @Test("tokens encode positions")
    func tokens() {
        for position in [ListingPosition.key("a"), .key("日/\u{10FFFF}"), .prefix("a b/"), .prefix("\u{1}")] {
            #expect(ListingPosition(token: position.token) == position)
        }
        let longest = ListingPosition.key(String(repeating: "\u{10FFFF}", count: 256))
        #expect(ListingPosition(token: longest.token) == longest)
        #expect(longest.cursor.key.utf8.lexicographicallyPrecedes(ListingPosition.prefix("\u{10FFFF}").cursor.key.utf8))
    }
}
