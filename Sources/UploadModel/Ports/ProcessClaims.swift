package import Foundation

/// Claims on a store that only one process uses: they end with the process, so the next one need not wait for them.
package struct ProcessClaims<Key: Hashable & Sendable>: Sendable {
    private struct Claim {
        let number: Int64
        var end: Date
    }

    private var claims: [Key: Claim] = [:]
    private var lastNumber: Int64 = 0

    package init() {}

    package var count: Int { claims.count }

    /// When the claim of `key` ends; `nil` if it is not claimed at `now`.
    package func end(of key: Key, at now: Date) -> Date? {
        claims[key].flatMap { $0.end > now ? $0.end : nil }
    }

    /// Claims `key`, which must be free.
    ///
    /// - Returns: The unique number of the claim.
    package mutating func take(_ key: Key, until end: Date) -> Int64 {
        lastNumber += 1
        claims[key] = Claim(number: lastNumber, end: end)
        return lastNumber
    }

    /// The number of the last claim of `key`, or `nil`.
    package func number(of key: Key) -> Int64? { claims[key]?.number }

    /// Whether the last claim of `key` is this one.
    package func holds(_ key: Key, _ number: Int64) -> Bool { claims[key]?.number == number }

    /// Whether the last claim of `key` has this end.
    package func holds(_ key: Key, until end: Date?) -> Bool { claims[key].map { $0.end == end } ?? false }

    package mutating func renew(_ key: Key, until end: Date) { claims[key]?.end = end }

    package mutating func drop(_ key: Key) { claims[key] = nil }
}
