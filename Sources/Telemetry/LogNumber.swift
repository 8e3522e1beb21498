package import Logging

/// A number of a log line, which is one in JSON too.
package struct LogNumber: CustomStringConvertible, Sendable {
    /// In JSON's form.
    package let description: String
}

extension Duration {
    /// Whole microseconds.
    var microseconds: Int64 { components.seconds * 1_000_000 + components.attoseconds / 1_000_000_000_000 }
}

extension Logger.MetadataValue {
    package static func number(_ value: some FixedWidthInteger) -> Logger.MetadataValue {
        .stringConvertible(LogNumber(description: String(value)))
    }

    /// A duration in milliseconds, with three digits behind the point.
    package static func milliseconds(_ duration: Duration) -> Logger.MetadataValue {
        let microseconds = duration.microseconds
        let fraction = String(microseconds % 1000)
        let text = "\(microseconds / 1000).\(String(repeating: "0", count: 3 - fraction.count))\(fraction)"
        return .stringConvertible(LogNumber(description: text))
    }
}
