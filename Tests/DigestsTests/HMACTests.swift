import Bytes
import Testing

@testable import Digests

@Suite("HMAC", .timeLimit(.minutes(10)))
struct HMACTests {
    struct Vector: Sendable, CustomTestStringConvertible {
        let algorithm: DigestAlgorithm
        let key: String
        let message: String
        let code: String

        init(_ algorithm: DigestAlgorithm, key: String, message: String, code: String) {
            self.algorithm = algorithm
            self.key = key
            self.message = message
            self.code = code
        }

        var testDescription: String { "\(algorithm) \(code)" }
    }

    @Test("codes match the vectors of RFC 2202 and RFC 4231", arguments: vectors)
    func matchesPublished(_ vector: Vector) throws {
        let key = try #require(Hexadecimal.decode(vector.key))
        let message = try #require(Hexadecimal.decode(vector.message))
        #expect(Hexadecimal.encode(HMAC.code(vector.algorithm, key: key, message: message)) == vector.code)
        let prepared = HMACKey(vector.algorithm, key)
        for _ in 0..<2 { #expect(Hexadecimal.encode(prepared.code(for: message)) == vector.code) }
    }

    @Test("an empty key and an empty message are allowed")
    func empty() {
        // From Python's hmac.new(b"", b"", "sha256").
        let code = "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad"
        #expect(Hexadecimal.encode(HMAC.code(.sha256, key: [], message: [])) == code)
    }

    @Test("one prepared key serves many threads at once")
    func concurrency() async {
        let key = HMACKey(.sha256, Array("secret".utf8))
        let expected = (0..<64).map { key.code(for: [UInt8($0)]) }
        let codes = await withTaskGroup(of: (Int, [UInt8]).self) { group in
            for index in 0..<64 { group.addTask { (index, key.code(for: [UInt8(index)])) } }
            return await group.reduce(into: [Int: [UInt8]]()) { $0[$1.0] = $1.1 }
        }
        for index in 0..<64 { #expect(codes[index] == expected[index]) }
    }

    static let vectors: [Vector] = [
        Vector(
            .md5,
            key: "0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b",
            message: "4869205468657265",
            code: "9294727a3638bb1c13f48ef8158bfc9d"
        ),
        Vector(
            .md5,
            key: "4a656665",
            message: "7768617420646f2079612077616e7420666f72206e6f7468696e673f",
            code: "750c783e6ab0b503eaa86e310a5db738"
        ),
        Vector(
            .md5,
            key: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            message: String(repeating: "dd", count: 50),
            code: "56be34521d144c88dbb8c733f0e8b3f6"
        ),
        Vector(
            .md5,
            key: "0102030405060708090a0b0c0d0e0f10111213141516171819",
            message: String(repeating: "cd", count: 50),
            code: "697eaf0aca3a3aea3a75164746ffaa79"
        ),
        Vector(
            .md5,
            key: "0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c",
            message: "546573742057697468205472756e636174696f6e",
            code: "56461ef2342edc00f9bab995690efd4c"
        ),
        Vector(
            .md5,
            key: String(repeating: "aa", count: 80),
            message: "54657374205573696e67204c6172676572205468616e20426c6f636b2d53697a"
                + "65204b6579202d2048617368204b6579204669727374",
            code: "6b1ab7fe4bd7bf8f0b62e6ce61b9d0cd"
        ),
        Vector(
            .md5,
            key: String(repeating: "aa", count: 80),
            message: "54657374205573696e67204c6172676572205468616e20426c6f636b2d53697a"
                + "65204b657920616e64204c6172676572205468616e204f6e6520426c6f636b2d"
                + "53697a652044617461",
            code: "6f630fad67cda0ee1fb1f562db3aa53e"
        ),
        Vector(
            .sha1,
            key: "0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b",
            message: "4869205468657265",
            code: "b617318655057264e28bc0b6fb378c8ef146be00"
        ),
        Vector(
            .sha1,
            key: "4a656665",
            message: "7768617420646f2079612077616e7420666f72206e6f7468696e673f",
            code: "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"
        ),
        Vector(
            .sha1,
            key: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            message: String(repeating: "dd", count: 50),
            code: "125d7342b9ac11cd91a39af48aa17b4f63f175d3"
        ),
        Vector(
            .sha1,
            key: "0102030405060708090a0b0c0d0e0f10111213141516171819",
            message: String(repeating: "cd", count: 50),
            code: "4c9007f4026250c6bc8414f9bf50c86c2d7235da"
        ),
        Vector(
            .sha1,
            key: "0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c",
            message: "546573742057697468205472756e636174696f6e",
            code: "4c1a03424b55e07fe7f27be1d58bb9324a9a5a04"
        ),
        Vector(
            .sha1,
            key: String(repeating: "aa", count: 80),
            message: "54657374205573696e67204c6172676572205468616e20426c6f636b2d53697a"
                + "65204b6579202d2048617368204b6579204669727374",
            code: "aa4ae5e15272d00e95705637ce8a3b55ed402112"
        ),
        Vector(
            .sha1,
            key: String(repeating: "aa", count: 80),
            message: "54657374205573696e67204c6172676572205468616e20426c6f636b2d53697a"
                + "65204b657920616e64204c6172676572205468616e204f6e6520426c6f636b2d"
                + "53697a652044617461",
            code: "e8e99d0f45237d786d6bbaa7965c7808bbff1a91"
        ),
        Vector(
            .sha256,
            key: "0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b",
            message: "4869205468657265",
            code: "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
        ),
        Vector(
            .sha256,
            key: "4a656665",
            message: "7768617420646f2079612077616e7420666f72206e6f7468696e673f",
            code: "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        ),
        Vector(
            .sha256,
            key: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            message: String(repeating: "dd", count: 50),
            code: "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"
        ),
        Vector(
            .sha256,
            key: "0102030405060708090a0b0c0d0e0f10111213141516171819",
            message: String(repeating: "cd", count: 50),
            code: "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"
        ),
        Vector(
            .sha256,
            key: String(repeating: "aa", count: 131),
            message: "54657374205573696e67204c6172676572205468616e20426c6f636b2d53697a"
                + "65204b6579202d2048617368204b6579204669727374",
            code: "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        ),
        Vector(
            .sha256,
            key: String(repeating: "aa", count: 131),
            message: "5468697320697320612074657374207573696e672061206c6172676572207468"
                + "616e20626c6f636b2d73697a65206b657920616e642061206c61726765722074"
                + "68616e20626c6f636b2d73697a6520646174612e20546865206b6579206e6565"
                + "647320746f20626520686173686564206265666f7265206265696e6720757365"
                + "642062792074686520484d414320616c676f726974686d2e",
            code: "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2"
        ),
        Vector(
            .sha512,
            key: "0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b",
            message: "4869205468657265",
            code: "87aa7cdea5ef619d4ff0b4241a1d6cb02379f4e2ce4ec2787ad0b30545e17cde"
                + "daa833b7d6b8a702038b274eaea3f4e4be9d914eeb61f1702e696c203a126854"
        ),
        Vector(
            .sha512,
            key: "4a656665",
            message: "7768617420646f2079612077616e7420666f72206e6f7468696e673f",
            code: "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea250554"
                + "9758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737"
        ),
        Vector(
            .sha512,
            key: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            message: String(repeating: "dd", count: 50),
            code: "fa73b0089d56a284efb0f0756c890be9b1b5dbdd8ee81a3655f83e33b2279d39"
                + "bf3e848279a722c806b485a47e67c807b946a337bee8942674278859e13292fb"
        ),
        Vector(
            .sha512,
            key: "0102030405060708090a0b0c0d0e0f10111213141516171819",
            message: String(repeating: "cd", count: 50),
            code: "b0ba465637458c6990e5a8c5f61d4af7e576d97ff94b872de76f8050361ee3db"
                + "a91ca5c11aa25eb4d679275cc5788063a5f19741120c4f2de2adebeb10a298dd"
        ),
        Vector(
            .sha512,
            key: String(repeating: "aa", count: 131),
            message: "54657374205573696e67204c6172676572205468616e20426c6f636b2d53697a"
                + "65204b6579202d2048617368204b6579204669727374",
            code: "80b24263c7c1a3ebb71493c1dd7be8b49b46d1f41b4aeec1121b013783f8f352"
                + "6b56d037e05f2598bd0fd2215d6a1e5295e64f73f63f0aec8b915a985d786598"
        ),
        Vector(
            .sha512,
            key: String(repeating: "aa", count: 131),
            message: "5468697320697320612074657374207573696e672061206c6172676572207468"
                + "616e20626c6f636b2d73697a65206b657920616e642061206c61726765722074"
                + "68616e20626c6f636b2d73697a6520646174612e20546865206b6579206e6565"
                + "647320746f20626520686173686564206265666f7265206265696e6720757365"
                + "642062792074686520484d414320616c676f726974686d2e",
            code: "e37b6a775dc87dbaa4dfa9f96e5e3ffddebd71f8867289865df5a32d20cdc944"
                + "b6022cac3c4982b10d5eeb55c3e4de15134676fb6de0446065c97440fa8c6a58"
        ),
    ]
}
