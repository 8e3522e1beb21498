internal import Glibc
package import SystemIO

/// One exchange with a server on this machine, without TLS, on the calling thread.
///
/// For a command that asks once and ends: what a client with connections and TLS loads costs more than the exchange.
package enum PlainExchange {
    /// - Parameters:
    ///   - request: A whole request, which asks the server to close the connection.
    ///   - address: Of the server.
    ///   - limit: Most bytes of the response.
    ///   - timeout: For all of it.
    /// - Returns: What the server sent until it closed the connection, at most `limit` bytes.
    /// - Throws: The failure of `connect`, `send` or `recv`; `ETIMEDOUT`.
    package static func response(
        to request: [UInt8],
        from address: SocketAddress,
        limit: Int,
        within timeout: Duration
    ) throws(SystemError) -> [UInt8] {
        let deadline = MonotonicClock.deadline(after: timeout)
        let family = address.unixPath != nil ? AF_UNIX : address.host.contains(":") ? AF_INET6 : AF_INET
        let type = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
        let descriptor = Int32(try SystemError.check("socket") { SystemResult(socket(family, type, 0)) })
        defer { close(descriptor) }
        try limitWaiting(descriptor, until: deadline)
        _ = try address.withSockaddr { pointer, size throws(SystemError) in
            try checked("connect") { SystemResult(connect(descriptor, pointer, size)) }
        }
        var sent = 0
        while sent < request.count {
            try limitWaiting(descriptor, until: deadline)
            // Little at a time, because the limit is for each wait within a call.
            sent += try checked("send") {
                request.withUnsafeBytes { bytes in
                    let rest = UnsafeRawBufferPointer(rebasing: bytes[sent...].prefix(16_384))
                    return SystemResult(send(descriptor, rest.baseAddress, rest.count, Int32(MSG_NOSIGNAL)))
                }
            }
        }
        var response = [UInt8](repeating: 0, count: limit)
        var received = 0
        while received < limit {
            try limitWaiting(descriptor, until: deadline)
            let count = try checked("recv") {
                response.withUnsafeMutableBytes { bytes in
                    let rest = UnsafeMutableRawBufferPointer(rebasing: bytes[received...])
                    return SystemResult(recv(descriptor, rest.baseAddress, rest.count, 0))
                }
            }
            if count == 0 { break }
            received += count
        }
        return Array(response.prefix(received))
    }

    /// Has the next call fail at the deadline.
    private static func limitWaiting(_ descriptor: Int32, until deadline: Nanoseconds) throws(SystemError) {
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
    private static func checked(_ call: String, _ body: () -> SystemResult) throws(SystemError) -> Int {
        do throws(SystemError) {
            return try SystemError.check(call, body)
        } catch {
            let hasTimedOut = [EAGAIN, EWOULDBLOCK, EINPROGRESS].contains(error.errno)
            throw hasTimedOut ? SystemError(call, errno: ETIMEDOUT) : error
        }
    }
}
