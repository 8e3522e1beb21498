/// The page of metrics under construction.
struct MetricsPage {
    let format: MetricsFormat
    private(set) var text = ""

    init(_ format: MetricsFormat) { self.format = format }

    var hasExemplars: Bool { format == .openMetrics }

    mutating func header(_ name: String, _ type: MetricType, _ help: String?) {
        var (name, type) = (name, type.rawValue)
        // There, a family has the name without the suffix of its samples, and every counter has the suffix.
        if format == .openMetrics, type == "counter" {
            if name.hasSuffix("_total") { name.removeLast(6) } else { type = "unknown" }
        }
        if let help { text += "# HELP \(name) \(format == .openMetrics ? Self.escape(help) : help)\n" }
        text += "# TYPE \(name) \(type)\n"
    }

    mutating func sample(
        _ name: String,
        _ labels: [(String, String)],
        _ value: Double,
        _ exemplar: Exemplar? = nil
    ) {
        text += name
        if !labels.isEmpty {
            text += "{" + labels.map { "\($0.0)=\"\(Self.escape($0.1))\"" }.joined(separator: ",") + "}"
        }
        text += " " + Self.number(value)
        if hasExemplars, let exemplar {
            text += " # {trace_id=\"\(exemplar.trace.traceID)\",span_id=\"\(exemplar.trace.spanID)\"} "
            text += "\(exemplar.value) \(exemplar.time)"
        }
        text += "\n"
    }

    mutating func finish() { if format == .openMetrics { text += "# EOF\n" } }

    /// A bound of a bucket as its label has it; in OpenMetrics always with a fraction.
    func bound(_ value: Double) -> String { format == .openMetrics ? String(value) : Self.number(value) }

    static func number(_ value: Double) -> String {
        value == value.rounded() && abs(value) < 1e15 ? String(Int64(value)) : String(value)
    }

    private static func escape(_ text: String) -> String {
        text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"").replacing("\n", with: "\\n")
    }
}

/// How the page is written.
package enum MetricsFormat: Sendable {
    /// Prometheus text, exposition format 0.0.4.
    case prometheus
    /// OpenMetrics 1.0, which has exemplars.
    case openMetrics

    package var contentType: String {
        switch self {
        case .prometheus: "text/plain; version=0.0.4; charset=utf-8"
        case .openMetrics: "application/openmetrics-text; version=1.0.0; charset=utf-8"
        }
    }
}
