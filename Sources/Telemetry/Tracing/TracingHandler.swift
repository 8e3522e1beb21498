internal import HTTPServer
package import HTTPWire
package import Tracing
internal import UploadModel

/// Begins a span for each request, as part of the trace that the client names, and passes it on to what the request calls.
package struct TracingHandler: RequestHandler {
    private let handler: any RequestHandler
    private let tracer: any SpanRecorder

    package init(_ handler: any RequestHandler, _ tracer: any SpanRecorder) {
        self.handler = handler
        self.tracer = tracer
    }

    package func respond(to request: Request) async -> Response {
        let fields = request.head.fields
        let parent = fields["traceparent"].flatMap { TraceContext(parent: $0, state: fields["tracestate"]) }
        let scope = tracer.scope(continuing: parent)
        var response = await TraceScope.$current.with(scope) { await handler.respond(to: request) }
        response.trace.scope = scope
        response.trace.isEncrypted = request.isEncrypted
        return response
    }
}

extension RequestSummary {
    /// Ends the span of the request; attributes: https://opentelemetry.io/docs/specs/semconv/http/http-spans/.
    ///
    /// Neither path nor query is one of them, because they can contain credentials.
    func endSpan() {
        guard let scope = trace.scope else { return }
        let method = method?.rawValue ?? "_OTHER"
        var error: String?
        if status.code >= 500 { error = trace.errorCode ?? String(status.code) }
        if isBroken { error = "response_incomplete" }
        scope.end(trace.route.map { "\(method) \($0)" } ?? method, .server, attributes(method, error), error: error)
    }

    private func attributes(_ method: String, _ error: String?) -> [FinishedSpan.Attribute] {
        var attributes = [
            FinishedSpan.Attribute("http.request.method", method),
            FinishedSpan.Attribute("http.response.status_code", Int64(status.code)),
            FinishedSpan.Attribute("url.scheme", trace.isEncrypted ? "https" : "http"),
            FinishedSpan.Attribute("client.address", trace.clientAddress ?? peerAddress),
            FinishedSpan.Attribute("network.peer.address", peerAddress),
            FinishedSpan.Attribute("http.request.body.size", bytesReceived),
            FinishedSpan.Attribute("http.response.body.size", bytesSent),
            FinishedSpan.Attribute("sluice.request.id", id),
        ]
        if let route = trace.route { attributes.append(FinishedSpan.Attribute("http.route", route)) }
        if let dialect = trace.dialect { attributes.append(FinishedSpan.Attribute("sluice.dialect", dialect.name)) }
        if let upload = trace.uploadID ?? trace.scope?.uploadID {
            attributes.append(FinishedSpan.Attribute("sluice.upload.id", upload))
        }
        if let media = trace.mediaID { attributes.append(FinishedSpan.Attribute("sluice.media.id", media)) }
        if let code = error ?? trace.errorCode { attributes.append(FinishedSpan.Attribute("error.type", code)) }
        return attributes
    }
}
