import CloudCalls
import Testing

@testable import TencentVOD

@Suite("Playlists that an app's server uploads", .timeLimit(.minutes(10)))
struct StreamingManifestTests {
    private func files(_ lines: String...) throws -> [String] {
        try StreamingManifest("#EXTM3U\n" + lines.joined(separator: "\n")).files
    }

    @Test("the files of a playlist are its lines, and those that its tags name, each once")
    func names() throws {
        let playlist = try files(
            "#EXT-X-VERSION:7",
            "#EXT-X-TARGETDURATION:10",
            #"#EXT-X-MAP:BYTERANGE="720@0",URI="init.mp4""#,
            #"#EXT-X-KEY:METHOD=AES-128,URI="enc.key",IV=0x1"#,
            "#EXTINF:9.009, a title, with URI=\"no.ts\"",
            "a.ts",
            "#EXT-X-BYTERANGE:10@0",
            "big file.m4s",
            "",
            "#EXT-X-BYTERANGE:10@10",
            "big file.m4s",
            "  sub/../b.ts\t",
            "./c.ts?token=1#x",
            "# a comment: d.ts",
            "12:30.ts",
            "#EXT-X-ENDLIST"
        )
        #expect(
            playlist == ["init.mp4", "enc.key", "a.ts", "big file.m4s", "sub/../b.ts", "./c.ts", "12:30.ts"]
        )
        let main = try files(
            #"#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="a,URI=x",NAME="N",URI="audio/a.m3u8""#,
            #"#EXT-X-MEDIA:TYPE=CLOSED-CAPTIONS,GROUP-ID="c",NAME="N",INSTREAM-ID="CC1""#,
            #"#EXT-X-I-FRAME-STREAM-INF:BANDWIDTH=1,URI="i.m3u8""#,
            "#EXT-X-STREAM-INF:BANDWIDTH=200000",
            "gear1/prog_index.m3u8",
            "#EXT-X-STREAM-INF:BANDWIDTH=311111",
            "gear1/prog_index.m3u8"
        )
        #expect(main == ["audio/a.m3u8", "i.m3u8", "gear1/prog_index.m3u8"])
    }

    @Test("line ends and a byte order mark are those of any system")
    func lines() throws {
        #expect(try StreamingManifest("\u{FEFF}#EXTM3U\r\n#EXTINF:1,\r\na.ts\r\nb.ts").files == ["a.ts", "b.ts"])
        #expect(try StreamingManifest("\n#EXTM3U\n").files.isEmpty)
        for text in ["", "\n", "a.ts", "#EXTINF:1,\na.ts", "<MPD/>"] {
            #expect(throws: StreamingManifest.Problem.self, "\(text)") { try StreamingManifest(text) }
        }
    }

    @Test(
        "a file elsewhere is refused",
        arguments: [
            "https://cdn.example/a.ts", "//cdn.example/a.ts", "/a.ts", "../a.ts", "a/../../b.ts", "..", "./", "a/..",
            #"C:\a.ts"#, #"\a.ts"#, #"..\a.ts"#, "file:a.ts", "data:video/mp4;base64,AAAA", "?x=1",
            #"#EXT-X-MAP:URI="https://cdn.example/init.mp4""#, #"#EXT-X-MEDIA:TYPE=AUDIO,URI="../a.m3u8""#,
        ]
    )
    func elsewhere(_ line: String) {
        #expect(throws: StreamingManifest.Problem.self) { try files("#EXTINF:1,", line) }
    }

    @Test("keys of another server are not uploaded")
    func keys() throws {
        let found = try files(
            #"#EXT-X-KEY:METHOD=AES-128,URI="https://keys.example/1""#,
            #"#EXT-X-KEY:METHOD=SAMPLE-AES,URI="skd://1",KEYFORMAT="com.apple.streamingkeydelivery""#,
            #"#EXT-X-SESSION-KEY:METHOD=AES-128,URI="/keys/1""#,
            "#EXT-X-KEY:METHOD=NONE",
            "a.ts"
        )
        #expect(found == ["a.ts"])
    }

    @Test("parameters of the call")
    func parameters() throws {
        func code(_ json: String) -> String? {
            do throws(VODError) {
                var parameters = try VODParameters(json: Array(json.utf8))
                _ = try parameters.streamingManifest()
                return nil
            } catch {
                return error.callFailure?.code
            }
        }
        let content = ##""MediaManifestContent": "#EXTM3U\n#EXTINF:1,\na.ts""##
        #expect(code("{\(content)}") == nil)
        #expect(code(#"{\#(content), "ManifestType": "M3U8"}"#) == nil)
        #expect(code(#"{\#(content), "ManifestType": "mpd"}"#) == "InvalidParameterValue.ManifestType")
        #expect(code(#"{"ManifestType": "m3u8"}"#) == "MissingParameter")
        #expect(code(#"{"MediaManifestContent": "a.ts"}"#) == "InvalidParameterValue.MediaManifestContent")
        #expect(code(#"{\#(content), "FileId": "1"}"#) == "UnknownParameter")
    }
}
