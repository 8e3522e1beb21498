import CoreMetrics
import MetricsKit
import Testing

@Suite("Metrics registry", .timeLimit(.minutes(10)))
struct MetricsRegistryTests {
    private func value(_ sample: String, in metrics: MetricsRegistry) -> String? {
        metrics.text().split(separator: "\n").first { $0.hasPrefix(sample + " ") }
            .map { String($0.dropFirst(sample.count + 1)) }
    }

    @Test("a counter is written under its help, and with labels once it was counted")
    func counters() {
        let metrics = MetricsRegistry()
        let (one, two) = (metrics.counter("x_total", "Xs.", ["k": "1"]), metrics.counter("x_total", "Xs.", ["k": "2"]))
        let plain = metrics.counter("y_total", "Ys.")
        two.increment(by: 3)
        #expect(
            metrics.text() == """
                # HELP x_total Xs.
                # TYPE x_total counter
                x_total{k="2"} 3
                # HELP y_total Ys.
                # TYPE y_total counter
                y_total 0

                """
        )
        one.increment()
        plain.increment()
        #expect(value("x_total{k=\"1\"}", in: metrics) == "1")
        #expect(value("y_total", in: metrics) == "1")
    }

    @Test("handles with the same name and labels count together, whoever made them, also after one was destroyed")
    func shared() {
        let metrics = MetricsRegistry()
        let first = metrics.counter("x_total", "Xs.", ["k": "1"])
        let second = Counter(label: "x_total", dimensions: [("k", "1")], factory: metrics)
        first.increment()
        second.increment()
        first.destroy()
        #expect(value("x_total{k=\"1\"}", in: metrics) == "2")
    }

    @Test("two registries in one process do not know of each other")
    func apart() {
        let (one, other) = (MetricsRegistry(), MetricsRegistry())
        let counter = one.counter("x_total", "Xs.")
        _ = other.counter("x_total", "Xs.")
        counter.increment()
        #expect(value("x_total", in: one) == "1")
        #expect(value("x_total", in: other) == "0")
    }

    @Test("counters by the value of a label are made on first use, and kept")
    func tables() {
        let metrics = MetricsRegistry()
        let counters = metrics.counters("x_total", "Xs.", by: "k")
        #expect(metrics.text() == "# HELP x_total Xs.\n# TYPE x_total counter\n")
        counters["b"].increment()
        counters["a"].increment()
        counters["b"].increment()
        #expect(counters["b"] === counters["b"])
        #expect(metrics.text().hasSuffix("x_total{k=\"a\"} 1\nx_total{k=\"b\"} 2\n"))
        let pairs = metrics.counters("y_total", "Ys.", by: "k", "l")
        pairs["a", "b"].increment()
        pairs["b", "a"].increment(by: 2)
        #expect(metrics.text().hasSuffix("y_total{k=\"a\",l=\"b\"} 1\ny_total{k=\"b\",l=\"a\"} 2\n"))
    }

    @Test("a gauge goes up and down")
    func gauges() {
        let metrics = MetricsRegistry()
        let gauge = metrics.gauge("open", "Open ones.")
        #expect(metrics.text() == "# HELP open Open ones.\n# TYPE open gauge\nopen 0\n")
        gauge.increment()
        gauge.increment()
        gauge.decrement()
        #expect(value("open", in: metrics) == "1")
        gauge.set(2.5)
        #expect(value("open", in: metrics) == "2.5")
        Gauge(label: "open", factory: metrics).record(7)
        #expect(value("open", in: metrics) == "7")
    }

    @Test("buckets of a timer are cumulative, and their bounds belong to them")
    func timers() {
        let metrics = MetricsRegistry()
        metrics.declare("d_seconds", .histogram, "Durations.")
        let timer = Timer(label: "d_seconds", dimensions: [("r", "a")], factory: metrics)
        for milliseconds in [1, 3, 5, 70, 2_000_000] { timer.recordMilliseconds(milliseconds) }
        for (bound, count) in [
            ("0.001", 1), ("0.005", 3), ("0.01", 3), ("0.05", 3), ("0.1", 4), ("0.5", 4), ("1", 4), ("5", 4), ("10", 4),
            ("60", 4), ("300", 4), ("1800", 4), ("+Inf", 5),
        ] {
            #expect(value("d_seconds_bucket{r=\"a\",le=\"\(bound)\"}", in: metrics) == String(count))
        }
        #expect(value("d_seconds_count{r=\"a\"}", in: metrics) == "5")
        #expect(
            value("d_seconds_sum{r=\"a\"}", in: metrics).flatMap(Double.init).map { abs($0 - 2000.079) < 1e-9 } == true
        )
    }

    @Test("OpenMetrics has names of families without suffixes, bounds with fractions, exemplars and an end")
    func openMetrics() {
        let metrics = MetricsRegistry()
        metrics.declare("d_seconds", .histogram, "Durations of \"x\".")
        metrics.counter("x_total", "Xs.", ["k": "1"]).increment()
        metrics.gauge("open", "Open ones.").set(2.5)
        metrics.sample("odd", .counter, "Without a suffix.") { 3 }
        let histogram = metrics.durations("d_seconds", [("r", "a")])
        let traces = ["0af7651916cd43dd8448eb211c80319c", "1af7651916cd43dd8448eb211c80319c"].map {
            ExemplarTrace(traceID: $0, spanID: "b7ad6b7169203331")
        }
        histogram.record(.milliseconds(3), in: traces[0])
        // The last one of a bucket is kept.
        histogram.record(.milliseconds(4), in: traces[1])
        histogram.record(.seconds(2000), in: nil)
        let page = metrics.text(.openMetrics)
        let lines = page.split(separator: "\n").map(String.init)
        #expect(lines.last == "# EOF" && page.hasSuffix("# EOF\n"))
        #expect(lines.contains("# HELP d_seconds Durations of \\\"x\\\"."))
        #expect(lines.contains("# TYPE x counter") && lines.contains("x_total{k=\"1\"} 1"))
        #expect(lines.contains("# TYPE odd unknown") && lines.contains("odd 3"))
        #expect(lines.contains("d_seconds_bucket{r=\"a\",le=\"1.0\"} 2"))
        #expect(lines.contains("d_seconds_bucket{r=\"a\",le=\"+Inf\"} 3"))
        let exemplars = lines.filter { $0.contains(" # {") }
        let prefix =
            "d_seconds_bucket{r=\"a\",le=\"0.005\"} 2 # {trace_id=\"\(traces[1].traceID)\",span_id=\"b7ad6b7169203331\"} 0.004 "
        #expect(exemplars.count == 1 && exemplars[0].hasPrefix(prefix))
        #expect(Double(exemplars[0].dropFirst(prefix.count)).map { $0 > 1_700_000_000 } == true)
        // The other format has none.
        #expect(!metrics.text().contains("trace_id") && !metrics.text().contains("EOF"))
        #expect(metrics.text().contains("d_seconds_bucket{r=\"a\",le=\"1\"} 2\n"))
    }

    @Test("a timer and a histogram with one name and labels are one")
    func sharedDurations() {
        let metrics = MetricsRegistry()
        metrics.declare("d_seconds", .histogram, "Durations.")
        Timer(label: "d_seconds", dimensions: [("r", "a")], factory: metrics).recordMilliseconds(3)
        metrics.durations("d_seconds", [("r", "a")]).record(.milliseconds(7))
        #expect(value("d_seconds_count{r=\"a\"}", in: metrics) == "2")
        #expect(
            value("d_seconds_sum{r=\"a\"}", in: metrics).flatMap(Double.init).map { abs($0 - 0.01) < 1e-9 } == true
        )
    }

    @Test("what threads count at the same time is not lost")
    func threads() async {
        let metrics = MetricsRegistry()
        let counters = metrics.counters("x_total", "Xs.", by: "k")
        let gauge = metrics.gauge("open", "Open ones.")
        let sum = FloatingPointCounter(label: "y_total", factory: metrics)
        await withTaskGroup { group in
            for _ in 0..<8 {
                group.addTask {
                    for number in 0..<1000 {
                        counters[String(number % 3)].increment()
                        gauge.increment()
                        sum.increment(by: 0.5)
                    }
                }
            }
        }
        #expect(value("x_total{k=\"0\"}", in: metrics) == "2672")
        #expect(value("x_total{k=\"1\"}", in: metrics) == "2664")
        #expect(value("open", in: metrics) == "8000")
        #expect(value("y_total", in: metrics) == "4000")
    }

    @Test("a sample is read for each page")
    func samples() {
        let metrics = MetricsRegistry()
        let source = metrics.counter("source_total", "Read by the other.")
        metrics.sample("x", .gauge, "Xs.") { [weak metrics] in
            // Reading must not hold a lock that making a handle needs.
            metrics?.counter("source_total", "Read by the other.").increment()
            return 3
        }
        source.increment()
        #expect(value("x", in: metrics) == "3")
        #expect(value("source_total", in: metrics) == "2")
    }

    @Test("odd label values cannot break a line")
    func escapes() {
        let metrics = MetricsRegistry()
        metrics.counter("x_total", "Xs.", ["k": "a\"b\\c\nd"]).increment()
        #expect(metrics.text().contains("x_total{k=\"a\\\"b\\\\c\\nd\"} 1\n"))
    }
}
