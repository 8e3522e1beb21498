internal import Bytes
internal import CoreMetrics
internal import Foundation
internal import HTTPClient
internal import HTTPWire
package import Logging
internal import UploadCore
internal import UploadModel

/// Posts spans to a collector, in batches (OTLP over HTTP, https://opentelemetry.io/docs/specs/otlp/#otlphttp).
package final class SpanExporter: Sendable {
    private enum Outcome {
        case taken(rejected: Int)
        /// Another attempt may succeed.
        case away(String, after: Double?)
        case refused(String)
    }

    private let tracer: Tracer
    private let collector: TraceCollector
    private let document: TraceDocument
    private let client: HTTPClient
    private let logger: Logger
    private let brake = LogBrake(interval: .seconds(60))

    package init(_ tracer: Tracer, _ collector: TraceCollector, _ logger: Logger) {
        self.tracer = tracer
        self.collector = collector
        self.logger = logger
        document = TraceDocument(serviceName: collector.serviceName, instance: UUID().uuidString.lowercased())
        // The operator chose the collector, which often is on this machine.
        client = HTTPClient(userAgent: "Sluice/\(Version.current)", maximumTransfers: 4, addresses: .any)
    }

    /// Exports until the task is cancelled.
    package func run() async {
        while !Task.isCancelled {
            let count = tracer.bell.count
            if tracer.waiting < Tracer.batch { await tracer.bell.wait(after: count, timeout: Self.interval) }
            if Task.isCancelled { return }
            await exportNext(attempts: Self.attempts, within: Self.timeout)
        }
    }

    /// Exports what waits, and closes the connections; what is not taken in time is dropped.
    package func finish(within limit: Duration) async {
        let end = ContinuousClock.now + limit
        while tracer.waiting > 0, ContinuousClock.now < end {
            await exportNext(attempts: 1, within: min(end - .now, Self.timeout))
        }
        client.close()
    }

    private func exportNext(attempts: Int, within limit: Duration) async {
        let spans = tracer.take()
        if spans.isEmpty { return }
        let content = document.bytes(of: spans)
        for attempt in 1...attempts {
            switch await post(content, within: limit) {
            case .taken(let rejected):
                let rejected = min(rejected, spans.count)
                tracer.exported.increment(by: spans.count - rejected)
                if rejected > 0 { drop(rejected, "refused", "the collector rejected spans") }
                return
            case .refused(let reason): return drop(spans.count, "refused", reason)
            case .away(let reason, let wanted):
                // 1, 2, 4 … seconds; meanwhile the queue fills.
                let pause = max(min(wanted ?? 0, 30), Double(1 << (attempt - 1)))
                guard attempt < attempts, (try? await Task.sleep(for: .seconds(pause))) != nil else {
                    return drop(spans.count, "unavailable", reason)
                }
            }
        }
    }

    private func post(_ content: [UInt8], within limit: Duration) async -> Outcome {
        let request = HTTPClientRequest(
            method: "POST",
            url: collector.url,
            headers: collector.fields + [(name: "Content-Type", value: "application/json")],
            body: content,
            timeout: limit,
            connectTimeout: limit,
            maximumResponseBytes: 64 << 10
        )
        let response: HTTPClientResponse
        do throws(HTTPClientError) {
            response = try await client.send(request, within: limit)
        } catch {
            return .away(error.message, after: nil)
        }
        switch response.status {
        case 200..<300: return .taken(rejected: Self.rejected(response.body))
        case 429, 502, 503, 504:
            let wanted = RetryAfter.seconds(
                response.headers["Retry-After"],
                at: Date().timeIntervalSince1970
            )
            return .away("the collector responded with status \(response.status)", after: wanted)
        default: return .refused("the collector responded with status \(response.status)")
        }
    }

    /// The spans that a collector did not take from a request that it took (`partialSuccess.rejectedSpans`).
    private static func rejected(_ body: [UInt8]) -> Int {
        struct Reply: Decodable {
            struct Partial: Decodable {
                /// A 64-bit integer, as a text or as a number.
                let rejectedSpans: String?

                enum CodingKeys: CodingKey { case rejectedSpans }

                init(from decoder: any Decoder) throws {
                    let container = try decoder.container(keyedBy: CodingKeys.self)
                    rejectedSpans =
                        (try? container.decode(String.self, forKey: .rejectedSpans))
                        ?? (try? container.decode(Int.self, forKey: .rejectedSpans)).map { String($0) }
                }
            }
            let partialSuccess: Partial?
        }
        let reply = try? JSONDecoder().decode(Reply.self, from: Data(body))
        return max(0, reply?.partialSuccess?.rejectedSpans.flatMap { Int($0) } ?? 0)
    }

    private func drop(_ count: Int, _ reason: String, _ error: String) {
        tracer.drop(count, reason)
        guard let withheld = brake.pass() else { return }
        var metadata: Logger.Metadata = ["spans": "\(count)", "error": "\(error)"]
        if withheld > 0 { metadata["withheld"] = "\(withheld)" }
        logger.warning("spans were not exported", metadata: metadata)
    }

    private static let interval = Duration.seconds(2)
    private static let attempts = 5
    private static let timeout = Duration.seconds(10)
}
