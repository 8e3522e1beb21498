import Administration
import Gateway
import GatewayKit
import SettingsKit
import Testing
import UploadCore

@Suite("settings that change while the gateway runs", .timeLimit(.minutes(10)))
struct SettingsReloadTests {
    private func load(_ environment: [String: String]) throws -> LoadedSettings {
        try GatewaySettings.catalog.load(environment: environment)
    }

    @Test("each live key is a setting, and none is what was bound or opened at the start")
    func keys() {
        let all = Set(GatewaySettings.catalog.settings.map(\.key))
        #expect(GatewaySettings.liveKeys.subtracting(all).isEmpty)
        #expect(GatewaySettings.liveKeys.isDisjoint(with: ["gateway.listen", "dataDir", "storage", "database.url"]))
    }

    @Test("changes are those of the effective values, in the order of the documentation")
    func changes() throws {
        let old = try load(["SLUICE_LOG_LEVEL": "info", "SLUICE_LIMITS_KEY_UPLOADS": "7"])
        let new = try load(["SLUICE_LIMITS_KEY_UPLOADS": "8", "SLUICE_CORS_ORIGINS": "https://a.example"])
        #expect(new.changes(from: old.values) == ["limits.key.uploads", "cors.origins"])
        #expect(new.changes(from: new.values).isEmpty)
    }

    @Test("a secret that changes or disappears is a change")
    func secrets() throws {
        let secret = "whsec_" + String(repeating: "A", count: 44)
        let old = try load(["SLUICE_HOOKS_SECRET": secret])
        #expect(try load([:]).changes(from: old.values) == ["hooks.secret"])
        let replaced = try load([:]).replacing(["hooks.secret"], in: old.values)
        #expect(try load([:]).changes(from: replaced).isEmpty)
    }

    @Test("only named settings are replaced")
    func replacing() throws {
        let old = try load(["SLUICE_LIMITS_KEY_UPLOADS": "7", "SLUICE_LIMITS_BODY_BYTES": "2MiB"])
        let new = try load(["SLUICE_LIMITS_KEY_UPLOADS": "8"])
        let mixed = new.replacing(["limits.key.uploads"], in: old.values)
        #expect(mixed.limits.key.uploads == 8 && mixed.limits.bodyBytes == 2 << 20)
        #expect(new.changes(from: mixed) == ["limits.bodyBytes"])
    }
}

@Suite("lists of uploads", .timeLimit(.minutes(10)))
struct UploadListTests {
    private func upload(_ id: String, _ offset: Int64) -> ListedUpload {
        ListedUpload(id: id, dialect: "tus", state: "open", offset: offset, createdAt: "", updatedAt: "")
    }

    @Test("rates are those since the look before; what was idle for long is last")
    func rates() {
        var progress = UploadProgress()
        let start = ContinuousClock.now
        let first = progress.look(at: [upload("a", 0), upload("b", 10), upload("c", 5)], start)
        #expect(first.allSatisfy { $0.rate == nil && $0.idle == .zero })
        _ = progress.look(at: [upload("a", 100), upload("b", 10), upload("c", 6)], start + .seconds(1))
        let third = progress.look(at: [upload("a", 300), upload("b", 10), upload("c", 6)], start + .seconds(3))
        #expect(third.map(\.upload.id) == ["a", "b", "c"])
        #expect(third.map(\.rate) == [100, 0, 0])
        #expect(third.map(\.idle) == [.zero, .seconds(3), .seconds(2)])
    }

    @Test("an offset that falls is no progress, and a new upload has no rate")
    func falling() {
        var progress = UploadProgress()
        let start = ContinuousClock.now
        _ = progress.look(at: [upload("a", 100)], start)
        let rows = progress.look(at: [upload("a", 50), upload("new", 7)], start + .seconds(2))
        #expect(rows.map(\.rate) == [0, nil])
        #expect(rows.map(\.idle) == [.seconds(2), .zero])
    }

    @Test(
        "bytes have one decimal at most, cut off",
        arguments: [
            (0, "0B"), (1023, "1023B"), (1024, "1KiB"), (1536, "1.5KiB"), (1_048_575, "1023.9KiB"), (1 << 40, "1TiB"),
            (Int64.max, "8EiB"),
        ] as [(Int64, String)]
    )
    func bytes(count: Int64, text: String) {
        #expect(TextTable.bytes(count) == text)
    }

    @Test("columns are aligned, and no text controls the terminal")
    func table() {
        let text = TextTable.text([["ID", "NAME"], ["1", "a\u{1B}[2Jb\u{202E}"], ["long", ""]])
        #expect(text == "ID    NAME\n1     a\\u001b[2Jb\\u202e\nlong")
    }
}
