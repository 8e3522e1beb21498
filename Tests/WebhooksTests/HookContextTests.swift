import Testing
import UploadModel

@testable import Webhooks

@Suite("Header fields in hooks", .timeLimit(.minutes(10)))
struct HookContextTests {
    private static func field(_ name: String, _ size: Int) -> RequestInfo.Field {
        RequestInfo.Field(name: name, value: String(repeating: "x", count: size - name.utf8.count))
    }

    @Test("fields keep their order, and only large ones are left out")
    func bounded() {
        let small = (0..<10).map { Self.field("X-Small-\($0)", 160) }
        #expect(HookContext.bounded(small) == small)
        let sized = [Self.field("X-Fits", 4096), Self.field("X-Long", 4097), Self.field("X-Short", 20)]
        #expect(HookContext.bounded(sized).map(\.name) == ["X-Fits", "X-Short"])
    }

    @Test("padding takes the place of no field of up to 160 bytes", arguments: [10, 100, 161, 300, 655, 4096, 5000])
    func padding(_ size: Int) {
        let padding = (0..<99).map { Self.field("X-Pad-\($0)", size) }
        for fields in [padding + [Self.field("X-User", 160)], [Self.field("X-User", 160)] + padding] {
            let kept = HookContext.bounded(fields)
            #expect(kept.contains { $0.name == "X-User" })
            #expect(kept.reduce(0) { $0 + $1.name.utf8.count + $1.value.utf8.count } <= 16 << 10)
        }
    }

    @Test("what a client chose is counted as it is in JSON")
    func escapes() {
        let wide = RequestInfo.Field(name: "X-Wide", value: String(repeating: "\\", count: 2100))
        #expect(HookContext.bounded([wide, Self.field("X-Fits", 4096)]).map(\.name) == ["X-Fits"])
        #expect(HookContext.cut("/files?a=\"") == "/files?a=\"")
        #expect(HookContext.cut(String(repeating: "/", count: 4096)).count == 4096)
        #expect(HookContext.cut(String(repeating: "/", count: 5000)).count == 4096)
        #expect(HookContext.cut(String(repeating: "\\", count: 5000)).count == 2048)
    }
}
