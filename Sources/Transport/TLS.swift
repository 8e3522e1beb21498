internal import COpenSSL
internal import Glibc
internal import Synchronization

package enum OpenSSL {
    /// Leaves the library as it is when the process exits; before any other use of it.
    ///
    /// By default its global state is torn down by `exit`, while other threads may still free what refers to it.
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

/// A server's side of TLS 1.2 and 1.3: certificate, key and rules for its sessions.
///
/// ALPN `http/1.1`.
///
/// Invariant for `@unchecked`: `context` is set up in `init` and only read afterwards, which OpenSSL allows from any
/// thread.
package final class TLSContext: @unchecked Sendable {
    fileprivate let context: OpaquePointer

    /// - Parameters:
    ///   - certificatePath: PEM file: the certificate, then its chain.
    ///   - keyPath: PEM file of the private key, without passphrase.
    /// - Throws: `TLSFailure`, which says what is wrong with the files.
    package init(certificatePath: String, keyPath: String) throws(TLSFailure) {
        guard let context = SSL_CTX_new(TLS_server_method()) else { throw TLSFailure("TLS is not available") }
        self.context = context
        guard cossl_set_min_version(context, cossl_tls1_2) == 1,
            SSL_CTX_set_cipher_list(context, Self.ciphers.joined(separator: ":")) == 1
        else { throw TLSFailure("TLS 1.2 is not available") }
        _ = cossl_set_options(
            context,
            cossl_op_no_renegotiation | cossl_op_no_compression | cossl_op_cipher_server_preference
        )
        // One call of the system for several records: without it there are two for each.
        cossl_read_ahead(context)
        SSL_CTX_set_default_read_buffer_len(context, TLSSession.readBufferSize)
        _ = cossl_set_mode(context, cossl_mode_partial_write | cossl_mode_moving_buffer | cossl_mode_release_buffers)
        guard SSL_CTX_use_certificate_chain_file(context, certificatePath) == 1 else {
            throw TLSFailure("the certificate file \(certificatePath) can not be used")
        }
        guard SSL_CTX_use_PrivateKey_file(context, keyPath, SSL_FILETYPE_PEM) == 1 else {
            throw TLSFailure("the key file \(keyPath) can not be used")
        }
        guard SSL_CTX_check_private_key(context) == 1 else {
            throw TLSFailure("the key in \(keyPath) does not belong to the certificate in \(certificatePath)")
        }
        SSL_CTX_set_alpn_select_cb(context, selectProtocol, nil)
    }

    deinit {
        SSL_CTX_free(context)
    }

    /// Of TLS 1.2: forward secrecy and authenticated encryption only (RFC 9325 §4.2); TLS 1.3 has nothing else.
    private static let ciphers = [
        "ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256",
        "ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-RSA-AES256-GCM-SHA384",
        "ECDHE-ECDSA-CHACHA20-POLY1305", "ECDHE-RSA-CHACHA20-POLY1305",
    ]
}

/// RFC 7301: takes `http/1.1` if it is offered, and goes on without a protocol if not.
private func selectProtocol(
    _ session: OpaquePointer?,
    _ out: UnsafeMutablePointer<UnsafePointer<UInt8>?>?,
    _ outLength: UnsafeMutablePointer<UInt8>?,
    _ offered: UnsafePointer<UInt8>?,
    _ offeredLength: UInt32,
    _ argument: UnsafeMutableRawPointer?
) -> Int32 {
    guard let out, let outLength, let offered else { return SSL_TLSEXT_ERR_NOACK }
    let wanted = "http/1.1".utf8
    var position = 0
    while position < Int(offeredLength) {
        let length = Int(offered[position])
        guard position + 1 + length <= Int(offeredLength) else { break }
        let name = UnsafeBufferPointer(start: offered + position + 1, count: length)
        if name.elementsEqual(wanted) {
            // The answer may point into the offer, which outlives this call.
            out.pointee = offered + position + 1
            outLength.pointee = UInt8(length)
            return SSL_TLSEXT_ERR_OK
        }
        position += 1 + length
    }
    return SSL_TLSEXT_ERR_NOACK
}

/// TLS on one connected socket.
///
/// Invariant for `@unchecked`: used only on the loop of the channel that owns it, or by whom that lent it to.
package final class TLSSession: @unchecked Sendable {
    private let session: OpaquePointer
    private var isBroken = false
    private var isShutDown = false
    /// Why the protocol failed, in a few words of the library; `nil` if it has not.
    package private(set) var failureReason: String?
    /// What ended the last read after it had got some bytes.
    private var pending: IOResult?

    package init(_ context: TLSContext, descriptor: Int32) throws(TLSFailure) {
        guard let session = SSL_new(context.context) else { throw TLSFailure("no TLS session") }
        self.session = session
        guard SSL_set_fd(session, descriptor) == 1 else { throw TLSFailure("no TLS session") }
        SSL_set_accept_state(session)
    }

    deinit {
        SSL_free(session)
    }

    /// Whether the next read returns at once, whatever the socket says.
    var hasPending: Bool { pending != nil || SSL_has_pending(session) == 1 }

    /// The most bytes that were received and not read: records that were decrypted, or not yet, or have not come in full.
    package var bufferedCount: Int {
        SSL_has_pending(session) == 1 ? Int(SSL_pending(session)) + Self.readBufferSize : 0
    }

    /// Bytes that are received at once; taken from the heap while there are any.
    fileprivate static let readBufferSize = 65_536

    /// Goes on with the handshake; `.moved` when it is done.
    package func handshake() -> IOResult {
        ERR_clear_error()
        let result = SSL_do_handshake(session)
        return result == 1 ? .moved(1) : outcome(result)
    }

    /// Reads records until the buffer is full or nothing more is there: one record is at most 16 KiB.
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
                // What was read comes first; that nothing more is there now will be seen again.
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

    /// Sends close_notify, once, without waiting for the peer's.
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
            // A protocol error: garbage, a truncated stream, an alert. The session can not go on.
            isBroken = true
            let code = ERR_peek_error()
            // An end is one of the connection, whatever was to come.
            if ERR_GET_REASON(code) == SSL_R_UNEXPECTED_EOF_WHILE_READING { return .failed(errno: EPROTO) }
            failureReason = ERR_reason_error_string(code).map { String(cString: $0) } ?? "unknown"
            return .failed(errno: EPROTO)
        }
    }
}
