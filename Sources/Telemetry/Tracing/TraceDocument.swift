internal import Bytes
internal import Tracing

/// Spans as `ExportTraceServiceRequest` in JSON (https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding): ids
/// are hexadecimal, 64-bit integers are texts, enumerations are numbers.
struct TraceDocument {
    let serviceName: String
    /// Identifies the process.
    let instance: String

    func bytes(of spans: [FinishedSpan]) -> [UInt8] {
        let resource = attributes([
            FinishedSpan.Attribute("service.name", serviceName),
            FinishedSpan.Attribute("service.version", Version.current),
            FinishedSpan.Attribute("service.instance.id", instance),
        ])
        let scope = object {
            $0.member("name", "sluice")
            $0.member("version", Version.current)
        }
        let scopeSpans = object {
            $0.member("scope", json: scope)
            $0.member("spans", json: array(spans.map(json)))
        }
        let resourceSpans = object {
            $0.member("resource", json: object { $0.member("attributes", json: resource) })
            $0.member("scopeSpans", json: array([scopeSpans]))
        }
        return Array(object { $0.member("resourceSpans", json: array([resourceSpans])) }.utf8)
    }

    private func json(_ span: FinishedSpan) -> String {
        object { text in
            text.member("traceId", span.context.traceID)
            text.member("spanId", span.context.spanText)
            if span.parentID != 0 { text.member("parentSpanId", TraceContext.text(span.parentID)) }
            if !span.context.state.isEmpty { text.member("traceState", span.context.state) }
            text.member("flags", Int64(1))
            text.member("name", span.name)
            text.member("kind", span.kind.rawValue)
            text.member("startTimeUnixNano", String(span.start))
            text.member("endTimeUnixNano", String(span.end))
            text.member("attributes", json: attributes(span.attributes))
            guard let error = span.error else { return }
            let status = object {
                $0.member("code", Int64(2))
                $0.member("message", error)
            }
            text.member("status", json: status)
        }
    }

    private func attributes(_ attributes: [FinishedSpan.Attribute]) -> String {
        array(
            attributes.map { attribute in
                let value = object {
                    switch attribute.value {
                    case .text(let text): $0.member("stringValue", text)
                    case .number(let number): $0.member("intValue", String(number))
                    }
                }
                return object {
                    $0.member("key", attribute.name)
                    $0.member("value", json: value)
                }
            }
        )
    }

    private func object(_ fill: (inout JSONObjectWriter) -> Void) -> String {
        var text = JSONObjectWriter(capacity: 256)
        fill(&text)
        return text.text()
    }

    private func array(_ elements: [String]) -> String { "[" + elements.joined(separator: ",") + "]" }
}
