internal import HTTPWire
package import SettingsKit

package struct TracingSettings: SettingsSection {
    /// Without `/v1/traces`; `nil` for no traces.
    package var endpoint: String?
    package var sampleRatio = 0.1
    /// `name=value` pairs separated by commas, values percent-encoded.
    package var headers: Secret<String>?
    package var serviceName: String?

    package init() {}

    package static let table: [Setting] = [
        setting(
            "tracing.endpoint",
            \.endpoint,
            optional: .publicURL,
            "URL of a collector of OpenTelemetry that takes OTLP over HTTP; `/v1/traces` is added. If not set, and if OTEL_EXPORTER_OTLP_ENDPOINT is not, there are no traces."
        ),
        setting(
            "tracing.sampleRatio",
            \.sampleRatio,
            .ratio,
            "Share of the requests that are traced; requests with a field `traceparent` follow its flag instead."
        ),
        setting(
            "tracing.headers",
            \.headers,
            secret: .collectorFields,
            "Header fields for the collector, such as its credentials; by default those of OTEL_EXPORTER_OTLP_HEADERS."
        ),
        setting(
            "tracing.serviceName",
            \.serviceName,
            optional: .visible(minimum: 1),
            "The `service.name` of the spans; by default that of OTEL_SERVICE_NAME, or sluice."
        ),
    ]

    /// Where spans go; the variables of OpenTelemetry
    /// (https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/) take the place of what is not
    /// set.
    ///
    /// - Parameter environment: The variables of the process.
    /// - Returns: `nil` for no traces.
    package func collector(_ environment: [String: String]) -> TraceCollector? {
        func variable(_ name: String) -> String? { environment[name].flatMap { $0.isEmpty ? nil : $0 } }
        let named = variable("OTEL_EXPORTER_OTLP_ENDPOINT").flatMap(SettingFormat<String>.publicURL.parse)
        guard var url = endpoint ?? named, variable("OTEL_SDK_DISABLED")?.lowercased() != "true" else { return nil }
        if !url.hasSuffix(TraceCollector.path) { url += TraceCollector.path }
        let fields = headers?.exposed ?? variable("OTEL_EXPORTER_OTLP_HEADERS")
        return TraceCollector(
            url: url,
            fields: fields.flatMap(CollectorFields.parse) ?? [],
            serviceName: serviceName ?? variable("OTEL_SERVICE_NAME") ?? "sluice"
        )
    }
}

/// Where spans go.
package struct TraceCollector: Sendable {
    static let path = "/v1/traces"

    package let url: String
    /// Header fields with credentials.
    package let fields: [(name: String, value: String)]
    package let serviceName: String
}

extension Settings {
    package var tracing: TracingSettings {
        get { self[TracingSettings.self] }
        set { self[TracingSettings.self] = newValue }
    }
}

extension SettingFormat where Value == Double {
    fileprivate static let ratio = SettingFormat(
        allowed: "a number from 0 to 1, such as 0.05",
        parse: { text in
            let isPlain = text.utf8.allSatisfy { (0x30...0x39).contains($0) || $0 == UInt8(ascii: ".") }
            guard isPlain, let number = Double(text), (0...1).contains(number) else { return nil }
            return number
        },
        render: { $0 == $0.rounded() ? String(Int($0)) : String($0) }
    )
}

extension SettingFormat where Value == String {
    fileprivate static let collectorFields = SettingFormat(
        allowed: "name=value pairs separated by commas, values percent-encoded, such as authorization=Bearer%20abc",
        parse: { CollectorFields.parse($0) == nil ? nil : $0 },
        render: { $0 }
    )
}

/// The format of `OTEL_EXPORTER_OTLP_HEADERS`: that of W3C Baggage, without its properties.
enum CollectorFields {
    static func parse(_ text: String) -> [(name: String, value: String)]? {
        var fields: [(name: String, value: String)] = []
        for pair in text.split(separator: ",") {
            let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2 else { return nil }
            let name = String(parts[0].trimmingWhitespace())
            guard FieldName(name) != nil, let bytes = PercentEncoding.decode(parts[1].trimmingWhitespace().utf8),
                bytes.allSatisfy({ (0x20...0x7E).contains($0) })
            else { return nil }
            fields.append((name: name, value: String(decoding: bytes, as: UTF8.self)))
        }
        return fields
    }
}
