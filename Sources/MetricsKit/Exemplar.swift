/// The trace of an observation, which a histogram names beside one of its buckets (OpenMetrics 1.0, "Exemplars").
package struct ExemplarTrace: Sendable, Equatable {
    /// 32 hexadecimal digits.
    package let traceID: String
    /// 16 hexadecimal digits.
    package let spanID: String

    package init(traceID: String, spanID: String) {
        self.traceID = traceID
        self.spanID = spanID
    }
}

/// The last traced observation in a bucket.
struct Exemplar: Sendable {
    let trace: ExemplarTrace
    let value: Double
    /// Unix seconds.
    let time: Double
}
