import Bytes
import Testing

@testable import Digests

@Suite("Key derivation", .timeLimit(.minutes(10)))
struct KeyDerivationTests {
    /// RFC 5869 §A.1 to §A.3: input, salt, info, output.
    static let published: [(secret: String, salt: String, info: String, key: String)] = [
        (
            "0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b",
            "000102030405060708090a0b0c",
            "f0f1f2f3f4f5f6f7f8f9",
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf"
                + "34007208d5b887185865"
        ),
        (
            "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
                + "202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f"
                + "404142434445464748494a4b4c4d4e4f",
            "606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f"
                + "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f"
                + "a0a1a2a3a4a5a6a7a8a9aaabacadaeaf",
            "b0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecf"
                + "d0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e8e9eaebecedeeef"
                + "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff",
            "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c"
                + "59045a99cac7827271cb41c65e590e09da3275600c2f09b8367793a9aca3db71"
                + "cc30c58179ec3e87c14c01d5c1f3434f1d87"
        ),
        (
            "0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b",
            "",
            "",
            "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d"
                + "9d201395faa4b61a96c8"
        ),
    ]

    @Test("keys match the SHA-256 vectors of RFC 5869", arguments: published)
    func matchesPublished(_ vector: (secret: String, salt: String, info: String, key: String)) throws {
        let key = KeyDerivation.hkdf(
            secret: try #require(Hexadecimal.decode(vector.secret)),
            salt: try #require(Hexadecimal.decode(vector.salt)),
            info: try #require(Hexadecimal.decode(vector.info)),
            count: vector.key.utf8.count / 2
        )
        #expect(Hexadecimal.encode(key) == vector.key)
    }

    @Test("info text is encoded in UTF-8")
    func text() {
        let secret: [UInt8] = [1, 2, 3]
        let key = KeyDerivation.hkdf(secret: secret, info: "größe", count: 40)
        #expect(key == KeyDerivation.hkdf(secret: secret, salt: [], info: Array("größe".utf8), count: 40))
        #expect(key != KeyDerivation.hkdf(secret: secret, info: "grösse", count: 40))
    }

    @Test("a shorter key is a prefix of a longer one, up to 8160 bytes")
    func lengths() {
        let longest = KeyDerivation.hkdf(secret: [7], info: "x", count: 8160)
        #expect(longest.count == 8160)
        for count in [1, 31, 32, 33, 64, 8159] {
            #expect(KeyDerivation.hkdf(secret: [7], info: "x", count: count) == Array(longest.prefix(count)))
        }
    }
}
