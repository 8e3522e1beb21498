import Bytes
import Testing

@testable import ObjectStore

/// The files are the smallest that encoders of these formats produce.
@Suite("Image headers", .timeLimit(.minutes(10)))
struct ImageHeaderTests {
    struct Row: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let bytes: [UInt8]
        let format: String
        let width: Int
        let height: Int

        init(_ what: String, _ base64: String, _ format: String, _ width: Int, _ height: Int) throws {
            testDescription = what
            bytes = try #require(Base64.decode(base64))
            (self.format, self.width, self.height) = (format, width, height)
        }
    }

    static func rows() throws -> [Row] {
        [
            try Row(
                "PNG",
                "iVBORw0KGgoAAAANSUhEUgAAASwAAAACAQAAAADK19wqAAAADElEQVR4nGNgoCYAAABOAAHWZzc3AAAAAElFTkSuQmCC",
                "png",
                300,
                2
            ),
            try Row(
                "GIF",
                "R0lGODdhAwACAYEAAAAAAAAAAAAAAAAAACwAAAAAAwACAQAILwABCBxIsKDBgwgTKlzIsKHDhxAjSpxIsaLFixgzatzIsaPH"
                    + "jyBDihxJsqTJkAEBADs=",
                "gif",
                3,
                258
            ),
            try Row(
                "BMP",
                "Qk1KAAAAAAAAAD4AAAAoAAAABQAAAAMAAAABAAEAAAAAAAwAAADEDgAAxA4AAAIAAAACAAAAAAAAAP///wAAAAAAAAAAAAAA"
                    + "AAA=",
                "bmp",
                5,
                3
            ),
            try Row(
                "JPEG",
                "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAP//////////////////////////////////////////////////////////////"
                    + "////////////////////////wAALCAAJABABAREA/8QAHwAAAQUBAQEBAQEAAAAAAAAAAAECAwQFBgcICQoL/8QAtRAAAgED"
                    + "AwIEAwUFBAQAAAF9AQIDAAQRBRIhMUEGE1FhByJxFDKBkaEII0KxwRVS0fAkM2JyggkKFhcYGRolJicoKSo0NTY3ODk6Q0RF"
                    + "RkdISUpTVFVWV1hZWmNkZWZnaGlqc3R1dnd4eXqDhIWGh4iJipKTlJWWl5iZmqKjpKWmp6ipqrKztLW2t7i5usLDxMXGx8jJ"
                    + "ytLT1NXW19jZ2uHi4+Tl5ufo6erx8vP09fb3+Pn6/9oACAEBAAA/AI6KKK//2Q==",
                "jpg",
                16,
                9
            ),
            try Row(
                "JPEG, progressive, with a comment",
                "/9j/4AAQSkZJRgABAQAAAQABAAD//gAU/8D/wP/A/8D/wP/A/8D/wP/A/9sAQwD/////////////////////////////////"
                    + "/////////////////////////////////////////////////////8IACwgAAQEDAQERAP/EABUAAQEAAAAAAAAAAAAAAAAA"
                    + "AAAC/9oACAEBAAAAAZAAAAAP/8QAFBABAAAAAAAAAAAAAAAAAAAAUP/aAAgBAQABBQIH/8QAFBABAAAAAAAAAAAAAAAAAAAA"
                    + "UP/aAAgBAQAGPwIH/8QAFBABAAAAAAAAAAAAAAAAAAAAUP/aAAgBAQABPyEH/9oACAEBAAAAEAAAAAB//8QAFBABAAAAAAAA"
                    + "AAAAAAAAAAAAUP/aAAgBAQABPxAH/9k=",
                "jpg",
                259,
                1
            ),
            try Row(
                "WebP with losses",
                "UklGRjAAAABXRUJQVlA4ICQAAACwAgCdASoRAAUAP83W4mY/tK4nMAgD8DmJaQAAeyAA/undAAA=",
                "webp",
                17,
                5
            ),
            try Row(
                "WebP without losses",
                "UklGRhoAAABXRUJQVlA4TA4AAAAvK8EAAAcQEf0PRET/Aw==",
                "webp",
                300,
                4
            ),
            try Row(
                "WebP, extended",
                "UklGRj4AAABXRUJQVlA4WAoAAAAYAAAAAQAAAgEAVlA4TBMAAAAvAYBAEAcQEREAEsL/9WJE/8MAAEVYSUYEAAAAYWJjZA==",
                "webp",
                2,
                259
            ),
        ]
    }

    @Test("format and size are found, and only if enough bytes are given", arguments: try rows())
    func found(_ row: Row) throws {
        let image = try #require(ImageHeader(row.bytes))
        #expect(image.format == row.format && image.width == row.width && image.height == row.height)
        for count in 0..<row.bytes.count {
            let part = ImageHeader(Array(row.bytes.prefix(count)))
            #expect(part == nil || part == image, "\(count) bytes")
        }
    }

    @Test("files that are not images", arguments: ["", "hello", "GIF90a0000", "RIFF0000WAVEfmt ", "BM", "\u{89}PNG"])
    func none(_ text: String) {
        #expect(ImageHeader(Array(text.utf8)) == nil)
    }

    @Test("a JPEG with invalid lengths is rejected")
    func broken() {
        #expect(ImageHeader([0xFF, 0xD8, 0xFF, 0xE0, 0, 0, 0, 0, 0, 0]) == nil)
        #expect(ImageHeader([0xFF, 0xD8, 0xFF, 0xE0, 0xFF, 0xFF, 0, 0]) == nil)
        #expect(ImageHeader([0xFF, 0xD8] + [UInt8](repeating: 0xFF, count: 1000)) == nil)
    }
}
