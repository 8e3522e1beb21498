package import MetricsKit

extension MetricsRegistry {
    /// Requests and connections that a limit refused, by the name of the limit.
    package var limitedCounters: CounterTable {
        counters("sluice_limited_total", "Requests and connections that a limit refused.", by: "limit")
    }
}
