internal import COpenSSL
internal import Glibc
internal import SystemIO

/// One exchange with a server on this machine, on the calling thread.
///
/// For a command that asks once and ends: what a client with connections loads costs more than the exchange.
package enum LocalExchange {
    /// TLS of a server whose certificate is not verified, because it is for the name by which others reach it.
    package struct Security: Sendable {
        /// Certificate and key to show if the server asks for them.
        package var own: TLSFiles?

        package init(own: TLSFiles?) { self.own = own }
    }

    /// - Parameters:
    ///   - request: A whole request, which asks the server to close the connection.
    ///   - address: Of the server.
    ///   - preamble: Sent before TLS begins.
    ///   - security: `nil` for a server without TLS.
    ///   - limit: Most bytes of the response.
    ///   - timeout: For all of it.
    /// - Returns: What the server sent until it closed the connection, at most `limit` bytes.
    /// - Throws: The failure of `connect`, `send` or `recv`; `ETIMEDOUT`; `TLSFailure`.
    package static func response(
        to request: [UInt8],
        from address: SocketAddress,
        preamble: [UInt8] = [],
        security: Security? = nil,
        limit: Int,
        within timeout: Duration
    ) throws -> [UInt8] {
        let deadline = MonotonicClock.deadline(after: timeout)
        let family = address.unixPath != nil ? AF_UNIX : address.host.contains(":") ? AF_INET6 : AF_INET
        let type = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
        let descriptor = Int32(try SystemError.check("socket") { SystemResult(socket(family, type, 0)) })
        defer { close(descriptor) }
        let plain = PlainSocket(descriptor: descriptor, deadline: deadline)
        try plain.limitWaiting()
        _ = try address.withSockaddr { pointer, size throws(SystemError) in
            try PlainSocket.checked("connect") { SystemResult(connect(descriptor, pointer, size)) }
        }
        if !preamble.isEmpty { try send(preamble, by: plain) }
        let peer: any Peer = if let security { try SecureSocket(plain, security) } else { plain }
        try send(request, by: peer)
        var response = [UInt8](repeating: 0, count: limit)
        var received = 0
        while received < limit {
            let count = try response.withUnsafeMutableBytes { bytes in
                try peer.receive(UnsafeMutableRawBufferPointer(rebasing: bytes[received...]))
            }
            if count == 0 { break }
            received += count
        }
        return Array(response.prefix(received))
    }

    private static func send(_ bytes: [UInt8], by peer: any Peer) throws {
        var sent = 0
        while sent < bytes.count {
            // Little at a time, because the limit is for each wait within a call.
            sent += try bytes.withUnsafeBytes { bytes in
                try peer.send(UnsafeRawBufferPointer(rebasing: bytes[sent...].prefix(16_384)))
            }
        }
    }

    private protocol Peer {
        /// - Returns: How many bytes were sent, at least one.
        func send(_ bytes: UnsafeRawBufferPointer) throws -> Int
        /// - Returns: How many bytes were received; 0 at the end of the connection.
        func receive(_ buffer: UnsafeMutableRawBufferPointer) throws -> Int
    }

    private struct PlainSocket: Peer {
        let descriptor: Int32
        let deadline: Nanoseconds

        func send(_ bytes: UnsafeRawBufferPointer) throws -> Int {
            try limitWaiting()
            return try Self.checked("send") {
                SystemResult(Glibc.send(descriptor, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL)))
            }
        }

        func receive(_ buffer: UnsafeMutableRawBufferPointer) throws -> Int {
            try limitWaiting()
            return try Self.checked("recv") { SystemResult(recv(descriptor, buffer.baseAddress, buffer.count, 0)) }
        }

        /// Has the next call fail at the deadline.
        func limitWaiting() throws(SystemError) {
            let now = MonotonicClock.now
            guard now < deadline else { throw SystemError("poll", errno: ETIMEDOUT) }
            // Zero means no limit.
            let microseconds = max(1, (deadline - now) / 1000)
            var limit = timeval(
                tv_sec: Int(clamping: microseconds / 1_000_000),
                tv_usec: Int(microseconds % 1_000_000)
            )
            for option in [SO_SNDTIMEO, SO_RCVTIMEO] {
                setsockopt(descriptor, SOL_SOCKET, option, &limit, socklen_t(MemoryLayout<timeval>.size))
            }
        }

        /// The same as `SystemError.check`, with the error of a limit that has passed.
        static func checked(_ call: String, _ body: () -> SystemResult) throws(SystemError) -> Int {
            do throws(SystemError) {
                return try SystemError.check(call, body)
            } catch {
                let hasTimedOut = [EAGAIN, EWOULDBLOCK, EINPROGRESS].contains(error.errno)
                throw hasTimedOut ? SystemError(call, errno: ETIMEDOUT) : error
            }
        }
    }

    /// TLS on a blocking socket, whose limits are those of the plain one.
    ///
    /// The caller ignores SIGPIPE.
    private final class SecureSocket: Peer {
        private let plain: PlainSocket
        private let context: OpaquePointer
        private let session: OpaquePointer

        init(_ plain: PlainSocket, _ security: Security) throws {
            guard let context = SSL_CTX_new(TLS_client_method()) else { throw TLSFailure("TLS is not available") }
            // A server that was killed says no good-bye; what it sent before counts.
            _ = cossl_set_options(context, cossl_op_ignore_unexpected_eof)
            guard let session = SSL_new(context) else {
                SSL_CTX_free(context)
                throw TLSFailure("no TLS session")
            }
            (self.plain, self.context, self.session) = (plain, context, session)
            guard SSL_set_fd(session, plain.descriptor) == 1 else { throw TLSFailure("no TLS session") }
            if let own = security.own { try Self.load(own, into: session) }
            guard try moved("handshake", { SSL_connect(session) }) > 0 else {
                throw TLSFailure("TLS failed: the server ended the handshake")
            }
        }

        deinit {
            SSL_free(session)
            SSL_CTX_free(context)
        }

        func send(_ bytes: UnsafeRawBufferPointer) throws -> Int {
            try moved("send") { SSL_write(session, bytes.baseAddress, Int32(clamping: bytes.count)) }
        }

        func receive(_ buffer: UnsafeMutableRawBufferPointer) throws -> Int {
            try moved("recv") { SSL_read(session, buffer.baseAddress, Int32(clamping: buffer.count)) }
        }

        private static func load(_ files: TLSFiles, into session: OpaquePointer) throws(TLSFailure) {
            guard SSL_use_certificate_chain_file(session, files.certificate) == 1,
                SSL_use_PrivateKey_file(session, files.key, SSL_FILETYPE_PEM) == 1
            else { throw TLSFailure("the certificate \(files.certificate) cannot be used") }
        }

        /// - Returns: What the call moved; 0 if the peer has ended the connection.
        private func moved(_ call: String, _ body: () -> Int32) throws -> Int {
            while true {
                try plain.limitWaiting()
                ERR_clear_error()
                let result = body()
                if result > 0 { return Int(result) }
                let code = errno
                switch SSL_get_error(session, result) {
                case SSL_ERROR_ZERO_RETURN: return 0
                // Only at the limit, because the socket blocks.
                case SSL_ERROR_WANT_READ, SSL_ERROR_WANT_WRITE: continue
                case SSL_ERROR_SYSCALL where code == EINTR: continue
                case SSL_ERROR_SYSCALL: throw SystemError(call, errno: code == 0 ? ECONNRESET : code)
                default: throw TLSFailure("TLS failed")
                }
            }
        }
    }
}
