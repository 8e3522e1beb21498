package import Synchronization

/// Values that were used a moment ago, at most so many, and for so long.
///
/// Dropping a value is always safe for its owner. Values are released outside the lock, so that what they end may take its time.
/// Inlinable, because generic code that is not specialised looks up its types at each use.
package final class RecentTable<Key: Hashable & Sendable, Value: Sendable>: Sendable {
    @usableFromInline
    struct Entry {
        @usableFromInline let value: Value
        @usableFromInline let ticket: UInt64
        @usableFromInline let end: Nanoseconds

        @inlinable
        init(value: Value, ticket: UInt64, end: Nanoseconds) {
            self.value = value
            self.ticket = ticket
            self.end = end
        }
    }

    @usableFromInline
    struct Contents {
        @usableFromInline var entries: [Key: Entry] = [:]
        /// Oldest first, from `head`; what is not in `entries` with the same ticket is gone.
        @usableFromInline var order: [(key: Key, ticket: UInt64)] = []
        @usableFromInline var head = 0
        @usableFromInline var lastTicket: UInt64 = 0
        /// Whether a task drops what is old.
        @usableFromInline var isAging = false

        @inlinable
        init() {}

        /// Removes the oldest value if `isDue` says so of it.
        @inlinable
        mutating func dropOldest(if isDue: (Entry) -> Bool) -> Value? {
            while head < order.count {
                let (key, ticket) = order[head]
                guard let entry = entries[key], entry.ticket == ticket else {
                    head += 1
                    continue
                }
                guard isDue(entry) else { return nil }
                head += 1
                entries[key] = nil
                return entry.value
            }
            return nil
        }

        /// Keeps the list of the order in proportion to the values, also while one stays and others come and go.
        @inlinable
        mutating func shorten() {
            guard order.count > 64 + 2 * entries.count else { return }
            order = order[head...].filter { entries[$0.key]?.ticket == $0.ticket }
            head = 0
        }
    }

    @usableFromInline let contents = Mutex(Contents())
    @usableFromInline let most: Int
    @usableFromInline let age: Duration

    package init(_ limits: RecentLimits) {
        most = limits.most
        age = limits.age
    }

    /// Number of values.
    package var count: Int { contents.withLock { $0.entries.count } }

    /// Number of places in the order, for tests.
    package var places: Int { contents.withLock { $0.order.count } }

    /// Removes a value and returns it.
    @inlinable
    package func take(_ key: Key) -> Value? {
        guard most > 0 else { return nil }
        return contents.withLock { $0.entries.removeValue(forKey: key)?.value }
    }

    /// Keeps a value, and drops the oldest one if there are too many.
    @inlinable
    package func put(_ key: Key, _ value: Value) {
        guard most > 0 else { return }
        let (dropped, replaced, mustAge) = contents.withLock { contents in
            contents.lastTicket += 1
            let entry = Entry(
                value: value,
                ticket: contents.lastTicket,
                end: MonotonicClock.deadline(after: age)
            )
            let replaced = contents.entries.updateValue(entry, forKey: key)
            contents.order.append((key, entry.ticket))
            var dropped: Value?
            if contents.entries.count > most { dropped = contents.dropOldest { _ in true } }
            contents.shorten()
            defer { contents.isAging = true }
            return (dropped, replaced, !contents.isAging)
        }
        _ = (dropped, replaced)
        // Not owned by a request; ends when nothing is kept, or with the table.
        if mustAge { Task { [weak self, age] in await Self.dropOld(every: age) { self } } }
    }

    /// Drops all values.
    package func removeAll() {
        let entries = contents.withLock { contents in
            defer { (contents.entries, contents.order, contents.head) = ([:], [], 0) }
            return contents.entries
        }
        _ = entries
    }

    @usableFromInline
    static func dropOld(every age: Duration, _ table: () -> RecentTable?) async {
        repeat { try? await Task.sleep(for: age) } while table()?.dropOld() == true
    }

    /// - Returns: Whether values are left.
    private func dropOld() -> Bool {
        let now = MonotonicClock.now
        let (dropped, isLeft) = contents.withLock { contents in
            var dropped: [Value] = []
            while let value = contents.dropOldest(if: { $0.end <= now }) { dropped.append(value) }
            contents.shorten()
            contents.isAging = !contents.entries.isEmpty
            return (dropped, contents.isAging)
        }
        _ = dropped
        return isLeft
    }
}

/// How many values a `RecentTable` keeps, and for how long.
package struct RecentLimits: Sendable, Equatable {
    /// Number of values; 0 keeps none.
    package var most: Int
    /// How long a value is kept without use.
    package var age: Duration

    package static let none = RecentLimits(most: 0)

    package init(most: Int = 128, age: Duration = .seconds(5)) {
        self.most = most
        self.age = age
    }
}
