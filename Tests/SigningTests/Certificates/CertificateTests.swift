import Bytes
import COpenSSL
import Testing

@testable import Digests
@testable import Signing

@Suite("Certificates", .timeLimit(.minutes(10)))
struct CertificateTests {
    private static let names = ["a.example.com", "b.example.com"]

    @Test("OpenSSL reads a request, and finds its names, its key and a valid signature")
    func request() throws {
        // More names than a length of one byte has room for.
        let many = (0..<100).map { "host-\($0).example.com" }
        for names in [Self.names, many] {
            let key = P256Key()
            let bytes = CertificateRequest.encoded(for: names, key: key)
            try bytes.withUnsafeBufferPointer { buffer in
                var next = buffer.baseAddress
                let request = try #require(d2i_X509_REQ(nil, &next, buffer.count))
                defer { X509_REQ_free(request) }
                #expect(next == buffer.baseAddress.map { $0 + buffer.count })
                let published = try #require(X509_REQ_get0_pubkey(request))
                #expect(X509_REQ_verify(request, published) == 1)
                #expect(X509_REQ_get_version(request) == 0)
                let output = try #require(BIO_new(BIO_s_mem()))
                defer { BIO_free(output) }
                #expect(X509_REQ_print(output, request) == 1)
                var text = [UInt8](repeating: 0, count: 1 << 16)
                let count = BIO_read(output, &text, Int32(text.count))
                let printed = String(decoding: text.prefix(Int(count)), as: UTF8.self)
                #expect(printed.contains(names.map { "DNS:\($0)" }.joined(separator: ", ") + "\n"))
            }
        }
    }

    @Test("The certificate of a validation is for one name, with the digest as a critical extension")
    func validation() throws {
        let digest = Digest.hash(Array("token.thumbprint".utf8), .sha256)
        let now: Int64 = 1_790_000_000
        let made = SelfSignedCertificate(validating: "a.example.com", digest: digest, at: now)
        try Self.with(made.encoded) { certificate in
            let published = try #require(X509_get0_pubkey(certificate))
            #expect(X509_verify(certificate, published) == 1)
            #expect(X509_get_version(certificate) == 2)
            #expect(X509_check_host(certificate, "a.example.com", 13, 0, nil) == 1)
            #expect(X509_check_host(certificate, "b.example.com", 13, 0, nil) == 0)
            let identifier = try #require(OBJ_txt2obj("1.3.6.1.5.5.7.1.31", 1))
            defer { ASN1_OBJECT_free(identifier) }
            let place = X509_get_ext_by_OBJ(certificate, identifier, -1)
            let found = try #require(X509_get_ext(certificate, place))
            #expect(X509_EXTENSION_get_critical(found) == 1)
            let content = try #require(X509_EXTENSION_get_data(found))
            let bytes = UnsafeBufferPointer(
                start: ASN1_STRING_get0_data(content),
                count: Int(ASN1_STRING_length(content))
            )
            // RFC 8737 §3: an octet string of 32 bytes.
            #expect(Array(bytes) == [0x04, 0x20] + digest)
            #expect(ASN1_TIME_cmp_time_t(X509_get0_notBefore(certificate), Int(now)) == -1)
            #expect(ASN1_TIME_cmp_time_t(X509_get0_notAfter(certificate), Int(now)) == 1)
        }
    }

    @Test("A certificate that stands in is for all names, and of another key each time")
    func standIn() throws {
        let made = SelfSignedCertificate(standingInFor: Self.names, at: 1_790_000_000)
        try Self.with(made.encoded) { certificate in
            for name in Self.names { #expect(X509_check_host(certificate, name, name.utf8.count, 0, nil) == 1) }
        }
        #expect(made.key.encoded != SelfSignedCertificate(standingInFor: Self.names, at: 1_790_000_000).key.encoded)
    }

    @Test(
        "Times are those that OpenSSL reads",
        arguments: [-631_152_000, 0, 951_782_400, 1_790_000_000, 2_524_607_999, 2_524_608_000, 4_102_444_800] as [Int64]
    )
    func times(_ seconds: Int64) throws {
        let bytes = CertificateText.time(seconds)
        try bytes.withUnsafeBufferPointer { buffer in
            var next = buffer.baseAddress
            let time = try #require(d2i_ASN1_TIME(nil, &next, buffer.count))
            defer { ASN1_TIME_free(time) }
            #expect(ASN1_TIME_check(time) == 1)
            #expect(ASN1_TIME_cmp_time_t(time, Int(seconds)) == 0)
        }
    }

    private static func with(_ bytes: [UInt8], _ body: (OpaquePointer) throws -> Void) throws {
        try bytes.withUnsafeBufferPointer { buffer in
            var next = buffer.baseAddress
            let certificate = try #require(d2i_X509(nil, &next, buffer.count))
            defer { X509_free(certificate) }
            try body(certificate)
        }
    }
}
