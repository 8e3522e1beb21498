internal import Glibc
package import HTTPServer
package import Logging
package import MetricsKit
internal import RESTKit
package import SystemIO
internal import Tracing
internal import UploadCore
package import UploadModel

/// Reports events of the server and of uploads to metrics and log.
package struct Observation: ServerObserver, UploadObserver {
    private let requests: RequestMetrics
    private let uploads: UploadMetrics
    private let logger: Logger
    /// Where lines of requests go as bytes; `nil` if they have another form than JSON.
    private let lines: LogSink?
    /// Limited, because clients can cause any number of these.
    private let handshakes = LogBrake()
    private let accepts = LogBrake()

    package init(metrics: MetricsRegistry, logger: Logger) {
        requests = RequestMetrics(metrics)
        uploads = UploadMetrics(metrics)
        self.logger = logger
        lines = (logger.handler as? LineLogHandler)?.sinkOfLines
    }

    package func handshakeFailed(_ failure: HandshakeFailure) {
        requests.failed(handshake: failure.kind)
        guard let withheld = handshakes.pass() else { return }
        var metadata: Logger.Metadata = ["peer": "\(failure.peerAddress)", "reason": "\(failure.kind.rawValue)"]
        if let detail = failure.detail { metadata["error"] = "\(detail)" }
        if withheld > 0 { metadata["withheld"] = .number(withheld) }
        let message: Logger.Message =
            failure.kind == .proxyHeader ? "connection of a proxy that does not say for whom" : "TLS handshake failed"
        logger.info(message, metadata: metadata)
    }

    package func acceptFailed(_ error: SystemError) {
        requests.failed(accept: error.reason)
        guard let withheld = accepts.pass() else { return }
        var metadata: Logger.Metadata = ["error": "\(error)"]
        if withheld > 0 { metadata["withheld"] = .number(withheld) }
        logger.warning("connection not taken", metadata: metadata)
    }

    package func connectionOpened() { requests.connectionOpened() }

    package func connectionRefused() { requests.connectionRefused() }

    package func connectionClosed() { requests.connectionClosed() }

    package func requestFinished(_ summary: RequestSummary) {
        requests.requestFinished(summary)
        summary.endSpan()
        guard logger.logLevel <= .info else { return }
        if let lines {
            var time = timespec()
            clock_gettime(CLOCK_REALTIME, &time)
            JSONLine.withBytes(of: summary, at: time) { lines.append($0, isUrgent: false) }
        } else {
            var fields = MetadataFields()
            summary.describe(to: &fields)
            logger.info("\(RequestSummary.message)", metadata: fields.metadata)
        }
    }

    package func observe(_ event: UploadEvent) {
        uploads.observe(event)
        switch event {
        case .created(let upload):
            TraceScope.current?.note(upload: upload.id.text)
            logger.debug("upload created", metadata: ["upload": "\(upload.id)", "principal": "\(upload.principal)"])
        case .appended(let upload, let bytes):
            logger.debug("bytes stored", metadata: ["upload": "\(upload.id)", "bytes": .number(bytes)])
        case .completed(let upload, let media):
            let name = media == nil ? "partial upload completed" : "upload completed"
            logger.info("\(name)", metadata: ["upload": "\(upload.id)", "bytes": .number(upload.offset)])
        case .terminated(let id): logger.info("upload terminated", metadata: ["upload": "\(id)"])
        case .expired(let id): logger.info("upload expired", metadata: ["upload": "\(id)"])
        case .takenOver(let id): logger.debug("upload taken over", metadata: ["upload": "\(id)"])
        case .brokenOff(let id, let failure, let bytes):
            logger.info(
                "append broken off",
                metadata: ["upload": "\(id)", "reason": "\(failure)", "bytes": .number(bytes)]
            )
        case .swept(_, 0, 0): break
        case .swept(let blobs, let setAside, 0):
            logger.warning(
                "blobs without a record were set aside",
                metadata: ["orphans": .number(setAside), "blobs": .number(blobs)]
            )
        case .swept(let blobs, _, let left):
            logger.error(
                """
                too many blobs have no record, and nothing is done with them: is the state an older one? Stop the gateway and run \
                `sluice adopt --dry-run`, then `sluice adopt` to make records of them, or `sluice adopt --accept` to let them be set aside
                """,
                metadata: ["orphans": .number(left), "blobs": .number(blobs)]
            )
        case .turnedAway, .refused: break
        case .failed(let id, let error):
            var metadata: Logger.Metadata = ["code": "\(error.code.name)", "error": "\(error.message)"]
            if let id { metadata["upload"] = "\(id)" }
            if let cause = error.cause { metadata["cause"] = "\(cause)" }
            logger.error("storage or state failed", metadata: metadata)
        }
    }
}
