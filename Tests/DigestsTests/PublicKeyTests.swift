import Bytes
import Testing

@testable import Digests

@Suite("Public keys", .timeLimit(.minutes(10)))
struct PublicKeyTests {
    /// RFC 8037, appendix A.2 and A.4.
    private static let edwards = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
    private static let edwardsMessage = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc"
    private static let edwardsSignature =
        "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg"

    /// Made with Python's cryptography 50: RSASSA-PSS with the named parameters.
    private static let message = "eyJhbGciOiJQUzI1NiJ9.eyJpc3MiOiJqb2UifQ"
    private static let modulus =
        "yxbmKpMbIyCVRCTFzTk814a1GfXWKf-a08kUrSCuN0Q6DTzob9SQbfa0pcmjrmWkvJdp0-u1_zhxKoWAEzYAv-7uxktdC9rbuNqg"
        + "u2o_8_Txv51Tmh74pTW5R5itj28D6utwm2-nsAGple0sjQkcZrJybTiG5RDPisv_5oZXCA2f26e47lXHCS6wuUYFhZTNbLebCviS"
        + "Ckq7_KngmX116kMPSvjkKupwZiyPv5v0jaXPNXUeP-BE2j802j22_anSHEO-oM3FhuTx2YdhBOtq8tjWAZu7RNfCmCoiNHkQIik4"
        + "k_fO-MudXtELgw6fLwCI9JyC1KJqGnUfz6jeMw5bCQ"
    private static let pss =
        "LKvKVNSCeGszUx42YcPqwGQflsPx4_xN3pgjVXf2dzcMiZ6OmCqxFeZrywQ9UcknE7KeA43SqqN1r3nu9nWs9WSpkCeMn1Tn0nPA"
        + "C_Vn-qCqZeE3YSKOQo5K_ESpQ_Yg0xDPYylOfJ-IrP1S28ReQuDbAPD_OWFooIf6H4dOEDu-ppMcJdo8Uff-kH0X_vMCqwfYeOVS"
        + "i6MDXPbS2UXYf5lu-h9tRdUFk-5CIPemG3U9YFkCHLILRU-tZcsALP8wMtZ9yrwmdjckAec48NHvgbWGwUfQGW4rwrI8lZCBc-78"
        + "9XbugGFmehpu8PRjNwkNT6246GtjLIS18UMNtxRQSQ"
    private static let pssWithSaltOf20 =
        "JLe7Ri1Z2f9YQjuZdklTsZgARPg8fLD4Te5bZnoAYvDljdPiXoMO27GJNMfTq4j1Sy1xYxSueZFPfSZ37jbiX1F200LTLXt9toH6"
        + "dk-ybAvUiXnjs2Rdhsd66ZFwdNspSiRNUErpDss_kKktRppeUw3zo8LV_NhC2mSBsx9RmZdTKhkPUwzy8WsDCUxUOHm7c_T8KyX1"
        + "9RDz4kxQ-s4iZW9i1n24aqWr3LrH40OQVO-2z00XRcVqbj-ysdDsJWzm6-bjY07LdirY_iVVw48g7pT1dHEjNdv0o5LSc_4I7Rwr"
        + "Yjg557gHJZ_o-QbcwimRcqOz6KiY8-IKYV8qMdowCQ"
    private static let pssWithSHA384 =
        "DgJ6s_3T2I4yz2fFsUf6OLLa8P-noqdJV3OQaaxce9dnq14reXhqk5JmJ5qvoR_reQMYLAuknQPJuqYSbnWlDB2VCUCD_7I1Ia94"
        + "FomSUAINcr7LGGMedNBKK0vsRDSUWDCJQdOOx7XWH-OfEv4U3BjhnjqCvRKzHZF5ROGx7RjgablF55vQvCMn7MkIinUOIaUwALgx"
        + "J_pPALv4H9adBAEM9C1nwTNoJ4YmwpPxjfKZ-oJJo7FuVgpqhp9zAYXZzaF_YS6yYyjGk8Rr716FJUkMkdQrYICSPFRplGSv1Mz7"
        + "u3omsgVf3c8UxvSay_NofSJ_r7Hz_-ON9gqcN7eAsw"
    private static let pssWithMaskBySHA1 =
        "DZp3YKGn_CAMFQauYv9uawcUibxn9iebiTkj30Hj65riy23onUxMlPGXT4K8Yk0I1Opy9rxFXJOXuXEo7B7PLcLQpL6SUJ5mYJLL"
        + "BpfRVI91mXRf_RIMh8hGQ3hQVBsseOOPKzI-A8KexkG7pU0noSC4xIx8dwwhAJTx3yC_kDZcXqKgSXqXMndZUkVHSj2PUJECFqVD"
        + "ELK5WteLVjq0YZF8C9x7Q2qEmExniWfmIDwwjkoy0q642fUmkHViUc8jVzdX-vzgKcK4rLikWmkPrQk9sEVl2KIhbS2uqknY618M"
        + "aYwqameF5J-gu-gc3Al_mYRhbMwZyixXQrna3yCMHg"

    private static let rsaPEM = """
        -----BEGIN PUBLIC KEY-----
        MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAyxbmKpMbIyCVRCTFzTk8
        14a1GfXWKf+a08kUrSCuN0Q6DTzob9SQbfa0pcmjrmWkvJdp0+u1/zhxKoWAEzYA
        v+7uxktdC9rbuNqgu2o/8/Txv51Tmh74pTW5R5itj28D6utwm2+nsAGple0sjQkc
        ZrJybTiG5RDPisv/5oZXCA2f26e47lXHCS6wuUYFhZTNbLebCviSCkq7/KngmX11
        6kMPSvjkKupwZiyPv5v0jaXPNXUeP+BE2j802j22/anSHEO+oM3FhuTx2YdhBOtq
        8tjWAZu7RNfCmCoiNHkQIik4k/fO+MudXtELgw6fLwCI9JyC1KJqGnUfz6jeMw5b
        CQIDAQAB
        -----END PUBLIC KEY-----
        """
    /// The key above.
    private static let edwardsPEM = """
        -----BEGIN PUBLIC KEY-----
        MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=
        -----END PUBLIC KEY-----
        """
    /// A certificate of the key above.
    private static let certificatePEM = """
        -----BEGIN CERTIFICATE-----
        MIHWMIGJoAMCAQICAQEwBQYDK2VwMBUxEzARBgNVBAMMCmlkLmV4YW1wbGUwHhcN
        MjYwMTAxMDAwMDAwWhcNMzYwMTAxMDAwMDAwWjAVMRMwEQYDVQQDDAppZC5leGFt
        cGxlMCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURow
        BQYDK2VwA0EAYhm75lmbWt1D7Oed++WYuej9VJHHeIPNQw/lNNKrN5vtC+weRJ6B
        nVf0sMcllIh+rqgrz8SBHCC7TVBxWr37CA==
        -----END CERTIFICATE-----
        """
    private static let p384PEM = """
        -----BEGIN PUBLIC KEY-----
        MHYwEAYHKoZIzj0CAQYFK4EEACIDYgAEWZCt2JiWjZQPTPk3G18TfOmJErjgqeGs
        AA2/rsXZQGHq6EB9b/oGsorkDe5sQkNH3JQR8yfOzd7et1vzi9L/lyk+f9G4QD+z
        Bu/FU+N2IoL0AbQ5dfbDAzbxBWvh8sL5
        -----END PUBLIC KEY-----
        """
    private static let shortRSAPEM = """
        -----BEGIN PUBLIC KEY-----
        MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDQpMeM6o5SHYs1xw3SvqZm1iSP
        PJR57e3C7s4jaicZhlE5bvRO2Qqf8xjQngdxTe2rOnwGV3Fbvv3IsoxzLCNvN7SX
        cJGcPpkMLqTZ5CnH02MblUIr3WaR91IP0U3RbKD3zxY575Ds9uXpmEYNeIbgb5vQ
        MZcAah3YqXeRYVqZRQIDAQAB
        -----END PUBLIC KEY-----
        """

    private func bytes(_ text: String) throws -> [UInt8] { try #require(Base64.decodeURLSafe(text)) }

    @Test("the example of RFC 8037 verifies, and no other signature does")
    func edwards() throws {
        let key = try #require(PublicKey(ed25519: try bytes(Self.edwards)))
        let (message, signature) = (Array(Self.edwardsMessage.utf8), try bytes(Self.edwardsSignature))
        #expect(key.kind == .ed25519)
        #expect(key.verifies(signature, of: message, by: .ed25519))
        for index in signature.indices {
            var changed = signature
            changed[index] ^= 1
            #expect(!key.verifies(changed, of: message, by: .ed25519))
        }
        for wrong in [[], signature.dropLast(), signature + [0], [UInt8](repeating: 0, count: 64)] {
            #expect(!key.verifies(wrong, of: message, by: .ed25519))
        }
        #expect(!key.verifies(signature, of: message + [0], by: .ed25519))
        #expect(PublicKey(ed25519: [UInt8](repeating: 1, count: 31)) == nil)
    }

    @Test("PSS has SHA-256 for everything and a salt of 32 bytes")
    func pss() throws {
        let key = try #require(PublicKey(rsaModulus: try bytes(Self.modulus), exponent: [1, 0, 1]))
        let message = Array(Self.message.utf8)
        #expect(key.verifies(try bytes(Self.pss), of: message, by: .rsaPSS))
        for other in [Self.pssWithSaltOf20, Self.pssWithSHA384, Self.pssWithMaskBySHA1] {
            #expect(!key.verifies(try bytes(other), of: message, by: .rsaPSS))
        }
    }

    @Test("a scheme is for one kind of key")
    func schemes() throws {
        let rsa = try #require(PublicKey(rsaModulus: try bytes(Self.modulus), exponent: [1, 0, 1]))
        let edwards = try #require(PublicKey(ed25519: try bytes(Self.edwards)))
        let (pss, signature) = (try bytes(Self.pss), try bytes(Self.edwardsSignature))
        for scheme in [SignatureScheme.rsaPKCS1, .p256, .ed25519] {
            #expect(!rsa.verifies(pss, of: Array(Self.message.utf8), by: scheme))
        }
        for scheme in [SignatureScheme.rsaPKCS1, .rsaPSS, .p256] {
            #expect(!edwards.verifies(signature, of: Array(Self.edwardsMessage.utf8), by: scheme))
        }
    }

    @Test("a PEM file holds several keys and certificates, and text between them")
    func files() throws {
        let text = "first\n\(Self.rsaPEM)\r\nsecond\n\(Self.certificatePEM)\n\(Self.edwardsPEM)"
        let keys = try PublicKeyFile.keys(in: text)
        #expect(keys.map(\.kind) == [.rsa, .ed25519, .ed25519])
        #expect(keys[0].verifies(try bytes(Self.pss), of: Array(Self.message.utf8), by: .rsaPSS))
        for key in keys[1...] {
            #expect(
                key.verifies(try bytes(Self.edwardsSignature), of: Array(Self.edwardsMessage.utf8), by: .ed25519)
            )
        }
    }

    @Test(
        "a file without a usable key is refused",
        arguments: [
            ("", PublicKeyFile.Failure.noKey), ("text", .noKey), (String(edwardsPEM.dropLast(26)), .noKey),
            (p384PEM, .unsupportedKey), (shortRSAPEM, .unsupportedKey),
            ("\(rsaPEM)\n\(p384PEM)", .unsupportedKey),
            ("-----BEGIN PUBLIC KEY-----\n?\n-----END PUBLIC KEY-----", .unsupportedKey),
            ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----", .unsupportedKey),
            ("-----BEGIN RSA PUBLIC KEY-----\nAAAA\n-----END RSA PUBLIC KEY-----", .unsupportedKey),
            ("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----", .privateKey),
            ("\(rsaPEM)\n-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----", .privateKey),
        ]
    )
    func refused(text: String, failure: PublicKeyFile.Failure) {
        #expect(throws: failure) { try PublicKeyFile.keys(in: text) }
    }
}
