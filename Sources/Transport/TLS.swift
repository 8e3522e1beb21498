internal import COpenSSL
internal import Glibc
package import SystemIO
internal import Synchronization

package enum OpenSSL {
    /// Prevents the library's clean-up at exit; must be called before any other use of the library.
    ///
    /// By default, `exit` destroys its global state while other threads can still free objects that refer to it.
    package static func keepUntilTheEnd() {
        OPENSSL_init_crypto(UInt64(OPENSSL_INIT_NO_ATEXIT), nil)
    }
}

/// A certificate that could not be used.
package struct TLSFailure: Error, Sendable, CustomStringConvertible {
    package let description: String

    init(_ what: String) {
        var reasons: [String] = []
        while true {
            let code = ERR_get_error()
            if code == 0 { break }
            var text = [CChar](repeating: 0, count: 256)
            ERR_error_string_n(code, &text, text.count)
            reasons.append(String(decoding: text.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self))
        }
        description = reasons.isEmpty ? what : "\(what): \(reasons.joined(separator: "; "))"
    }
}

/// TLS on one connected socket.
///
/// OpenSSL reads and writes the socket itself, so these calls are not behind `SystemCalls`.
///
/// Invariant for `@unchecked`: used only on the loop of its channel, or by the thread that borrowed the channel.
package final class TLSSession: @unchecked Sendable {
    private let session: OpaquePointer
    /// What the session's callbacks refer to.
    private let configuration: TLSContext.Configuration
    private var isBroken = false
    private var isShutDown = false
    /// Why the protocol failed, in a few words from the library; `nil` if it has not failed.
    package private(set) var failureReason: String?
    /// The condition that ended the last read after it had returned some bytes.
    private var pending: IOResult?

    package init(_ context: TLSContext, descriptor: Int32) throws(TLSFailure) {
        configuration = context.configuration
        guard let session = configuration.makeSession() else { throw TLSFailure("no TLS session") }
        self.session = session
        guard SSL_set_fd(session, descriptor) == 1 else { throw TLSFailure("no TLS session") }
        SSL_set_accept_state(session)
    }

    deinit {
        SSL_free(session)
    }

    /// Whether the next read returns at once, regardless of the socket.
    var hasPending: Bool { pending != nil || SSL_has_pending(session) == 1 }

    /// Upper bound of the bytes that were received and not read: decrypted, not decrypted, or incomplete records.
    package var bufferedCount: Int {
        SSL_has_pending(session) == 1 ? Int(SSL_pending(session)) + Self.readBufferSize : 0
    }

    /// Bytes per receive call; the buffer is on the heap only while it holds bytes.
    static let readBufferSize = 65_536

    /// Continues the handshake; `.moved` when it is done.
    package func handshake() -> IOResult {
        ERR_clear_error()
        let result = SSL_do_handshake(session)
        return result == 1 ? .moved(1) : outcome(result)
    }

    /// Whether the handshake was all that the peer wanted, to validate a name (RFC 8737 §3).
    package var isValidation: Bool {
        var name: UnsafePointer<UInt8>?
        var count: UInt32 = 0
        SSL_get0_alpn_selected(session, &name, &count)
        // Of the session.
        return UnsafeBufferPointer(start: name, count: Int(count)).elementsEqual(TLSChallenges.protocol.utf8)
    }

    /// Reads records until the buffer is full or no more are available.
    ///
    /// A record has at most 16 KiB.
    package func read(into buffer: UnsafeMutableRawBufferPointer) -> IOResult {
        if let pending {
            self.pending = nil
            return pending
        }
        var count = 0
        while count < buffer.count {
            ERR_clear_error()
            let result = SSL_read(session, buffer.baseAddress.map { $0 + count }, Int32(clamping: buffer.count - count))
            guard result > 0 else {
                let end = outcome(result)
                guard count > 0 else { return end }
                // The bytes are returned first. "Would block" need not be kept: the next read finds it again.
                if end != .wouldBlockReading { pending = end }
                return .moved(count)
            }
            count += Int(result)
        }
        return .moved(count)
    }

    func write(_ buffer: UnsafeRawBufferPointer) -> IOResult {
        guard !buffer.isEmpty else { return .moved(0) }
        ERR_clear_error()
        let result = SSL_write(session, buffer.baseAddress, Int32(clamping: buffer.count))
        return result > 0 ? .moved(Int(result)) : outcome(result)
    }

    /// Sends close_notify once, without waiting for the peer's.
    func shutDown() {
        guard !isShutDown, !isBroken, SSL_is_init_finished(session) == 1 else { return }
        isShutDown = true
        ERR_clear_error()
        _ = SSL_shutdown(session)
    }

    private func outcome(_ result: Int32) -> IOResult {
        switch SSL_get_error(session, result) {
        case SSL_ERROR_WANT_READ: return .wouldBlockReading
        case SSL_ERROR_WANT_WRITE: return .wouldBlockWriting
        case SSL_ERROR_ZERO_RETURN: return .ended
        case SSL_ERROR_SYSCALL:
            isBroken = true
            return .failed(errno: errno == 0 ? ECONNRESET : errno)
        default:
            // A protocol error: invalid data, a truncated stream, an alert. The session is unusable from now on.
            isBroken = true
            let code = ERR_peek_error()
            // Reported as a failed connection, whatever the peer was about to send.
            if ERR_GET_REASON(code) == SSL_R_UNEXPECTED_EOF_WHILE_READING { return .failed(errno: EPROTO) }
            failureReason = ERR_reason_error_string(code).map { String(cString: $0) } ?? "unknown"
            return .failed(errno: EPROTO)
        }
    }
}
