internal import COpenSSL
internal import Synchronization

/// A certificate and its key, both in DER.
package struct TLSIdentity: Sendable {
    package let certificate: [UInt8]
    /// ECPrivateKey or PrivateKeyInfo.
    package let key: [UInt8]

    package init(certificate: [UInt8], key: [UInt8]) {
        self.certificate = certificate
        self.key = key
    }
}

/// Certificates for handshakes by which an authority validates names: TLS-ALPN-01 (RFC 8737).
///
/// A client that offers the protocol `acme-tls/1` alone gets the certificate of the name that it asks for; its connection
/// ends with the handshake. For a name without such a certificate the handshake fails.
package final class TLSChallenges: Sendable {
    static let `protocol` = "acme-tls/1"

    private let contexts = Mutex<[String: TLSChallengeContext]>([:])

    package init() {}

    /// - Parameters:
    ///   - identity: Replaces one that is there.
    ///   - name: Of a host, in lower case.
    /// - Throws: `TLSFailure` if it cannot be used.
    package func set(_ identity: TLSIdentity, for name: String) throws(TLSFailure) {
        let context = try TLSChallengeContext(identity)
        contexts.withLock { $0[name] = context }
    }

    package func remove(_ name: String) { contexts.withLock { $0[name] = nil } }

    func context(for name: String) -> TLSChallengeContext? { contexts.withLock { $0[name] } }
}

/// Invariant for `@unchecked`: configured in `init` and only read afterwards, which OpenSSL allows from any thread.
final class TLSChallengeContext: @unchecked Sendable {
    let context: OpaquePointer

    init(_ identity: TLSIdentity) throws(TLSFailure) {
        guard let context = SSL_CTX_new(TLS_server_method()) else { throw TLSFailure("TLS is not available") }
        self.context = context
        guard cossl_set_min_version(context, cossl_tls1_2) == 1 else { throw TLSFailure("TLS 1.2 is not available") }
        try Self.load(identity, into: context)
        SSL_CTX_set_alpn_select_cb(context, selectChallengeProtocol, nil)
        // Otherwise the callback of the first context would choose another one.
        cossl_set_servername_callback(context) { _, _, _ in SSL_TLSEXT_ERR_OK }
    }

    deinit { SSL_CTX_free(context) }

    static func load(_ identity: TLSIdentity, into context: OpaquePointer) throws(TLSFailure) {
        let (certificate, key) = (identity.certificate, identity.key)
        guard SSL_CTX_use_certificate_ASN1(context, Int32(clamping: certificate.count), certificate) == 1,
            SSL_CTX_use_PrivateKey_ASN1(EVP_PKEY_EC, context, key, key.count) == 1
        else { throw TLSFailure("the certificate cannot be used") }
    }
}

/// SSL_CTX_set_client_hello_cb(3): before anything else of a handshake is decided.
func answerChallenge(
    _ session: OpaquePointer?,
    _ alert: UnsafeMutablePointer<Int32>?,
    _ argument: UnsafeMutableRawPointer?
) -> Int32 {
    guard let session, let challenges = TLSContext.Configuration.of(session)?.challenges,
        let offered = extensionContent(UInt32(TLSEXT_TYPE_application_layer_protocol_negotiation), of: session),
        // RFC 7301 §3.1: a list of names, each after its length; RFC 8737 §3: with this name alone.
        offered == [0, UInt8(TLSChallenges.protocol.utf8.count + 1), UInt8(TLSChallenges.protocol.utf8.count)]
            + TLSChallenges.protocol.utf8
    else { return SSL_CLIENT_HELLO_SUCCESS }
    let name = extensionContent(UInt32(TLSEXT_TYPE_server_name), of: session).flatMap(serverName)
    guard let name, let challenge = challenges.context(for: name) else {
        alert?.pointee = SSL_AD_UNRECOGNIZED_NAME
        return SSL_CLIENT_HELLO_ERROR
    }
    // The authority has no certificate of a client, and sends no request. No session is resumed or can be.
    SSL_set_verify(session, SSL_VERIFY_NONE, nil)
    SSL_set_options(session, cossl_op_no_ticket)
    SSL_set_num_tickets(session, 0)
    SSL_set_SSL_CTX(session, challenge.context)
    return SSL_CLIENT_HELLO_SUCCESS
}

private func extensionContent(_ type: UInt32, of session: OpaquePointer) -> [UInt8]? {
    var content: UnsafePointer<UInt8>?
    var count = 0
    guard SSL_client_hello_get0_ext(session, type, &content, &count) == 1, let content else { return nil }
    // Of the message, which outlives the callback.
    return Array(UnsafeBufferPointer(start: content, count: count))
}

/// The name in `server_name` (RFC 6066 §3) in lower case: lengths of the list and of the name, type 0 between them.
private func serverName(_ content: [UInt8]) -> String? {
    guard content.count > 5, content[2] == 0 else { return nil }
    let count = Int(content[3]) << 8 | Int(content[4])
    guard count > 0, count <= content.count - 5 else { return nil }
    return String(validating: content[5..<(5 + count)], as: UTF8.self)?.lowercased()
}

private func selectChallengeProtocol(
    _ session: OpaquePointer?,
    _ out: UnsafeMutablePointer<UnsafePointer<UInt8>?>?,
    _ outLength: UnsafeMutablePointer<UInt8>?,
    _ offered: UnsafePointer<UInt8>?,
    _ offeredLength: UInt32,
    _ argument: UnsafeMutableRawPointer?
) -> Int32 {
    // Nothing else is offered, see `answerChallenge`; the result may point into the client's list.
    guard let out, let outLength, let offered, offeredLength > 1 else { return SSL_TLSEXT_ERR_ALERT_FATAL }
    out.pointee = offered + 1
    outLength.pointee = offered[0]
    return SSL_TLSEXT_ERR_OK
}
