package import CoreMetrics
internal import Synchronization

/// Counters of one name for labels whose values are known only when something is counted; each is made when it is first
/// used.
///
/// Later uses cost one look-up, without a text for it. The number of values must be bounded: no client may choose them.
package final class CounterTable: Sendable {
    private struct Key: Hashable {
        var first: String
        var second: String
    }

    private let counters = Mutex<[Key: Counter]>([:])
    private let make: @Sendable (String, String) -> Counter

    init(_ make: @escaping @Sendable (String, String) -> Counter) { self.make = make }

    /// The counter for the value of the only label.
    package subscript(value: String) -> Counter { self[value, ""] }

    /// The counter for the values of both labels.
    package subscript(first: String, second: String) -> Counter {
        let key = Key(first: first, second: second)
        return counters.withLock { counters in
            if let counter = counters[key] { return counter }
            let counter = make(first, second)
            counters[key] = counter
            return counter
        }
    }
}
