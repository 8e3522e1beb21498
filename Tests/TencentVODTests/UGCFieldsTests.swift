import Foundation
import HTTPWire
import Testing

@testable import TencentVOD

@Suite("Members of calls of Tencent VOD's SDKs", .timeLimit(.minutes(10)))
struct UGCFieldsTests {
    private func file(_ json: String, _ prefix: String = "video") throws -> VODNewFile? {
        try VODNewFile(UGCFields(json: Array(json.utf8)), prefix)
    }

    @Test("names are compared without regard to case")
    func names() throws {
        let wanted = VODNewFile(name: "v", type: "mp4", size: 3)
        #expect(try file(#"{"videoName":"v","videoType":"mp4","videoSize":3}"#) == wanted)
        #expect(try file(#"{"VideoName":"v","VideoType":"mp4","VideoSize":3}"#) == wanted)
        #expect(try file(#"{"Covername":"v","CoverType":"mp4","CoverSize":3}"#, "cover") == wanted)
        #expect(throws: VODError.self) { try file(#"{"videoName":"v","VideoName":"v","videoType":"mp4"}"#) }
    }

    @Test("a file without name has no size either; null and empty texts count as missing")
    func missing() throws {
        #expect(try file("{}") == nil)
        #expect(try file(#"{"videoName":null,"videoType":"","videoSize":null}"#) == nil)
        #expect(try file(#"{"videoType":"mp4"}"#) == VODNewFile(name: "", type: "mp4", size: nil))
        #expect(throws: VODError.self) { try file(#"{"videoSize":3}"#) }
        #expect(throws: VODError.self) { try file(#"{"videoName":"v"}"#) }
    }

    @Test(
        "sizes are positive integers",
        arguments: ["0", "-1", "1.5", #""3""#, "[]", "{}", "true", "1e400", "9223372036854775808"]
    )
    func sizes(size: String) {
        #expect(throws: VODError.self) { try file(#"{"videoType":"mp4","videoSize":\#(size)}"#) }
    }

    @Test(
        "the SDK for iOS is known by what its calls have",
        arguments: [
            (["User-Agent": "Film/1 CFNetwork/1494.0.7 Darwin/23.4.0"], true),
            (["User-Agent": "Film/3 (iPhone; iOS 17)"], true),
            ([:], true), (["User-Agent": "curl/8", "originalBody": "{}"], true),
            (["User-Agent": "okhttp/3.12.6"], false), (["User-Agent": "Mozilla/5.0 (X11; Linux x86_64)"], false),
            (["User-Agent": "python-requests/2"], false),
        ] as [(HTTPFields, Bool)]
    )
    func iOS(_ fields: HTTPFields, _ isIOS: Bool) {
        #expect(UGCHandler.isIOS(fields) == isIOS)
    }

    @Test("ids have 19 digits and are in the order of time")
    func ids() throws {
        let start = Date(timeIntervalSince1970: 1_750_000_000)
        let ids = (0..<100).map { VODUploads.newID(at: start.addingTimeInterval(Double($0))) }
        #expect(ids == ids.sorted() && Set(ids).count == 100)
        for time in [Date.distantPast, .distantFuture, start] {
            let id = VODUploads.newID(at: time)
            #expect(id.count == 19 && UInt64(id) != nil && id.first != "0")
        }
    }
}
