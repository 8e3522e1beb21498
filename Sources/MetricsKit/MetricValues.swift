internal import CoreMetrics
internal import Synchronization

/// The value behind a handle, or behind several with the same name and labels.
protocol MetricValue: AnyObject, Sendable {
    /// Whether it appears on the page although nothing happened yet, if it has labels.
    var isShown: Bool { get }
    func write(_ name: String, _ labels: [(String, String)], to page: inout MetricsPage)
}

final class CounterValue: CounterHandler, MetricValue {
    private let count = Atomic<Int64>(0)

    var value: Int64 { count.load(ordering: .relaxed) }
    var isShown: Bool { value > 0 }

    func increment(by amount: Int64) { count.wrappingAdd(amount, ordering: .relaxed) }

    func reset() { count.store(0, ordering: .relaxed) }

    func write(_ name: String, _ labels: [(String, String)], to page: inout MetricsPage) {
        page.sample(name, labels, Double(value))
    }
}

final class FloatingPointCounterValue: FloatingPointCounterHandler, MetricValue {
    private let sum = AtomicDouble()

    var isShown: Bool { sum.value > 0 }

    func increment(by amount: Double) { sum.add(amount) }

    func reset() { sum.set(0) }

    func write(_ name: String, _ labels: [(String, String)], to page: inout MetricsPage) {
        page.sample(name, labels, sum.value)
    }
}

final class GaugeValue: MeterHandler, RecorderHandler, MetricValue {
    private let number = AtomicDouble()

    var isShown: Bool { true }

    func set(_ value: Int64) { number.set(Double(value)) }
    func set(_ value: Double) { number.set(value) }
    func increment(by amount: Double) { number.add(amount) }
    func decrement(by amount: Double) { number.add(-amount) }
    func record(_ value: Int64) { set(value) }
    func record(_ value: Double) { set(value) }

    func write(_ name: String, _ labels: [(String, String)], to page: inout MetricsPage) {
        page.sample(name, labels, number.value)
    }
}

/// Durations in seconds, and values of recorders that aggregate.
final class HistogramValue: TimerHandler, RecorderHandler, MetricValue {
    /// Upper bounds.
    private static let bounds = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 300, 1800]

    /// The last one is for values above all bounds.
    private let buckets = (0...bounds.count).map { _ in CounterValue() }
    private let sum = AtomicDouble()
    /// By bucket; empty before the first one.
    private let exemplars = Mutex<[Exemplar?]>([])

    var isShown: Bool { true }

    func recordNanoseconds(_ duration: Int64) { record(Double(duration) / 1e9) }

    func record(_ value: Int64) { record(Double(value)) }

    func record(_ value: Double) {
        buckets[Self.bucket(of: value)].increment(by: 1)
        sum.add(value)
    }

    func record(_ value: Double, in exemplar: Exemplar) {
        record(value)
        exemplars.withLock { exemplars in
            if exemplars.isEmpty { exemplars = Array(repeating: nil, count: buckets.count) }
            exemplars[Self.bucket(of: value)] = exemplar
        }
    }

    private static func bucket(of value: Double) -> Int { bounds.firstIndex { value <= $0 } ?? bounds.count }

    func write(_ name: String, _ labels: [(String, String)], to page: inout MetricsPage) {
        var cumulated: Int64 = 0
        let exemplars = page.hasExemplars ? exemplars.withLock { $0 } : []
        for (index, bucket) in buckets.enumerated() {
            cumulated += bucket.value
            let bound = index < Self.bounds.count ? page.bound(Self.bounds[index]) : "+Inf"
            let exemplar = exemplars.isEmpty ? nil : exemplars[index]
            page.sample("\(name)_bucket", labels + [("le", bound)], Double(cumulated), exemplar)
        }
        page.sample("\(name)_sum", labels, sum.value)
        page.sample("\(name)_count", labels, Double(cumulated))
    }
}

/// What is known elsewhere and read for each page.
final class SampledValue: MetricValue {
    private let read: @Sendable () -> Double

    init(_ read: @escaping @Sendable () -> Double) { self.read = read }

    var isShown: Bool { true }

    func write(_ name: String, _ labels: [(String, String)], to page: inout MetricsPage) {
        page.sample(name, labels, read())
    }
}

/// A number that threads change without a lock.
private struct AtomicDouble: ~Copyable, Sendable {
    private let bits = Atomic<UInt64>(0)

    var value: Double { Double(bitPattern: bits.load(ordering: .relaxed)) }

    func set(_ value: Double) { bits.store(value.bitPattern, ordering: .relaxed) }

    func add(_ amount: Double) {
        var old = bits.load(ordering: .relaxed)
        while true {
            let sum = (Double(bitPattern: old) + amount).bitPattern
            let (isExchanged, current) = bits.weakCompareExchange(expected: old, desired: sum, ordering: .relaxed)
            if isExchanged { return }
            old = current
        }
    }
}
