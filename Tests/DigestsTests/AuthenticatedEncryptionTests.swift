import Bytes
import Testing

@testable import Digests

@Suite("Authenticated encryption", .timeLimit(.minutes(10)))
struct AuthenticatedEncryptionTests {
    struct Vector: Sendable {
        let key: String
        let nonce: String
        let plain: String
        let associated: String
        let sealed: String
    }

    @Test("vectors of NIST's gcmEncryptExtIV256.rsp seal and open", arguments: vectors)
    func matchesPublished(_ vector: Vector) throws {
        let key = try #require(Hexadecimal.decode(vector.key))
        let nonce = try #require(Hexadecimal.decode(vector.nonce))
        let plain = try #require(Hexadecimal.decode(vector.plain))
        let associated = try #require(Hexadecimal.decode(vector.associated))
        let sealed = AuthenticatedEncryption.seal(plain, key: key, nonce: nonce, associated: associated)
        #expect(Hexadecimal.encode(sealed) == vector.sealed)
        #expect(AuthenticatedEncryption.open(sealed, key: key, nonce: nonce, associated: associated) == plain)
    }

    @Test("a changed bit anywhere is detected")
    func changes() {
        let key = [UInt8](repeating: 1, count: 32)
        let nonce = [UInt8](repeating: 2, count: 12)
        let plain = Array("attack at dawn".utf8)
        let associated = Array("v1".utf8)
        let sealed = AuthenticatedEncryption.seal(plain, key: key, nonce: nonce, associated: associated)
        func opens(_ sealed: [UInt8], _ key: [UInt8], _ nonce: [UInt8], _ associated: [UInt8]) -> Bool {
            AuthenticatedEncryption.open(sealed, key: key, nonce: nonce, associated: associated) != nil
        }
        func flipped(_ bytes: [UInt8], _ bit: Int) -> [UInt8] {
            var bytes = bytes
            bytes[bit / 8] ^= 1 << (bit % 8)
            return bytes
        }
        #expect(opens(sealed, key, nonce, associated))
        for bit in 0..<sealed.count * 8 { #expect(!opens(flipped(sealed, bit), key, nonce, associated)) }
        for bit in 0..<key.count * 8 { #expect(!opens(sealed, flipped(key, bit), nonce, associated)) }
        for bit in 0..<nonce.count * 8 { #expect(!opens(sealed, key, flipped(nonce, bit), associated)) }
        for bit in 0..<associated.count * 8 { #expect(!opens(sealed, key, nonce, flipped(associated, bit))) }
        for count in 0..<sealed.count { #expect(!opens(Array(sealed.prefix(count)), key, nonce, associated)) }
        #expect(!opens(sealed + [0], key, nonce, associated))
        #expect(!opens(sealed, key, nonce, []))
    }

    @Test("keys and nonces of another size are refused")
    func sizes() {
        let sealed = [UInt8](repeating: 0, count: 40)
        for count in [0, 16, 31, 33] {
            let key = [UInt8](repeating: 0, count: count)
            #expect(AuthenticatedEncryption.open(sealed, key: key, nonce: Array(1...12), associated: []) == nil)
        }
        for count in [0, 8, 11, 13, 16] {
            let nonce = [UInt8](repeating: 0, count: count)
            let key = [UInt8](repeating: 0, count: 32)
            #expect(AuthenticatedEncryption.open(sealed, key: key, nonce: nonce, associated: []) == nil)
        }
    }

    static let vectors: [Vector] = [
        Vector(
            key: "b52c505a37d78eda5dd34f20c22540ea1b58963cf8e5bf8ffa85f9f2492505b4",
            nonce: "516c33929df5a3284ff463d7",
            plain: "",
            associated: "",
            sealed: "bdc1ac884d332457a1d2664f168c76f0"
        ),
        Vector(
            key: "78dc4e0aaf52d935c3c01eea57428f00ca1fd475f5da86a49c8dd73d68c8e223",
            nonce: "d79cf22d504cc793c3fb6c8a",
            plain: "",
            associated: "b96baa8c1c75a671bfb2d08d06be5f36",
            sealed: "3e5d486aa2e30b22e040b85723a06e76"
        ),
        Vector(
            key: "e4fed339c7b0cd267305d11ab0d5c3273632e8872d35bdc367a1363438239a35",
            nonce: "0365882cf75432cfd23cbd42",
            plain: "fff39a087de39a03919fbd2f2fa5f513",
            associated: "8a97d2af5d41160ac2ff7dd8ba098e7aa4d618f0f455957d6a6d0801796747ba"
                + "57c32dfbaaaf15176528fe3a0e4550c9",
            sealed: "8d9e68f03f7e5f4a0ffaa7650d026d083554542c478c0635285a61d1b51f6afa"
        ),
        Vector(
            key: "69b458f2644af9020463b40ee503cdf083d693815e2659051ae0d039e606a970",
            nonce: "8d1da8ab5f91ccd09205944b",
            plain: "f3e0e09224256bf21a83a5de8d",
            associated: "036ad5e5494ef817a8af2f5828784a4bfedd1653",
            sealed: "c0a62d77e6031bfdc6b13ae217a794a9aaee48cd92e47761bf1baff0af"
        ),
        Vector(
            key: "1fded32d5999de4a76e0f8082108823aef60417e1896cf4218a2fa90f632ec8a",
            nonce: "1f3afa4711e9474f32e70462",
            plain: "06b2c75853df9aeb17befd33cea81c630b0fc53667ff45199c629c8e15dce41e"
                + "530aa792f796b8138eeab2e86c7b7bee1d40b0",
            associated: "",
            sealed: "91fbd061ddc5a7fcc9513fcdfdc9c3a7c5d4d64cedf6a9c24ab8a77c36eefbf1"
                + "c5dc00bc50121b96456c8cd8b6ff1f8b3e480f30096d340f3d5c42d82a6f475d"
                + "ef23eb"
        ),
        Vector(
            key: "148579a3cbca86d5520d66c0ec71ca5f7e41ba78e56dc6eebd566fed547fe691",
            nonce: "b08a5ea1927499c6ecbfd4e0",
            plain: "9d0b15fdf1bd595f91f8b3abc0f7dec927dfd4799935a1795d9ce00c9b879434"
                + "420fe42c275a7cd7b39d638fb81ca52b49dc41",
            associated: "e4f963f015ffbb99ee3349bbaf7e8e8e6c2a71c230a48f9d59860a29091d2747"
                + "e01a5ca572347e247d25f56ba7ae8e05cde2be3c97931292c02370208ecd097e"
                + "f692687fecf2f419d3200162a6480a57dad408a0dfeb492e2c5d",
            sealed: "2097e372950a5e9383c675e89eea1c314f999159f5611344b298cda45e628437"
                + "16f215f82ee663919c64002a5c198d7878fd3fadbecdb0d5c2224d804d2886ff"
                + "9a5760"
        ),
    ]
}
