package import Bytes
internal import Foundation

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

    /// - Parameters:
    ///   - userAgent: The User-Agent field of requests that have none.
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
    ///   - proxy: The URL of the proxy for all requests; `WebProxy` shows whether it is valid. With an invalid URL
    /// every request is
    ///     refused.
    package init(
        userAgent: String,
        maximumTransfers: Int = 256,
        keptConnections: Int = 32,
        maximumThreads: Int = 1,
        addresses: AddressPolicy,
        authorities: String? = nil,
        proxy: String? = nil
    ) {
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
                proxy: webProxy
            )
        )
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
        guard isProxyUsable else { throw .badRequest("the URL of the proxy is not valid") }
        let prepared = try PreparedRequest(request)
        let transfer = Transfer(prepared, loops)
        loops.start(transfer)
        return HTTPDownload(try await transfer.head(), transfer)
    }

    /// Ends every current and later transfer with `.stopped`.
    package func close() { loops.close() }
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
