internal import COpenSSL
internal import Glibc

/// What a certificate says of itself; its signature is not verified.
package struct TLSCertificate: Sendable {
    /// Unix seconds.
    package let validFrom: Int64
    /// Unix seconds.
    package let validUntil: Int64
    /// Those of the names that it is for.
    package let names: Set<String>

    /// - Parameters:
    ///   - files: Must belong together.
    ///   - names: Those to look for in it.
    /// - Throws: `TLSFailure`, which describes the problem with the files.
    package init(_ files: TLSFiles, lookingFor names: [String] = []) throws(TLSFailure) {
        guard let context = SSL_CTX_new(TLS_server_method()) else { throw TLSFailure("TLS is not available") }
        defer { SSL_CTX_free(context) }
        try TLSContext.Configuration.load(files, into: context)
        guard let certificate = SSL_CTX_get0_certificate(context),
            let start = Self.seconds(X509_get0_notBefore(certificate)),
            let end = Self.seconds(X509_get0_notAfter(certificate))
        else { throw TLSFailure("the certificate in \(files.certificate) does not say when it is valid") }
        (validFrom, validUntil) = (start, end)
        self.names = Set(names.filter { X509_check_host(certificate, $0, $0.utf8.count, 0, nil) == 1 })
    }

    static func seconds(_ time: UnsafePointer<ASN1_TIME>?) -> Int64? {
        var parts = tm()
        guard let time, ASN1_TIME_to_tm(time, &parts) == 1 else { return nil }
        return Int64(timegm(&parts))
    }
}
