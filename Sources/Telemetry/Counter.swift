internal import Synchronization

/// A module's counter, created once with its name and labels (`Metrics.counter`), so that counting is one atomic
/// addition.
package final class Counter: Sendable {
    fileprivate let labels: [(String, String)]
    private let count = Atomic<UInt64>(0)

    fileprivate init(labels: [(String, String)]) { self.labels = labels }

    package func add(_ number: UInt64 = 1) { count.wrappingAdd(number, ordering: .relaxed) }

    fileprivate var value: UInt64 { count.load(ordering: .relaxed) }
}

/// The counters declared by modules.
final class CounterRegistry: Sendable {
    private struct Family {
        let name: String
        let help: String
        var counters: [Counter] = []
    }

    private let families = Mutex<[Family]>([])

    /// Returns the counter with this name and labels; creates it on first use.
    func counter(_ name: String, _ help: String, _ labels: [(String, String)]) -> Counter {
        families.withLock { families in
            let known = families.firstIndex { $0.name == name }
            let index = known ?? families.count
            if known == nil { families.append(Family(name: name, help: help)) }
            if let counter = families[index].counters.first(where: { $0.labels.elementsEqual(labels, by: ==) }) {
                return counter
            }
            let counter = Counter(labels: labels)
            families[index].counters.append(counter)
            return counter
        }
    }

    /// A sample with labels appears once something was counted.
    func write(to page: inout MetricsPage) {
        for family in families.withLock({ $0 }) {
            page.header(family.name, "counter", family.help)
            let counters = family.counters.sorted { $0.labels.lexicographicallyPrecedes($1.labels) { $0.1 < $1.1 } }
            for counter in counters where counter.labels.isEmpty || counter.value > 0 {
                page.sample(family.name, counter.labels, Double(counter.value))
            }
        }
    }
}
