package import Bytes
internal import Synchronization

/// Sends requests over HTTP/1.1 and HTTPS, by libcurl.
///
/// All transfers of a client run on one thread of its own, so that one costs no thread and never blocks Swift's. Nothing of
/// the environment has an influence: no proxy, no netrc, no cookies. Certificates are verified.
///
/// A request goes to a connection that was kept, if there is one. If the other side had closed that, without a byte of an
/// answer, the request is sent again on another: then nobody can tell whether it was executed before, unless sending it failed.
package final class HTTPClient: Sendable {
    private struct State {
        /// Made for the first request, so that a client that is never used costs nothing.
        var loop: TransferLoop?
        var isClosed = false
    }

    private let settings: TransferLoop.Settings
    /// The proxy, if one is wanted.
    private let hasProxy: Bool
    private let state = Mutex(State())

    /// - Parameters:
    ///   - userAgent: The User-Agent field of requests that have none.
    ///   - maximumTransfers: At once; further ones wait in line. At least 1.
    ///   - keptConnections: At most, those in use included: with fewer than there are transfers at once, connections are
    ///     closed when their transfer ends. At least 1.
    ///   - addresses: Which addresses may be connected to. With a proxy, which names are looked up by the proxy, this is asked
    ///     for the proxy's own address, and for a host in a URL that is an address or `localhost`. What another name stands for
    ///     can not be checked: that is left to the proxy.
    ///   - authorities: A file of PEM certificates to be trusted, instead of those of the system; for a proxy as well.
    ///   - proxy: The URL of the proxy for all requests; see `WebProxy`, which tells whether it is valid. With one that is not,
    ///     every request is refused.
    package init(
        userAgent: String,
        maximumTransfers: Int = 256,
        keptConnections: Int = 32,
        addresses: AddressPolicy,
        authorities: String? = nil,
        proxy: String? = nil
    ) {
        let webProxy = proxy.flatMap(WebProxy.init)
        hasProxy = proxy == nil || webProxy != nil
        settings = TransferLoop.Settings(
            userAgent: userAgent,
            maximumTransfers: max(1, maximumTransfers),
            keptConnections: max(1, keptConnections),
            addresses: addresses,
            authorities: authorities,
            proxy: webProxy
        )
    }

    deinit { close() }

    /// Sends a request and takes its whole answer.
    ///
    /// - Returns: The answer, whatever its status.
    /// - Throws: `.tooLarge` before a byte of the content is taken, if its length is told; `.cancelled` with the task.
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

    /// Sends a request as `send`, and gives it up if its whole answer is not there in time.
    ///
    /// - Parameters:
    ///   - request: What is sent.
    ///   - limit: From now on; the time that it waits in line behind others counts, too.
    /// - Returns: The answer, whatever its status.
    /// - Throws: As `send`; `.timedOut`.
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

    /// Sends a request and returns with the head of its answer; its content comes as it is pulled.
    ///
    /// The transfer ends when the download is forgotten.
    package func open(_ request: HTTPClientRequest) async throws(HTTPClientError) -> HTTPDownload {
        guard hasProxy else { throw .badRequest("the URL of the proxy is not valid") }
        let prepared = try PreparedRequest(request)
        let loop: TransferLoop? = state.withLock { state in
            if state.isClosed { return nil }
            if state.loop == nil { state.loop = TransferLoop(settings) }
            return state.loop
        }
        guard let loop else { throw .stopped }
        let transfer = Transfer(prepared, loop: loop)
        loop.start(transfer)
        return HTTPDownload(try await transfer.head(), transfer)
    }

    /// Ends every transfer with `.stopped`, as every later one.
    package func close() {
        let loop = state.withLock { state in
            state.isClosed = true
            return state.loop.take()
        }
        loop?.close()
    }
}

/// The content of an answer while it comes; its head came before.
package final class HTTPDownload: ByteSource {
    package let head: HTTPClientHead
    /// Why it ended, in more words than a `SourceFailure` has.
    package private(set) var failure: HTTPClientError?

    private let transfer: Transfer
    private var pulled: Int64 = 0

    init(_ head: HTTPClientHead, _ transfer: Transfer) {
        self.head = head
        self.transfer = transfer
    }

    deinit { transfer.end(with: .cancelled) }

    /// What the answer told of its length, less what was pulled.
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

    /// As `next`, with the client's own error.
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
