import Foundation
import Testing
import UploadModel

@Suite("Patterns of media types", .timeLimit(.minutes(10)))
struct MediaTypePatternTests {
    @Test("a type is compared without its parameters; a list is no type")
    func types() {
        let expected: [(String?, String?)] = [
            (nil, nil), ("", nil), ("image", nil), ("image/", nil), ("a/b/c", nil), ("image/PNG", "image/png"),
            (" image/png ; x=1", "image/png"), (#"video/mp4; codecs="avc1, mp4a""#, "video/mp4"),
            (#"video/mp4; a="\", b""#, "video/mp4"), ("image/png, text/html", nil), ("image/png;x=1, text/html", nil),
            (#"image/png;x="1", text/html"#, nil), (#"image/png;x="\\", text/html"#, nil),
            // The kelvin sign is no K, and the Greek question mark no semicolon.
            ("video/x-matros\u{212A}a", nil), ("video/mp4\u{37E}x=1", nil), ("video/mp4\u{301}", nil),
            ("vide\u{F6}/mp4", nil), ("video/mp4 x", nil), ("\u{A0}video/mp4", nil), ("video/mp4\r", nil),
        ]
        for (text, essence) in expected { #expect(MediaTypePattern.essence(of: text) == essence, "\(text ?? "none")") }
        #expect(throws: UploadError.self) {
            try MediaTypePattern.check("image/png;x=1, text/html", against: ["image/*"])
        }
        #expect(throws: Never.self) { try MediaTypePattern.check("image/png;x=1", against: ["image/*"]) }
        #expect(throws: Never.self) { try MediaTypePattern.check("video/X-Matroska", against: ["video/x-matrosKa"]) }
    }

    @Test("a policy is read back as it was written; what an earlier version did not write is no limit")
    func policies() throws {
        var policy = Policy()
        (policy.storedBytes, policy.periodBytes, policy.openUploads, policy.periodUploads) = (1, 2, 3, 4)
        (policy.uploadBytes, policy.contentTypes, policy.extensions, policy.checksContent) = (5, ["a/*"], ["b"], true)
        #expect(try JSONDecoder().decode(Policy.self, from: JSONEncoder().encode(policy)) == policy)
        #expect(try JSONDecoder().decode(Policy.self, from: Data("{}".utf8)).isEmpty)
    }

    @Test("a policy with endings wants a name that has one of them")
    func extensions() {
        var policy = Policy()
        policy.extensions = ["mp4", "mov"]
        for (name, isAllowed) in [
            ("a.mp4", true), ("a.b.MOV", true), ("mp4", false), ("a.mp4.exe", false), ("a.", false), (nil, false),
        ] as [(String?, Bool)] {
            let metadata = UploadMetadata(values: name.map { ["filename": $0] } ?? [:])
            if isAllowed {
                #expect(throws: Never.self) { try policy.check(metadata) }
            } else {
                #expect(throws: UploadError.self, "\(name ?? "none")") { try policy.check(metadata) }
            }
        }
    }

    @Test("each file name of an object has one of the endings")
    func fileNames() {
        var policy = Policy()
        #expect(throws: Never.self) { try policy.check(fileNames: nil) }
        policy.extensions = ["png"]
        for names in [[], ["a.png"], ["a.PNG", "b.png"]] {
            #expect(throws: Never.self) { try policy.check(fileNames: names) }
        }
        for names in [nil, ["a.exe"], ["a.png", "b"], ["a.png", "b.exe"]] as [[String]?] {
            #expect(throws: UploadError.self) { try policy.check(fileNames: names) }
        }
    }
}
