internal import COpenSSL
internal import Glibc
internal import Synchronization

/// A certificate and its key, as PEM files.
package struct TLSFiles: Sendable, Equatable {
    /// The certificate, then its chain.
    package var certificate: String
    /// The private key, without passphrase.
    package var key: String

    package init(certificate: String, key: String) {
        self.certificate = certificate
        self.key = key
    }
}

/// The server side of TLS 1.2 and 1.3: certificates, clients' authorities and session settings.
///
/// Offers ALPN `http/1.1`.
package final class TLSContext: Sendable {
    /// Files, and where they come from besides.
    struct Sources: Sendable {
        let files: [TLSFiles]
        let kept: TLSFiles?
        let standIn: TLSIdentity?
        let clientAuthorities: String?
        let tickets: TLSTicketKeys?
        let challenges: TLSChallenges?
    }

    private let sources: Sources
    private let current: Mutex<Configuration>

    /// - Parameters:
    ///   - files: A client gets the first certificate that has the name it asks for (RFC 6066 §3), otherwise the first.
    ///   - kept: Further files, which need not be there or usable yet; a renewal makes them.
    ///   - standIn: In use while there is no other certificate.
    ///   - clientAuthorities: PEM file of the authorities that sign the certificates of clients, which all clients then
    ///     need; `nil` asks for none.
    ///   - tickets: `nil` makes tickets that only this object, and only until `reload`, can read.
    ///   - challenges: Handshakes of authorities that validate names; `nil` answers none.
    /// - Throws: `TLSFailure`, which describes the problem with the files; also if there is no certificate.
    package init(
        _ files: [TLSFiles],
        kept: TLSFiles? = nil,
        standIn: TLSIdentity? = nil,
        clientAuthorities: String? = nil,
        tickets: TLSTicketKeys? = nil,
        challenges: TLSChallenges? = nil
    ) throws(TLSFailure) {
        sources = Sources(
            files: files,
            kept: kept,
            standIn: standIn,
            clientAuthorities: clientAuthorities,
            tickets: tickets,
            challenges: challenges
        )
        current = Mutex(try Configuration(sources))
    }

    /// Reads the files again, for new connections; those that are open keep what they have.
    ///
    /// - Throws: `TLSFailure` if they cannot be used; what was read before stays.
    package func reload() throws(TLSFailure) {
        let configuration = try Configuration(sources)
        current.withLock { $0 = configuration }
    }

    /// The files, which a renewal replaces.
    package var paths: [String] {
        (sources.files + [sources.kept].compactMap { $0 }).flatMap { [$0.certificate, $0.key] }
            + [sources.clientAuthorities].compactMap { $0 }
    }

    /// Seconds before the end of a certificate from which on its renewal is late; Let's Encrypt's are renewed a month before.
    package static let lateRenewal: Int64 = 14 * 86400

    /// Whether a certificate is renewed by this process.
    package var isRenewedHere: Bool { sources.kept != nil }

    /// For handshakes of authorities; `nil` if none are answered.
    package var challenges: TLSChallenges? { sources.challenges }

    /// When the first of the certificates expires, in Unix seconds; `nil` for one that stands in.
    package var expiresAt: Int64? { current.withLock { $0 }.expiresAt }

    var configuration: Configuration { current.withLock { $0 } }

    /// Certificates in use.
    ///
    /// Invariant for `@unchecked`: the contexts are configured in `init` and only read afterwards, which OpenSSL allows from
    /// any thread. A session keeps this object while it lives, so its callbacks can find it.
    final class Configuration: @unchecked Sendable {
        /// One for each certificate.
        private var contexts: [OpaquePointer] = []
        let tickets: TLSTicketKeys?
        let challenges: TLSChallenges?
        /// Whether the only certificate is one that nobody trusts.
        private let hasStandIn: Bool

        init(_ sources: Sources) throws(TLSFailure) {
            (tickets, challenges) = (sources.tickets, sources.challenges)
            var kept: [TLSFiles] = []
            // What cannot be used is renewed.
            if let files = sources.kept, (try? TLSCertificate(files)) != nil { kept = [files] }
            ERR_clear_error()
            let files = sources.files + kept
            hasStandIn = files.isEmpty && sources.standIn != nil
            for file in files {
                try add(sources, servesNames: files.count > 1) { context throws(TLSFailure) in
                    try Self.load(file, into: context)
                }
            }
            if hasStandIn, let identity = sources.standIn {
                try add(sources, servesNames: false) { context throws(TLSFailure) in
                    try TLSChallengeContext.load(identity, into: context)
                }
            }
            guard let first = contexts.first else { throw TLSFailure("there is no certificate") }
            if challenges != nil { SSL_CTX_set_client_hello_cb(first, answerChallenge, nil) }
        }

        private func add(
            _ sources: Sources,
            servesNames: Bool,
            _ load: (OpaquePointer) throws(TLSFailure) -> Void
        ) throws(TLSFailure) {
            guard let context = SSL_CTX_new(TLS_server_method()) else { throw TLSFailure("TLS is not available") }
            contexts.append(context)
            try Self.setUp(context)
            try load(context)
            if let authorities = sources.clientAuthorities { try Self.demandCertificates(of: authorities, context) }
            if tickets != nil, sources.clientAuthorities == nil {
                SSL_CTX_set_tlsext_ticket_key_evp_cb(context, useTicketKey)
            }
            if servesNames { cossl_set_servername_callback(context, selectCertificate) }
        }

        deinit { for context in contexts { SSL_CTX_free(context) } }

        /// A session with the first certificate.
        ///
        /// - Returns: `nil` without memory; the caller frees it.
        func makeSession() -> OpaquePointer? {
            guard let session = SSL_new(contexts[0]) else { return nil }
            guard SSL_set_ex_data(session, 0, Unmanaged.passUnretained(self).toOpaque()) == 1 else {
                SSL_free(session)
                return nil
            }
            return session
        }

        /// That of a session which `makeSession` has made.
        static func of(_ session: OpaquePointer?) -> Configuration? {
            session.flatMap { SSL_get_ex_data($0, 0) }.map {
                Unmanaged<Configuration>.fromOpaque($0).takeUnretainedValue()
            }
        }

        /// Changes to the first certificate that has the name, if there is one.
        func select(_ name: UnsafePointer<CChar>, for session: OpaquePointer) {
            for context in contexts {
                guard let certificate = SSL_CTX_get0_certificate(context) else { continue }
                if X509_check_host(certificate, name, strlen(name), 0, nil) == 1 {
                    SSL_set_SSL_CTX(session, context)
                    return
                }
            }
        }

        private static func setUp(_ context: OpaquePointer) throws(TLSFailure) {
            guard cossl_set_min_version(context, cossl_tls1_2) == 1,
                SSL_CTX_set_cipher_list(context, TLSContext.ciphers.joined(separator: ":")) == 1,
                // Tickets are for all certificates, and only for this program.
                SSL_CTX_set_session_id_context(context, Array("sluice".utf8), 6) == 1
            else { throw TLSFailure("TLS 1.2 is not available") }
            _ = cossl_set_options(
                context,
                cossl_op_no_renegotiation | cossl_op_no_compression | cossl_op_cipher_server_preference
            )
            // One system call reads several records; otherwise each record needs two calls.
            cossl_read_ahead(context)
            SSL_CTX_set_default_read_buffer_len(context, TLSSession.readBufferSize)
            _ = cossl_set_mode(
                context,
                cossl_mode_partial_write | cossl_mode_moving_buffer | cossl_mode_release_buffers
            )
            SSL_CTX_set_alpn_select_cb(context, selectProtocol, nil)
        }

        static func load(_ file: TLSFiles, into context: OpaquePointer) throws(TLSFailure) {
            guard SSL_CTX_use_certificate_chain_file(context, file.certificate) == 1 else {
                throw TLSFailure("the certificate file \(file.certificate) cannot be used")
            }
            guard SSL_CTX_use_PrivateKey_file(context, file.key, SSL_FILETYPE_PEM) == 1 else {
                throw TLSFailure("the key file \(file.key) cannot be used")
            }
            guard SSL_CTX_check_private_key(context) == 1 else {
                throw TLSFailure("the key in \(file.key) does not belong to the certificate in \(file.certificate)")
            }
        }

        private static func demandCertificates(of authorities: String, _ context: OpaquePointer) throws(TLSFailure) {
            guard SSL_CTX_load_verify_file(context, authorities) == 1, let names = SSL_load_client_CA_file(authorities)
            else { throw TLSFailure("the file \(authorities) has no certificates of authorities") }
            SSL_CTX_set_client_CA_list(context, names)
            SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nil)
            // A resumed session is not verified again: it would outlive the client's certificate, and its authority here.
            _ = cossl_set_options(context, cossl_op_no_ticket)
            SSL_CTX_set_num_tickets(context, 0)
            _ = cossl_set_session_cache_mode(context, cossl_session_cache_off)
        }

        var expiresAt: Int64? {
            if hasStandIn { return nil }
            return contexts.compactMap { context in
                SSL_CTX_get0_certificate(context).flatMap { TLSCertificate.seconds(X509_get0_notAfter($0)) }
            }.min()
        }
    }

    /// For TLS 1.2: only forward secrecy and authenticated encryption (RFC 9325 §4.2).
    ///
    /// TLS 1.3 has nothing else.
    private static let ciphers = [
        "ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256",
        "ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-RSA-AES256-GCM-SHA384",
        "ECDHE-ECDSA-CHACHA20-POLY1305", "ECDHE-RSA-CHACHA20-POLY1305",
    ]
}

/// RFC 7301: selects `http/1.1` if it is offered, otherwise continues without a protocol.
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
            // The result may point into the client's list, which outlives this call.
            out.pointee = offered + position + 1
            outLength.pointee = UInt8(length)
            return SSL_TLSEXT_ERR_OK
        }
        position += 1 + length
    }
    return SSL_TLSEXT_ERR_NOACK
}

/// RFC 6066 §3: a client without a name, or with an unknown one, gets the first certificate.
private func selectCertificate(
    _ session: OpaquePointer?,
    _ alert: UnsafeMutablePointer<Int32>?,
    _ argument: UnsafeMutableRawPointer?
) -> Int32 {
    if let session, let name = SSL_get_servername(session, TLSEXT_NAMETYPE_host_name) {
        TLSContext.Configuration.of(session)?.select(name, for: session)
    }
    return SSL_TLSEXT_ERR_OK
}
