import Bytes
import Testing

@testable import Digests

@Suite("Private keys", .timeLimit(.minutes(10)))
struct P256KeyTests {
    private static let message = Array("what is signed".utf8)

    @Test("Signatures are those of the public half")
    func signatures() throws {
        // Numbers with zeros in front are shorter in DER.
        for _ in 0..<40 {
            let key = P256Key()
            let publicKey = try #require(PublicKey(p256X: key.point.x, y: key.point.y))
            let signature = key.plainSignature(of: Self.message)
            #expect(signature.count == 64)
            #expect(publicKey.verifies(signature, of: Self.message, by: .p256))
            #expect(!publicKey.verifies(signature, of: Self.message + [0], by: .p256))
            #expect(PublicKey(subjectPublicKeyInfo: key.publicInfo)?.kind == .p256)
        }
    }

    @Test("A key is read from what was written")
    func texts() throws {
        let key = P256Key()
        #expect(
            key.pem.hasPrefix("-----BEGIN EC PRIVATE KEY-----\n") && key.pem.hasSuffix("-----END EC PRIVATE KEY-----\n")
        )
        let read = try #require(P256Key(pem: "a comment\n" + PEM.text("CERTIFICATE", [1]) + key.pem))
        #expect(read.encoded == key.encoded)
        #expect(read.publicInfo == key.publicInfo)
    }

    /// Made with `openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256`, and -384, and `-algorithm ED25519`.
    @Test("Keys of other programs, and of other kinds")
    func others() throws {
        let pkcs8 = """
            -----BEGIN PRIVATE KEY-----
            MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgVo4GmkukPZZMiNF0
            cqHYMURnNdgjw0Bw2ZkeQgk9WzihRANCAAStCCyjPZN0nSatyUPIH9/ajf07TDV7
            4qlhwYw85PykFL3NtyfOdJK1qz7m/v2kDKVQAp/jQFFhAlCMhhcjU7lO
            -----END PRIVATE KEY-----
            """
        #expect(P256Key(pem: pkcs8) != nil)
        let edwards =
            "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIPPvnolQ00UmslWL0kWib+pB44bRFGeaZ4+/F2xExGK1\n-----END PRIVATE KEY-----\n"
        #expect(P256Key(pem: edwards) == nil)
        let longer = """
            -----BEGIN PRIVATE KEY-----
            MIG2AgEAMBAGByqGSM49AgEGBSuBBAAiBIGeMIGbAgEBBDDQeI2iP+eLHI7ymdEO
            tMJMSBoNdPLplWlh80J1SX4zGcxiaHVfLWM2G7m0UUELAtmhZANiAAQLi4o6kl3X
            Aa+SrnoYsV9eLSm6MRpyQa6mCPKwHNuuLMndtSfoS+paeOD2mx7Gs1DPEm/jXiOL
            hfCSecWO6dw0slZol2lbD+bebAUr1yK4xyR7bibx+82o9v0Ae/zvNeI=
            -----END PRIVATE KEY-----
            """
        #expect(P256Key(pem: longer) == nil)
        #expect(P256Key(pem: "") == nil)
        #expect(P256Key(encoded: []) == nil)
        #expect(P256Key(encoded: Array(P256Key().encoded.dropLast())) == nil)
    }

    @Test("Blocks of PEM that are complete")
    func blocks() {
        let text =
            "x\n" + PEM.text("A", Array(repeating: 7, count: 100)) + "-----BEGIN B-----\nAA\n"
            + "-----BEGIN C-----\n!\n-----END C-----\n-----BEGIN D-----\nAA==\n-----END E-----\n"
        let found = PEM.blocks(in: text)
        #expect(found.map(\.label) == ["A"])
        #expect(found.first?.content == Array(repeating: 7, count: 100))
        #expect(text.split(separator: "\n").allSatisfy { $0.utf8.count <= 64 })
    }
}
