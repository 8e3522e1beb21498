internal import Foundation

/// Prometheus text under construction.
package struct MetricsPage {
    package private(set) var text = ""

    package mutating func header(_ name: String, _ type: String, _ help: String) {
        text += "# HELP \(name) \(help)\n# TYPE \(name) \(type)\n"
    }

    package mutating func sample(_ name: String, _ labels: [(String, String)], _ value: Double) {
        text += name
        if !labels.isEmpty {
            text += "{" + labels.map { "\($0.0)=\"\(Self.escape($0.1))\"" }.joined(separator: ",") + "}"
        }
        text += " " + Self.number(value) + "\n"
    }

    package mutating func single(_ name: String, _ type: String, _ help: String, _ value: Double) {
        header(name, type, help)
        sample(name, [], value)
    }

    package mutating func family(_ name: String, _ help: String, _ label: String, _ values: [String: UInt64]) {
        header(name, "counter", help)
        for (key, value) in values.sorted(by: { $0.key < $1.key }) { sample(name, [(label, key)], Double(value)) }
    }

    package static func number(_ value: Double) -> String {
        value == value.rounded() && abs(value) < 1e15 ? String(Int64(value)) : String(value)
    }

    private static func escape(_ text: String) -> String {
        text.replacingOccurrences(of: "\\", with: "\\\\").replacingOccurrences(of: "\"", with: "\\\"")
            .replacingOccurrences(of: "\n", with: "\\n")
    }
}
