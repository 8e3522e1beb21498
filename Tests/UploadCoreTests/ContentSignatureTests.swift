import Testing

@testable import UploadCore
@testable import UploadModel

@Suite("Content signatures", .timeLimit(.minutes(10)))
struct ContentSignatureTests {
    private static let files: [(String, [UInt8])] = [
        ("image/png", [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]), ("image/jpeg", [0xFF, 0xD8, 0xFF, 0xE0]),
        ("image/gif", Array("GIF89a".utf8)), ("image/webp", Array("RIFF\u{1}\u{2}\u{3}\u{4}WEBPVP8 ".utf8)),
        ("image/avif", [0, 0, 0, 28] + Array("ftypavif".utf8)), ("image/heic", [0, 0, 0, 24] + Array("ftypheic".utf8)),
        ("video/mp4", [0, 0, 0, 24] + Array("ftypisom".utf8)),
        ("video/quicktime", [0, 0, 0, 20] + Array("ftypqt  ".utf8)),
        ("video/webm", [0x1A, 0x45, 0xDF, 0xA3, 0x9F]), ("audio/wav", Array("RIFF\u{1}\u{2}\u{3}\u{4}WAVEfmt ".utf8)),
        ("audio/mpeg", Array("ID3".utf8) + [4]), ("audio/flac", Array("fLaC".utf8)), ("audio/ogg", Array("OggS".utf8)),
        ("application/pdf", Array("%PDF-1.7".utf8)), ("application/zip", [0x50, 0x4B, 0x03, 0x04]),
        (
            "video/mp2t",
            (0..<564).map { $0 % 188 == 0 ? 0x47 : 0xFF }
        ),
    ]

    @Test("known files are recognised", arguments: files)
    func known(type: String, content: [UInt8]) throws {
        #expect(ContentSignature.types(of: content[...]).contains(type))
        try ContentSignature.check(content[...], declared: type, allowed: [type])
        // The index of the first byte does not matter.
        #expect(ContentSignature.types(of: ([1, 2] + content).dropFirst(2)).contains(type))
    }

    @Test("a truncated file is not recognised by what might follow", arguments: files)
    func short(type: String, content: [UInt8]) {
        #expect(!ContentSignature.types(of: content.prefix(2)).contains(type))
    }

    @Test("the content must match the declared type if it can be recognised")
    func declared() throws {
        let png = Self.files[0].1[...]
        let zip = Self.files[14].1[...]
        let text = Array("plain text".utf8)[...]
        let word = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
        try ContentSignature.check(png, declared: "IMAGE/PNG; a=b", allowed: [])
        try ContentSignature.check(text, declared: "text/plain", allowed: ["text/*"])
        try ContentSignature.check(text, declared: nil, allowed: [])
        try ContentSignature.check(zip, declared: word, allowed: [word])
        // A type without a signature may have any content, if all types are allowed.
        try ContentSignature.check(png, declared: "application/x-own", allowed: [])
        func isRefused(_ content: ArraySlice<UInt8>, _ declared: String?, _ allowed: [String]) -> Bool {
            do throws(UploadError) {
                try ContentSignature.check(content, declared: declared, allowed: allowed)
                return false
            } catch {
                return error.code == .contentTypeRefused
            }
        }
        #expect(isRefused(png, "image/jpeg", []))
        #expect(isRefused(text, "image/png", []))
        #expect(isRefused([], "image/png", []))
        #expect(isRefused(png, "text/plain", ["text/*"]))
        #expect(isRefused(png, nil, ["video/*"]))
        #expect(isRefused(zip, "application/zip", ["image/*"]))
    }
}
