internal import COpenAPI
internal import Foundation
internal import GatewayKit
internal import HTTPWire
internal import MetricsKit
internal import RESTKit
internal import Telemetry
internal import UploadCore
internal import UploadModel

/// For operators and tools: health, metrics, and the API description.
struct OperationsAPI: Sendable {
    let state: any StateHealth
    let storage: any BlobStorage
    /// Why state and storage did not belong together at the start; `nil` if they did.
    let mismatch: StoreMismatch?
    let binding: StoreBinding
    let drain: Drain
    let metrics: MetricsRegistry
    /// Whether durations of requests can name their traces.
    let hasTraces: Bool
    let access: Access
    let publicURL: PublicURL
    /// Whether `/metrics` needs no key.
    let hasOpenMetrics: Bool

    var routes: [Route] {
        [
            Route(.get, "/healthz") { _, _ in
                Response(200, JSONResponse.fields, .bytes(Self.healthy))
            },
            Route(.get, "/readyz") { request, _ in
                await responding(request) { () throws(Problem) in try await readiness() }
            },
            Route(.get, "/metrics") { request, _ in
                await responding(request) { () throws(Problem) in
                    if !hasOpenMetrics { try await access.require(.read, request) }
                    let format = format(for: request.head)
                    return Response(
                        200,
                        ["Content-Type": format.contentType, "Cache-Control": "no-store"],
                        .bytes(Array(metrics.text(format).utf8))
                    )
                }
            },
            Route(.get, "/openapi.yaml") { request, _ in
                // Browsers show text, and store what they do not know.
                let type = StartPage.isWanted(by: request) ? "text/plain; charset=utf-8" : "application/yaml"
                return Response(
                    200,
                    ["Content-Type": type, "Cache-Control": "no-cache", "Vary": "Accept"],
                    .bytes(OpenAPIDocument.bytes(server: publicURL.isSet ? publicURL.base(for: request) : nil))
                )
            },
        ]
    }

    /// OpenMetrics for clients that prefer it, if there can be exemplars, which only that format has.
    private func format(for head: RequestHead) -> MetricsFormat {
        guard hasTraces, let accept = head.fields["Accept"] else { return .prometheus }
        // Prometheus 3 says so of names, and all here are plain.
        let open = "application/openmetrics-text; version=1.0.0; escaping=allow-utf-8; charset=utf-8"
        let isPreferred = AcceptHeader(accept).prefers(open, over: MetricsFormat.prometheus.contentType)
        return isPreferred ? .openMetrics : .prometheus
    }

    private static let healthy = Array("{\"status\":\"ok\",\"version\":\"\(Version.current)\"}\n".utf8)

    /// Whether clients should come here: state and storage can be read and written now, and no shutdown is under way.
    private func readiness() async throws(Problem) -> Response {
        if drain.isUnderWay { throw Self.notReady("this node shuts down") }
        if let mismatch { throw Self.notReady(mismatch) }
        // Another storage may have taken the place of ours, or nothing.
        let since: StoreMismatch?
        do throws(UploadError) {
            try await state.check()
            try await storage.check()
            since = try await binding.compare()
        } catch {
            access.observer.observe(.failed(nil, error))
            throw Self.notReady(error.message)
        }
        if let since {
            access.observer.observe(.failed(nil, UploadError(.storageFailure, since.description)))
            throw Self.notReady(since)
        }
        return JSONResponse.response(200, ["status": "ready"])
    }

    private static func notReady(_ mismatch: StoreMismatch) -> Problem {
        Problem(503, mismatch.rawValue, "not ready: \(mismatch.description)")
    }

    private static func notReady(_ reason: String) -> Problem {
        var problem = Problem(503, "unavailable", "not ready: \(reason)")
        problem.fields["Retry-After"] = "5"
        return problem
    }
}

/// The text of `openapi.yaml` at build time, with the version of this build.
package enum OpenAPIDocument {
    package static let bytes: [UInt8] = {
        var count = 0
        // All `count` bytes are constants of the program.
        let document = [UInt8](UnsafeBufferPointer(start: copenapi_document(&count), count: count))
        // The first such line is the one of `info`.
        guard let name = document.firstRange(of: Array("\n  version: ".utf8)),
            let end = document[name.upperBound...].firstIndex(of: UInt8(ascii: "\n"))
        else { return document }
        return document[..<name.upperBound] + Array(Version.current.utf8) + document[end...]
    }()

    /// The document with the URL of this server, if it is known, in place of the default listener.
    package static func bytes(server url: String?) -> [UInt8] {
        guard let url else { return bytes }
        let server = "  - url: '\(url.replacing("'", with: "''"))'\n"
        return Array(
            String(decoding: bytes, as: UTF8.self).replacing(defaultServer, with: server, maxReplacements: 1).utf8
        )
    }

    private static let defaultServer =
        "  - url: http://127.0.0.1:8080\n    description: The default listener.\n"
}
