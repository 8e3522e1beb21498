package import CoreMetrics
internal import Synchronization

/// As Prometheus names them.
package enum MetricType: String, Sendable {
    case counter
    case gauge
    case histogram
}

/// The metrics of one gateway: makes handles of swift-metrics, and renders their values as Prometheus text.
///
/// It is handed to whoever counts and is never the factory of `MetricsSystem`, because a process can run several
/// gateways. Handles with the same name and labels share one value.
package final class MetricsRegistry: Sendable {
    private struct Sample {
        let labels: [(String, String)]
        let value: any MetricValue
    }

    private struct Family {
        let type: MetricType
        var help: String?
        var samples: [Sample] = []
    }

    /// By name.
    private let families = Mutex<[String: Family]>([:])

    package init() {}

    /// Declares a name before it has samples, so that the page has it from the start.
    ///
    /// A name has one type: anything else is a mistake in the program, and ends it.
    ///
    /// - Parameters:
    ///   - name: Metric name: `sluice_…`, and `…_total` for a counter.
    ///   - type: The type of all its samples.
    ///   - help: One sentence for readers of the metrics; the first one given counts.
    package func declare(_ name: String, _ type: MetricType, _ help: String) {
        families.withLock { families in
            Self.declare(name, type, in: &families)
            if families[name]?.help == nil { families[name]?.help = help }
        }
    }

    private static func declare(_ name: String, _ type: MetricType, in families: inout [String: Family]) {
        guard let known = families[name] else {
            families[name] = Family(type: type)
            return
        }
        precondition(known.type == type, "\(name) is a \(known.type) and a \(type)")
    }

    /// The value with this name and labels; made on first use.
    private func value<Value: MetricValue>(
        _ name: String,
        _ labels: [(String, String)],
        _ type: MetricType,
        _ make: () -> Value
    ) -> Value {
        families.withLock { families in
            Self.declare(name, type, in: &families)
            let known = families[name]?.samples.first { $0.labels.elementsEqual(labels, by: ==) }
            guard let known else {
                let made = make()
                families[name]?.samples.append(Sample(labels: labels, value: made))
                return made
            }
            guard let value = known.value as? Value else { preconditionFailure("\(name) has handles of two kinds") }
            return value
        }
    }

    /// The page: families by name, samples by their labels.
    ///
    /// A counter with labels appears once something was counted, everything else from the start.
    package func text(_ format: MetricsFormat = .prometheus) -> String {
        var page = MetricsPage(format)
        for (name, family) in families.withLock({ $0 }).sorted(by: { $0.key < $1.key }) {
            page.header(name, family.type, family.help)
            let samples = family.samples.sorted { $0.labels.lexicographicallyPrecedes($1.labels) { $0.1 < $1.1 } }
            for sample in samples where sample.labels.isEmpty || sample.value.isShown {
                sample.value.write(name, sample.labels, to: &page)
            }
        }
        page.finish()
        return page.text
    }
}

// MARK: Handles, to be made once and kept

extension MetricsRegistry {
    /// A counter; counting is one atomic addition.
    ///
    /// - Parameters:
    ///   - name: Metric name: `sluice_…_total`.
    ///   - help: One sentence for readers of the metrics.
    ///   - labels: Labels of this sample; they distinguish samples of one name.
    /// - Returns: The handle, to be kept.
    package func counter(_ name: String, _ help: String, _ labels: KeyValuePairs<String, String> = [:]) -> Counter {
        declare(name, .counter, help)
        return Counter(label: name, dimensions: labels.map { ($0.key, $0.value) }, factory: self)
    }

    /// Counters of one name that differ in one label.
    ///
    /// - Parameters:
    ///   - name: Metric name: `sluice_…_total`.
    ///   - help: One sentence for readers of the metrics.
    ///   - label: The label that distinguishes them.
    /// - Returns: The counters by the value of the label.
    package func counters(_ name: String, _ help: String, by label: String) -> CounterTable {
        declare(name, .counter, help)
        return CounterTable { value, _ in Counter(label: name, dimensions: [(label, value)], factory: self) }
    }

    /// Counters of one name that differ in two labels; like `counters(_:_:by:)`.
    package func counters(_ name: String, _ help: String, by first: String, _ second: String) -> CounterTable {
        declare(name, .counter, help)
        return CounterTable { Counter(label: name, dimensions: [(first, $0), (second, $1)], factory: self) }
    }

    /// A number that goes up and down.
    package func gauge(_ name: String, _ help: String, _ labels: KeyValuePairs<String, String> = [:]) -> Meter {
        declare(name, .gauge, help)
        return Meter(label: name, dimensions: labels.map { ($0.key, $0.value) }, factory: self)
    }

    /// A histogram of durations; measuring is two atomic additions.
    ///
    /// - Parameters:
    ///   - name: Metric name: `sluice_…_seconds`.
    ///   - help: One sentence for readers of the metrics.
    ///   - labels: Labels of this sample; they distinguish samples of one name.
    /// - Returns: The handle, to be kept.
    package func timer(_ name: String, _ help: String, _ labels: KeyValuePairs<String, String> = [:]) -> Timer {
        declare(name, .histogram, help)
        return Timer(label: name, dimensions: labels.map { ($0.key, $0.value) }, factory: self)
    }

    /// A histogram of durations whose observations can name their traces; `declare` says what it is.
    ///
    /// - Parameters:
    ///   - name: Metric name: `sluice_…_seconds`.
    ///   - labels: Labels of this sample.
    /// - Returns: The handle, to be kept.
    package func durations(_ name: String, _ labels: [(String, String)]) -> DurationHistogram {
        DurationHistogram(value(name, labels, .histogram) { HistogramValue() })
    }

    /// Histograms of durations of one name that differ in two labels; like `counters(_:_:by:)`.
    package func timers(_ name: String, _ help: String, by first: String, _ second: String) -> TimerTable {
        declare(name, .histogram, help)
        return TimerTable { Timer(label: name, dimensions: [(first, $0), (second, $1)], factory: self) }
    }

    /// Adds a sample whose value is known elsewhere, and read for each page.
    ///
    /// - Parameters:
    ///   - name: Metric name.
    ///   - type: Counter or gauge.
    ///   - help: One sentence for readers of the metrics.
    ///   - labels: Labels of this sample; they distinguish samples of one name.
    ///   - read: Returns the value; called on any thread, and must not block for long.
    package func sample(
        _ name: String,
        _ type: MetricType,
        _ help: String,
        _ labels: KeyValuePairs<String, String> = [:],
        _ read: @escaping @Sendable () -> Double
    ) {
        declare(name, type, help)
        _ = value(name, labels.map { ($0.key, $0.value) }, type) { SampledValue(read) }
    }
}

extension MetricsRegistry: MetricsFactory {
    package func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
        value(label, dimensions, .counter) { CounterValue() }
    }

    package func makeFloatingPointCounter(
        label: String,
        dimensions: [(String, String)]
    ) -> any FloatingPointCounterHandler {
        value(label, dimensions, .counter) { FloatingPointCounterValue() }
    }

    package func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler {
        value(label, dimensions, .gauge) { GaugeValue() }
    }

    package func makeRecorder(label: String, dimensions: [(String, String)], aggregate: Bool) -> any RecorderHandler {
        if aggregate { return value(label, dimensions, .histogram) { HistogramValue() } }
        return value(label, dimensions, .gauge) { GaugeValue() }
    }

    package func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
        value(label, dimensions, .histogram) { HistogramValue() }
    }

    // Values stay: another handle may share one, and a counter must not start again while the process runs.

    package func destroyCounter(_ handler: any CounterHandler) {}
    package func destroyFloatingPointCounter(_ handler: any FloatingPointCounterHandler) {}
    package func destroyMeter(_ handler: any MeterHandler) {}
    package func destroyRecorder(_ handler: any RecorderHandler) {}
    package func destroyTimer(_ handler: any TimerHandler) {}
}
