package import Bytes
internal import CCurl
internal import Foundation
internal import Tracing
package import Transport

/// An HTTP/1.1 client, with and without TLS, based on libcurl.
///
/// The transfers of a client run on a few threads of its own: a transfer needs no thread and never blocks Swift's. The
/// environment has no influence: no proxy, no netrc, no cookies. Certificates are verified.
///
/// A request reuses an idle connection if there is one. If the server had closed that connection before the first byte
/// of a response, the request is sent again on a new one. The server may then have executed it twice, unless sending it
/// failed.
package final class HTTPClient: Sendable {
    /// `false` if a proxy is configured with an invalid URL.
    private let isProxyUsable: Bool
    private let loops: TransferLoops
    /// What the requests are for, in spans.
    private let purpose: String

    /// - Parameters:
    ///   - userAgent: The User-Agent field of requests that have none.
    ///   - purpose: What the requests are for, in spans of traces: a noun such as `store`.
    ///   - maximumTransfers: Maximum number of concurrent transfers; further ones are queued. At least 1.
    ///   - keptConnections: Maximum number of open connections, including those in use. If it is less than the number
    /// of concurrent
    ///     transfers, connections are closed when their transfer ends. At least 1.
    ///   - maximumThreads: Maximum number of threads that run transfers. A thread starts when each of the others has a
    ///     transfer, so a client without requests has none. At least 1; see `threadsForContent`.
    ///   - addresses: The addresses that the client may connect to. With a proxy, which resolves names itself, this
    /// applies to the
    ///     proxy's own address and to URL hosts that are addresses or `localhost`; the proxy must check the addresses
    /// of other
    ///     names.
    ///   - authorities: A PEM file of trusted certificates, also for a proxy; replaces those of the system.
    ///   - verifiesCertificates: `false` for a server on this machine only.
    ///   - server: Of all requests, for a server on this machine only; `nil` for the one in the URL of each.
    ///   - proxy: The URL of the proxy for all requests; `WebProxy` shows whether it is valid. With an invalid URL
    /// every request is
    ///     refused.
    package init(
        userAgent: String,
        purpose: String = "other",
        maximumTransfers: Int = 256,
        keptConnections: Int = 32,
        maximumThreads: Int = 1,
        addresses: AddressPolicy,
        authorities: String? = nil,
        verifiesCertificates: Bool = true,
        server: LocalServer? = nil,
        proxy: String? = nil
    ) {
        self.purpose = purpose
        let webProxy = proxy.flatMap(WebProxy.init)
        isProxyUsable = proxy == nil || webProxy != nil
        loops = TransferLoops(
            TransferLoop.Settings(
                userAgent: userAgent,
                maximumTransfers: max(1, maximumTransfers),
                keptConnections: max(1, keptConnections),
                maximumThreads: max(1, maximumThreads),
                addresses: addresses,
                authorities: authorities,
                verifiesCertificates: verifiesCertificates,
                server: server,
                proxy: webProxy
            )
        )
    }

    /// Loads libcurl, which is not linked; by default the first client with a request does it.
    ///
    /// - Throws: `LibraryMissing` if that fails. Then every request is refused.
    package static func load() throws(LibraryMissing) {
        if let whyUnavailable { throw LibraryMissing(description: whyUnavailable) }
    }

    private static var whyUnavailable: String? {
        ccurl_load().map { "libcurl cannot be loaded: " + String(cString: $0) }
    }

    /// The number of threads for a client that moves much content: one for each core, at most 8.
    ///
    /// Not more, because each has connections of its own, and with TLS the trusted certificates in memory.
    package static var threadsForContent: Int { min(8, ProcessInfo.processInfo.activeProcessorCount) }

    deinit { close() }

    /// Sends a request and receives its whole response.
    ///
    /// - Returns: The response, whatever its status.
    /// - Throws: `.tooLarge` before any content is received, if the response announces its length; `.cancelled` with
    ///   the task.
    package func send(_ request: HTTPClientRequest) async throws(HTTPClientError) -> HTTPClientResponse {
        let download = try await open(request)
        if request.method != "HEAD", let length = download.head.contentLength, length > request.maximumResponseBytes {
            download.cancel()
            throw .tooLarge(limit: request.maximumResponseBytes)
        }
        var body: [UInt8] = []
        while let piece = try await download.piece(maximum: .max) {
            guard piece.count <= request.maximumResponseBytes - body.count else {
                download.cancel()
                throw .tooLarge(limit: request.maximumResponseBytes)
            }
            if body.isEmpty { body = piece } else { body += piece }
        }
        return HTTPClientResponse(status: download.head.status, headers: download.head.headers, body: body)
    }

    /// Like `send`, with a time limit for the whole response.
    ///
    /// - Parameters:
    ///   - request: The request to send.
    ///   - limit: From now; includes time in the queue.
    /// - Returns: The response, whatever its status.
    /// - Throws: Like `send`; `.timedOut`.
    package func send(
        _ request: HTTPClientRequest,
        within limit: Duration
    ) async throws(HTTPClientError) -> HTTPClientResponse {
        let work = Task { () async -> Result<HTTPClientResponse, HTTPClientError> in
            do throws(HTTPClientError) { return .success(try await send(request)) } catch { return .failure(error) }
        }
        let timer = Task {
            guard (try? await Task.sleep(for: limit)) != nil else { return }
            work.cancel()
        }
        defer { timer.cancel() }
        let result = await withTaskCancellationHandler {
            await work.value
        } onCancel: {
            work.cancel()
        }
        if case .failure(.cancelled) = result, !Task.isCancelled { throw .timedOut }
        return try result.get()
    }

    /// Sends a request and returns after the head of its response; the caller pulls the content.
    ///
    /// The transfer ends when the download is released.
    package func open(_ request: HTTPClientRequest) async throws(HTTPClientError) -> HTTPDownload {
        guard let caller = TraceScope.current else { return try await start(request) }
        let span = caller.child()
        var request = request
        request.headers.removeAll { ["traceparent", "tracestate"].contains($0.name.lowercasedASCII()) }
        request.headers += span.context.fields
        do throws(HTTPClientError) {
            let download = try await start(request)
            end(span, request, status: download.head.status, nil)
            return download
        } catch {
            end(span, request, status: nil, error)
            throw error
        }
    }

    /// Ends the span of a request when the head of its response is there.
    ///
    /// Attributes: https://opentelemetry.io/docs/specs/semconv/http/http-spans/#http-client. Path and query are left out,
    /// because they can contain credentials.
    private func end(_ span: TraceScope, _ request: HTTPClientRequest, status: Int?, _ error: HTTPClientError?) {
        guard span.context.isSampled else { return }
        var attributes = [
            FinishedSpan.Attribute("http.request.method", request.method),
            FinishedSpan.Attribute("sluice.purpose", purpose),
        ]
        if let address = WebAddress(request.url) {
            attributes.append(FinishedSpan.Attribute("server.address", address.host))
            attributes.append(FinishedSpan.Attribute("server.port", Int64(address.port)))
            attributes.append(FinishedSpan.Attribute("url.scheme", String(address.origin.prefix { $0 != ":" })))
        }
        var failure = error.map(Self.name)
        if let status {
            attributes.append(FinishedSpan.Attribute("http.response.status_code", Int64(status)))
            if status >= 400 { failure = String(status) }
        }
        if let failure { attributes.append(FinishedSpan.Attribute("error.type", failure)) }
        span.end("\(request.method) \(purpose)", .client, attributes, error: failure)
    }

    /// Without details, which can contain names of hosts.
    private static func name(of error: HTTPClientError) -> String {
        switch error {
        case .badRequest: "bad_request"
        case .refusedAddress: "address_refused"
        case .tooManyRedirects: "too_many_redirects"
        case .unreachable: "unreachable"
        case .proxy: "proxy"
        case .tls: "tls"
        case .connection: "disconnected"
        case .contentFailed: "content_failed"
        case .malformed: "malformed"
        case .padded: "padded"
        case .timedOut: "timed_out"
        case .tooLarge: "too_large"
        case .cancelled: "cancelled"
        case .stopped: "stopped"
        }
    }

    private func start(_ request: HTTPClientRequest) async throws(HTTPClientError) -> HTTPDownload {
        if let reason = Self.whyUnavailable { throw .badRequest(reason) }
        guard isProxyUsable else { throw .badRequest("the URL of the proxy is not valid") }
        let prepared = try PreparedRequest(request)
        let transfer = Transfer(prepared, loops)
        loops.start(transfer)
        return HTTPDownload(try await transfer.head(), transfer)
    }

    /// Ends every current and later transfer with `.stopped`.
    package func close() { loops.close() }
}

/// How to reach a server on this machine that is not just at an address.
package struct LocalServer: Sendable {
    /// The path of its Unix socket; `nil` if it is at the address in the URL.
    package var unixPath: String?
    /// Whether a connection begins with a header of the PROXY protocol.
    package var expectsProxyHeader: Bool
    /// PEM files of a certificate for the client and of its key, if the server wants one.
    package var certificate: TLSFiles?

    package init(unixPath: String?, expectsProxyHeader: Bool, certificate: TLSFiles? = nil) {
        self.unixPath = unixPath
        self.expectsProxyHeader = expectsProxyHeader
        self.certificate = certificate
    }
}

/// The content of a response while it arrives; its head is already there.
package final class HTTPDownload: ByteSource {
    package let head: HTTPClientHead
    /// Why the download failed, in more detail than a `SourceFailure`.
    package private(set) var failure: HTTPClientError?

    private let transfer: Transfer
    private var pulled: Int64 = 0

    init(_ head: HTTPClientHead, _ transfer: Transfer) {
        self.head = head
        self.transfer = transfer
    }

    deinit { transfer.end(with: .cancelled) }

    /// The announced length of the response, less the bytes that were pulled.
    package var remaining: Int64? { head.contentLength.map { max(0, $0 - pulled) } }

    package var interrupter: SourceInterrupter {
        SourceInterrupter { [transfer] failure in transfer.end(with: .cancelled, as: failure) }
    }

    package func next(maximum: Int) async throws(SourceFailure) -> [UInt8]? {
        do throws(HTTPClientError) {
            return try await piece(maximum: maximum)
        } catch {
            throw transfer.interruption ?? error.sourceFailure
        }
    }

    /// Like `next`, but throws the client's own error.
    func piece(maximum: Int) async throws(HTTPClientError) -> [UInt8]? {
        do throws(HTTPClientError) {
            let piece = try await transfer.next(maximum: maximum)
            pulled += Int64(piece?.count ?? 0)
            return piece
        } catch {
            failure = error
            throw error
        }
    }

    func cancel() { transfer.end(with: .cancelled) }
}
