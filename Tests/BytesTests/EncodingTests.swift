import Bytes
import Foundation
import Testing

@Suite("base64 and hexadecimal", .timeLimit(.minutes(10)))
struct EncodingTests {
    @Test(
        "the vectors of RFC 4648 §10 encode and decode",
        arguments: [
            ("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ]
    )
    func vectors(plain: String, encoded: String) {
        #expect(Base64.encode(plain.utf8) == encoded)
        #expect(Base64.decode(encoded) == Array(plain.utf8))
        #expect(Base64.decodeURLSafe(Base64.encodeURLSafe(plain.utf8)) == Array(plain.utf8))
    }

    @Test("every length and every byte is encoded as in Foundation")
    func everyByte() {
        for length in 0...260 {
            let bytes = (0..<length).map { UInt8(truncatingIfNeeded: $0 &* 7 &+ length) }
            #expect(Base64.encode(bytes) == Data(bytes).base64EncodedString())
            #expect(Base64.encode(bytes[...]) == Data(bytes).base64EncodedString())
            let urlSafe = Data(bytes).base64EncodedString()
                .replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
            #expect(Base64.encodeURLSafe(bytes) == urlSafe)
            #expect(Base64.encodeURLSafe(bytes[...]) == urlSafe)
        }
    }

    @Test(
        "text that is not canonical base64 is refused",
        arguments: ["Zg", "Zg=", "xZg==", "Zm9v\n", "Zm-v", "Zh==", "===="]
    )
    func refused(text: String) {
        #expect(Base64.decode(text) == nil)
    }

    @Test("text that is not canonical URL-safe base64 is refused", arguments: ["Zg==", "Zm+v", "Zm/v", "Z", "Zh"])
    func refusedURLSafe(text: String) {
        #expect(Base64.decodeURLSafe(text) == nil)
    }

    @Test("a number is written in decimal", arguments: [0, 1, -1, 9, 10, 1_234_567_890, .max, .min, -100] as [Int64])
    func decimal(number: Int64) {
        var bytes = Array("x".utf8)
        bytes.append(decimal: number)
        #expect(String(decoding: bytes, as: UTF8.self) == "x\(number)")
    }

    @Test("hexadecimal encodes and decodes, and an odd length or other characters are refused")
    func hexadecimal() {
        #expect(Hexadecimal.encode([0, 15, 16, 255] as [UInt8]) == "000f10ff")
        #expect(Hexadecimal.decode("000F10ff") == [0, 15, 16, 255])
        #expect(Hexadecimal.decode("0") == nil)
        #expect(Hexadecimal.decode("0g") == nil)
        #expect(Hexadecimal.decode("x00g0".dropFirst()) == nil && Hexadecimal.decode("x00f0".dropFirst()) == [0, 0xF0])
        #expect(Hexadecimal.encode(sequence(first: UInt8(1)) { $0 < 3 ? $0 + 1 : nil }) == "010203")
        #expect(Hexadecimal.encode([]) == "" && Hexadecimal.decode("") == [])
    }

    @Test("a source in memory returns its bytes in pieces and then ends")
    func arraySource() async throws {
        let source = ArraySource([1, 2, 3, 4, 5])
        #expect(source.remaining == 5)
        #expect(try await source.next(maximum: 2) == [1, 2])
        #expect(source.remaining == 3)
        #expect(try await source.collect(limit: 3) == [3, 4, 5])
        #expect(try await source.next(maximum: 1) == nil)
    }

    @Test("collecting more than the limit is refused")
    func collectLimit() async {
        await #expect(throws: SourceFailure.tooLarge(limit: 4)) {
            try await ArraySource([1, 2, 3, 4, 5]).collect(limit: 4)
        }
    }
}
