internal import Bytes
internal import CCurl
internal import Glibc
internal import HTTPWire
internal import Transport

/// One request to one URL; owns an easy handle.
///
/// A transfer with redirects has several attempts.
///
/// Invariant: everything here, including libcurl's callbacks, runs on the loop's thread. The callbacks have an
/// unretained pointer to the attempt; they are called only while the handle is in the multi handle, and during that
/// time the loop retains the attempt.
final class RequestAttempt {
    let transfer: Transfer
    let deadline: ContinuousClock.Instant?

    let request: PreparedRequest
    /// Called on the loop's thread, within libcurl.
    var hasResponse: () -> Void = {}

    private let isOnNewConnection: Bool
    /// Before `sockets`: releasing it may close one.
    private let easy: EasyHandle
    private let sockets: OpenSockets
    private var socket: curl_socket_t?
    /// Those that this attempt opened.
    private var openedSockets: Set<curl_socket_t> = []
    /// Of the content, as libcurl passes it on: without the framing of chunks.
    private var contentBytes: Int64 = 0
    /// Whether the last read of content was postponed to look for a response.
    private var hasPostponedRead = false
    private var sent: SentContent?
    /// The response that refused `Expect`; libcurl then sends the request again without it.
    private var failedExpectation: HTTPClientHead?
    private let addresses: AddressPolicy
    /// Whether every connection goes to one Unix socket, which has no address.
    private let isLocal: Bool
    private var status = 0
    private var fields = HTTPFields()
    private var fieldBytes = 0
    private var isHeadComplete = false
    /// Whether the next line of a head is its status line.
    private var isBeforeHead = true
    /// Whether the last field says where the content ends.
    private var isFraming = false
    /// The target of a redirect that will be followed.
    private var location: String?
    private var discarded = 0
    private var refused: String?

    /// Maximum bytes of all heads of one attempt, including interim ones, and of trailer fields, each of which libcurl keeps.
    private static let maximumFieldBytes = 256 << 10
    /// Maximum content of a redirect that is read to keep the connection.
    private static let maximumDiscarded = 64 << 10
    /// Maximum bytes that are read for each byte of content, after the first ``freeBytes``.
    ///
    /// libcurl skips extensions of chunks, however long they are, and OpenSSL the padding of TLS records, up to 16 KiB for
    /// a byte of content. A chunk of one byte in TLS records of its own is about 100 bytes.
    private static let maximumBytesPerContent: Int64 = 256
    private static let freeBytes: Int64 = 1 << 20

    /// `nil` if libcurl has no memory or rejects an option.
    init?(
        _ transfer: Transfer,
        _ request: PreparedRequest,
        _ deadline: ContinuousClock.Instant?,
        _ settings: TransferLoop.Settings,
        _ sockets: OpenSockets,
        onNewConnection: Bool
    ) {
        isOnNewConnection = onNewConnection || request.request.needsNewConnection
        let sent = request.content.map(SentContent.init)
        guard
            let easy = EasyHandle(
                request,
                sending: sent,
                settings,
                until: deadline,
                onNewConnection: isOnNewConnection
            )
        else { return nil }
        self.easy = easy
        self.sent = sent
        self.transfer = transfer
        self.request = request
        self.deadline = deadline
        self.sockets = sockets
        addresses = settings.addresses
        isLocal = settings.server?.unixPath != nil
        if !setCallbacks() { return nil }
    }

    var handle: UnsafeMutableRawPointer { easy.pointer }

    /// Resumes both directions; a direction that still has to wait pauses again.
    func resume() {
        if sent?.isPaused == true {
            sent?.resumed()
            _ = easy.setMinimumRate(isCounting: true)
        }
        curl_easy_pause(handle, CURLPAUSE_CONT)
    }

    /// Whether the request failed because the server had closed a reused connection.
    ///
    /// libcurl handles this itself, except if it notices while it sends content. Since the request was not sent
    /// completely, it cannot have been executed.
    func needsResend(_ result: CURLcode) -> Bool {
        var connections = 1
        guard result == CURLE_SEND_ERROR, fieldBytes == 0, !isOnNewConnection,
            ccurl_info_long(handle, CURLINFO_NUM_CONNECTS, &connections) == CURLE_OK
        else { return false }
        return connections == 0
    }

    /// The request to a redirect's target; `nil` if the response is final.
    func followingRequest(_ result: CURLcode) throws(HTTPClientError) -> PreparedRequest? {
        guard let location else { return nil }
        return try request.redirected(status, to: location)
    }

    func outcome(_ result: CURLcode) -> Result<Void, HTTPClientError> {
        if result == CURLE_OK {
            if !isHeadComplete, let failedExpectation {
                isHeadComplete = true
                transfer.received(failedExpectation)
            }
            return isHeadComplete ? .success(()) : .failure(.malformed)
        }
        if sent?.hasFailed == true { return .failure(.contentFailed) }
        return .failure(error(result))
    }

    private func error(_ result: CURLcode) -> HTTPClientError {
        var proxied = 0
        _ = ccurl_info_long(handle, CURLINFO_HTTP_CONNECTCODE, &proxied)
        if proxied >= 300, !isHeadComplete { return .proxy(status: proxied) }
        return switch result {
        case CURLE_URL_MALFORMAT, CURLE_BAD_FUNCTION_ARGUMENT:
            .badRequest("the URL cannot be requested")
        case CURLE_COULDNT_CONNECT: refused.map { .refusedAddress($0) } ?? .unreachable
        case CURLE_COULDNT_RESOLVE_HOST: .unreachable
        case CURLE_OPERATION_TIMEDOUT: .timedOut
        case CURLE_SSL_CONNECT_ERROR, CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CACERT_BADFILE, CURLE_SSL_CERTPROBLEM,
            CURLE_SSL_CIPHER, CURLE_SSL_ISSUER_ERROR, CURLE_SSL_INVALIDCERTSTATUS, CURLE_SSL_CRL_BADFILE:
            .tls
        // The scheme was checked before, so this is a response without a status line, as in HTTP/0.9.
        case CURLE_ABORTED_BY_CALLBACK: .padded
        case CURLE_UNSUPPORTED_PROTOCOL, CURLE_WEIRD_SERVER_REPLY, CURLE_BAD_CONTENT_ENCODING, CURLE_HTTP2,
            CURLE_HTTP_RETURNED_ERROR, CURLE_WRITE_ERROR:
            .malformed
        default: .connection
        }
    }

    // MARK: Callbacks

    private func setCallbacks() -> Bool {
        let context = Unmanaged.passUnretained(self).toOpaque()
        let results = [
            ccurl_set_pointer(handle, CURLOPT_HEADERDATA, context),
            ccurl_set_pointer(handle, CURLOPT_WRITEDATA, context),
            ccurl_set_pointer(handle, CURLOPT_OPENSOCKETDATA, context),
            ccurl_set_take_bytes(handle, CURLOPT_HEADERFUNCTION) { bytes, size, count, context in
                RequestAttempt.with(bytes, size * count, context) { attempt, bytes in
                    attempt.takeField(bytes) ? bytes.count : 0
                }
            },
            ccurl_set_take_bytes(handle, CURLOPT_WRITEFUNCTION) { bytes, size, count, context in
                RequestAttempt.with(bytes, size * count, context) { attempt, bytes in attempt.takeContent(bytes) }
            },
            ccurl_set_pointer(handle, CURLOPT_READDATA, context),
            ccurl_set_pointer(handle, CURLOPT_SEEKDATA, context),
            ccurl_set_take_bytes(handle, CURLOPT_READFUNCTION) { buffer, size, count, context in
                guard let buffer, let context else { return ccurl_read_abort }
                let attempt = Unmanaged<RequestAttempt>.fromOpaque(context).takeUnretainedValue()
                return attempt.readContent(UnsafeMutableRawBufferPointer(start: buffer, count: size * count))
            },
            ccurl_set_seek(handle) { context, offset, origin in
                guard let context else { return ccurl_seek_failed }
                let attempt = Unmanaged<RequestAttempt>.fromOpaque(context).takeUnretainedValue()
                return attempt.sent?.seek(to: Int64(offset), from: origin) ?? ccurl_seek_failed
            },
            ccurl_set_open_socket(handle) { context, _, address in
                guard let context, let address else { return ccurl_bad_socket }
                let attempt = Unmanaged<RequestAttempt>.fromOpaque(context).takeUnretainedValue()
                return attempt.openSocket(address)
            },
            // The connection can outlive the attempt that opened it, but not the loop's sockets.
            ccurl_set_pointer(handle, CURLOPT_CLOSESOCKETDATA, Unmanaged.passUnretained(sockets).toOpaque()),
            ccurl_set_close_socket(handle) { context, socket in
                guard let context else { return close(socket) }
                return Unmanaged<OpenSockets>.fromOpaque(context).takeUnretainedValue().close(socket)
            },
            // Only connections of the attempt's own are measured.
            request.request.keepsConnection ? CURLE_OK : setProgress(context),
            ccurl_set_pointer(handle, CURLOPT_PREREQDATA, context),
            ccurl_set_before_request(handle) { context, _, _, remote, local in
                guard let context else { return ccurl_request_goes }
                let attempt = Unmanaged<RequestAttempt>.fromOpaque(context).takeUnretainedValue()
                if attempt.sent != nil || !attempt.request.request.keepsConnection {
                    attempt.socket = attempt.sockets.socket(local: local, remote: remote)
                }
                return ccurl_request_goes
            },
        ]
        return results.allSatisfy { $0 == CURLE_OK }
    }

    private func setProgress(_ context: UnsafeMutableRawPointer) -> CURLcode {
        let results = [
            ccurl_set_pointer(handle, CURLOPT_XFERINFODATA, context),
            ccurl_set_long(handle, CURLOPT_NOPROGRESS, 0),
            ccurl_set_progress(handle) { context, _, _, _, _ in
                guard let context else { return 0 }
                return Unmanaged<RequestAttempt>.fromOpaque(context).takeUnretainedValue().isMostlyContent ? 0 : 1
            },
        ]
        return results.first { $0 != CURLE_OK } ?? CURLE_OK
    }

    private static func with(
        _ bytes: UnsafeMutablePointer<CChar>?,
        _ count: Int,
        _ context: UnsafeMutableRawPointer?,
        _ body: (RequestAttempt, UnsafeBufferPointer<UInt8>) -> Int
    ) -> Int {
        guard let context else { return 0 }
        let attempt = Unmanaged<RequestAttempt>.fromOpaque(context).takeUnretainedValue()
        let raw = UnsafeRawBufferPointer(start: bytes, count: count)
        return body(attempt, raw.assumingMemoryBound(to: UInt8.self))
    }

    private func openSocket(_ address: UnsafePointer<curl_sockaddr>) -> curl_socket_t {
        if isLocal { return open(address) }
        var bytes = [UInt8](repeating: 0, count: 16)
        let count = ccurl_address_bytes(address, &bytes)
        guard let numeric = IPAddress(bytes: Array(bytes.prefix(count))), addresses.allows(numeric) else {
            refused = IPAddress(bytes: Array(bytes.prefix(count)))?.description ?? "not an IP address"
            return ccurl_bad_socket
        }
        return open(address)
    }

    private func open(_ address: UnsafePointer<curl_sockaddr>) -> curl_socket_t {
        let socket = sockets.open(address)
        openedSockets.insert(socket)
        return socket
    }

    private func readContent(_ buffer: UnsafeMutableRawBufferPointer) -> Int {
        guard let count = sent?.read(into: buffer, for: transfer) else { return 0 }
        if count == ccurl_read_pause {
            _ = easy.setMinimumRate(isCounting: false)
        } else if count <= buffer.count, shouldReadFirst() {
            sent?.pause(takingBack: count)
            return ccurl_read_pause
        }
        return count
    }

    /// Whether libcurl should read before it continues to send.
    ///
    /// A response can be followed by a reset, which is common after a refusal: sending would then fail and the response
    /// would be lost. Returns `false` after `true`, because there may be nothing to read but the end.
    private func shouldReadFirst() -> Bool {
        guard !isHeadComplete, !hasPostponedRead, let socket, OpenSockets.hasInput(socket) else {
            hasPostponedRead = false
            return false
        }
        hasPostponedRead = true
        hasResponse()
        return true
    }

    /// Processes one line of a head: the status line, a field, or the empty line at the end.
    private func takeField(_ line: UnsafeBufferPointer<UInt8>) -> Bool {
        fieldBytes += line.count
        guard fieldBytes <= Self.maximumFieldBytes else { return false }
        // Lines after the content are trailer fields.
        if isHeadComplete { return true }
        var text = line[...]
        while let last = text.last, last == 10 || last == 13 { text = text.dropLast() }
        if isBeforeHead { return takeStatusLine(text) }
        if text.isEmpty {
            isBeforeHead = true
            guard hasClearFraming else { return false }
            if status >= 200 { completeHead() }
            return true
        }
        let colon = text.firstIndex(of: UInt8(ascii: ":"))
        let label = String(decoding: text[..<(colon ?? text.endIndex)], as: UTF8.self)
        guard let colon, let name = FieldName(label) else {
            // Not a field: for example a folded line, which libcurl passes on unchanged. It must not mean another
            // length than the one that libcurl took.
            return !isFraming && FieldName(label.trimmingWhitespace()).map(Self.isFraming) != true
        }
        isFraming = Self.isFraming(name)
        let value = String(decoding: text[(colon + 1)...], as: UTF8.self)
        guard ClientText.isAllowed(value) else { return false }
        fields.append(name, value.trimmingWhitespace())
        return true
    }

    /// - Returns: Whether it is a status line as RFC 9112 §4 defines; libcurl takes others, too, and some for other statuses.
    private func takeStatusLine(_ line: Slice<UnsafeBufferPointer<UInt8>>) -> Bool {
        let isDigit = { (byte: UInt8) in (0x30...0x39).contains(byte) }
        let parts = line.split(separator: 0x20, maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count > 1, parts[0].count == 8, parts[0].starts(with: "HTTP/1.".utf8),
            parts[0].last.map(isDigit) == true, parts[1].count == 3, parts[1].allSatisfy(isDigit)
        else { return false }
        status = parts[1].reduce(0) { $0 * 10 + Int($1 - 0x30) }
        fields = HTTPFields()
        isFraming = false
        isBeforeHead = false
        return status >= 100
    }

    private static func isFraming(_ name: FieldName) -> Bool { name == "Content-Length" || name == "Transfer-Encoding" }

    /// Whether the head says without doubt where its content ends (RFC 9112 §6.3), and has no coding but chunks.
    ///
    /// libcurl decodes codings that were not requested, also nested ones, which take minutes for some KB, and takes the
    /// last of several lengths. It does so with content only, so nothing is decoded before the refusal. Interim heads
    /// may have neither field.
    private var hasClearFraming: Bool {
        let codings = fields.list("Transfer-Encoding")
        let hasLength = fields.contains("Content-Length")
        let hasCodings = fields.contains("Transfer-Encoding")
        if status < 200 { return !hasCodings && !hasLength }
        if hasCodings { return !hasLength && codings.map { $0.lowercasedASCII() } == ["chunked"] }
        let lengths = fields.list("Content-Length").map(HTTPClientHead.length)
        return !hasLength || (lengths.first ?? nil) != nil && lengths.allSatisfy { $0 == lengths[0] }
    }

    private func completeHead() {
        if status == 417, request.request.expectsContinue != nil, failedExpectation == nil, sent?.isIncomplete == true {
            failedExpectation = HTTPClientHead(status: status, headers: fields)
            return
        }
        isHeadComplete = true
        if sent?.isPaused == true { hasResponse() }
        if request.request.maximumRedirects > 0, [301, 302, 303, 307, 308].contains(status),
            let target = fields.all("Location").first, !target.isEmpty
        {
            location = target
        } else {
            transfer.received(HTTPClientHead(status: status, headers: fields))
        }
    }

    /// - Returns: The number of bytes taken, or libcurl's value for "pause".
    private func takeContent(_ bytes: UnsafeBufferPointer<UInt8>) -> Int {
        if location != nil || !isHeadComplete {
            discarded += bytes.count
            contentBytes += Int64(bytes.count)
            return discarded <= Self.maximumDiscarded ? bytes.count : 0
        }
        switch transfer.received(bytes) {
        case .taken:
            contentBytes += Int64(bytes.count)
            return bytes.count
        case .full: return ccurl_pause
        case .unwanted: return 0
        }
    }

    /// Whether what was read is in proportion to the content; also if that is not known, as of a connection that had other requests.
    private var isMostlyContent: Bool {
        guard let socket, openedSockets.contains(socket) else { return true }
        return (ccurl_bytes_read(socket) - Self.freeBytes) / Self.maximumBytesPerContent <= contentBytes
    }
}
