/// Prometheus text under construction (exposition format 0.0.4).
struct MetricsPage {
    private(set) var text = ""

    mutating func header(_ name: String, _ type: MetricType, _ help: String?) {
        if let help { text += "# HELP \(name) \(help)\n" }
        text += "# TYPE \(name) \(type.rawValue)\n"
    }

    mutating func sample(_ name: String, _ labels: [(String, String)], _ value: Double) {
        text += name
        if !labels.isEmpty {
            text += "{" + labels.map { "\($0.0)=\"\(Self.escape($0.1))\"" }.joined(separator: ",") + "}"
        }
        text += " " + Self.number(value) + "\n"
    }

    static func number(_ value: Double) -> String {
        value == value.rounded() && abs(value) < 1e15 ? String(Int64(value)) : String(value)
    }

    private static func escape(_ text: String) -> String {
        text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"").replacing("\n", with: "\\n")
    }
}
