import Bytes
import Forms
import HTTPWire
import SluiceTesting
import Testing
import UploadCore
import UploadModel

@Suite("Files from a form", .timeLimit(.minutes(10)))
struct FormHandlerTests {
    typealias Bench = FormBench

    @Test("each file becomes media, with the text fields before it")
    func storesFiles() async throws {
        let bench = Bench()
        let form =
            Bench.text("title", "Holiday") + Bench.file("clip", "a.mp4", "first", type: "video/mp4")
            + Bench.text("note", "x\r\n--y") + Bench.text("title", "Work") + Bench.file("clip", "b.txt", "")
            + Bench.text("last", "1") + Bench.end
        let outcome = await bench.send([.text(form)])
        #expect(outcome.failures.isEmpty)
        try #require(outcome.media.count == 2)
        #expect(outcome.media.map(\.field) == ["clip", "clip"])
        let (first, second) = (outcome.media[0].media, outcome.media[1].media)
        #expect(first.metadata == ["title": "Holiday", "filename": "a.mp4", "filetype": "video/mp4"])
        #expect((first.filename, first.contentType, first.subject) == ("a.mp4", "video/mp4", "alice"))
        #expect(second.metadata == ["title": "Work", "note": "x\r\n--y", "filename": "b.txt"])
        #expect(second.size == 0)
        #expect(try await bench.contents(first) == "first")
        #expect(outcome.fields.map(\.name) == ["title", "note", "last"])
        #expect(outcome.fields.map(\.value) == ["Work", "x\r\n--y", "1"])
        #expect(try await bench.services.uploads.inspect(first.id).dialect == "form")
    }

    @Test("the result does not depend on how the content is split")
    func readsAnyCut() async throws {
        let form = Array((Bench.text("a", "1") + Bench.file("f", "x", "12\r\n--34") + Bench.end).utf8)
        for size in [1, 2, 3, 7, 50] {
            let bench = Bench()
            let pieces = stride(from: 0, to: form.count, by: size).map {
                ScriptedSource.Step.bytes(Array(form[$0..<min($0 + size, form.count)]))
            }
            let outcome = await bench.send(pieces)
            let media = try #require(outcome.media.first?.media)
            #expect(try await bench.contents(media) == "12\r\n--34")
            #expect(media.metadata["a"] == "1")
        }
    }

    @Test("an input without a file is ignored, and a form without any file is refused")
    func passesOverEmptyInputs() async throws {
        let bench = Bench()
        let empty = Bench.file("f", "", "", type: "application/octet-stream")
        let outcome = await bench.send([.text(empty + Bench.file("f", "x", "1") + empty + Bench.end)])
        #expect(outcome.media.count == 1)
        #expect(outcome.failures.isEmpty)
        for form in [empty + Bench.end, Bench.text("a", "1") + Bench.end, Bench.end] {
            let refused = await bench.send([.text(form)])
            #expect(refused.failures.map(\.error.code) == [.invalidRequest])
        }
        #expect(try await bench.uploads(.completed) == 1)
    }

    @Test("content without a file name becomes a file without a name")
    func storesUnnamed() async throws {
        let bench = Bench()
        let outcome = await bench.send([.text(Bench.file("f", "", "abc") + Bench.end)])
        let media = try #require(outcome.media.first?.media)
        #expect(media.filename == nil)
        #expect(try await bench.contents(media) == "abc")
    }

    // MARK: Credentials

    @Test("a token in the form counts if it precedes the first file, and is not passed on")
    func takesTokens() async throws {
        let bench = Bench()
        let file = Bench.file("f", "x", "1")
        let good = await bench.send([.text(Bench.text("token", "slg_good") + file + Bench.end)], authorization: nil)
        #expect(good.media.count == 1)
        #expect(good.media[0].media.metadata == ["filename": "x"])
        #expect(good.fields.isEmpty)
        let refused = [
            file + Bench.end, file + Bench.text("token", "slg_good") + Bench.end,
            Bench.text("token", "slg_bad") + file + Bench.end, Bench.text("token", "slk_good") + file + Bench.end,
            Bench.text("token", "") + file + Bench.end, Bench.text("a", "1") + Bench.end,
        ]
        for form in refused {
            let outcome = await bench.send([.text(form)], authorization: nil)
            #expect(outcome.failures.map(\.error.code) == [.unauthenticated])
            #expect(outcome.media.isEmpty)
        }
        // The header takes precedence, and a refusal reads no content.
        let source = Bench.text("token", "slg_good") + file + Bench.end
        let bad = await bench.send([.text(source)], authorization: "Bearer bad")
        #expect(bad.failures.map(\.error.code) == [.unauthenticated])
        let both = await bench.send([.text(Bench.text("token", "slg_bad") + file + Bench.end)])
        #expect(both.media.count == 1)
        #expect(both.fields.isEmpty)
    }

    @Test("a one-time grant admits one file")
    func admitsOne() async throws {
        let bench = Bench(isOneTime: true)
        let form = Bench.file("a", "1", "1") + Bench.file("b", "2", "2") + Bench.file("c", "3", "3") + Bench.end
        let outcome = await bench.send([.text(form)])
        #expect(outcome.media.map(\.field) == ["a"])
        #expect(outcome.failures.map(\.error.code) == [.grantUsed, .grantUsed])
        #expect(outcome.failures.map(\.filename) == ["2", "3"])
    }

    @Test("a form has so many files at most; the first ones are stored, and nothing is read after them")
    func mostFiles() async throws {
        var bench = Bench(contentTypes: ["video/*"])
        bench.limits.maximumFiles = 3
        func files(_ types: [String]) -> String {
            types.enumerated().map { Bench.file("f\($0)", "\($0)", "x", type: $1) }.joined() + Bench.end
        }
        // One that is refused counts, too.
        let outcome = await bench.send([.text(files(["video/a", "text/html", "video/a", "video/a", "video/a"]))])
        #expect(outcome.media.map(\.field) == ["f0", "f2"])
        #expect(outcome.failures.map(\.field) == ["f1", "f3"])
        #expect(outcome.failures.last?.error.code == .tooLarge(limit: 3))
        let whole = await bench.send([.text(files(["video/a", "video/a", "video/a"]))])
        #expect(whole.media.count == 3 && whole.failures.isEmpty)
    }

    // MARK: Failures

    @Test("a refused file does not affect the others")
    func goesOnAfterRefusals() async throws {
        let bench = Bench(maximumBytes: 10, contentTypes: ["video/*"])
        let form =
            Bench.file("a", "1", "1", type: "video/mp4") + Bench.file("b", "2", "2", type: "text/html")
            + Bench.file("c", "3", String(repeating: "x", count: 5000), type: "video/mp4")
            + Bench.file("d", "4", "4", type: "video/mp4") + Bench.end
        let outcome = await bench.send([.text(form)])
        #expect(outcome.media.map(\.field) == ["a", "d"])
        #expect(outcome.failures.map(\.field) == ["b", "c"])
        #expect(outcome.failures.map(\.error.code) == [.contentTypeRefused, .tooLarge(limit: 10)])
        #expect(try await bench.uploads(.open) == 0)
        #expect(try await bench.uploads(.terminated) == 1)
    }

    @Test("the rest of a refused file is only read up to a limit")
    func boundsWhatIsSkipped() async throws {
        var bench = Bench(maximumBytes: 10)
        bench.limits.maximumSkippedBytes = 1000
        let large = Bench.file("a", "1", String(repeating: "x", count: 200_000))
        let outcome = await bench.send([.text(large + Bench.file("b", "2", "2") + Bench.end)])
        #expect(outcome.media.isEmpty)
        #expect(outcome.failures.map(\.field) == ["a"])
    }

    @Test(
        "an interrupted connection leaves only complete files",
        arguments: [SourceFailure.disconnected, .timedOut, .shuttingDown]
    )
    func keepsComplete(failure: SourceFailure) async throws {
        let bench = Bench()
        let begun = "--\(Bench.boundary)\r\nContent-Disposition: form-data; name=b; filename=2\r\n\r\n22222"
        let outcome = await bench.send([.text(Bench.file("a", "1", "1") + begun), .fail(failure)])
        #expect(outcome.media.map(\.field) == ["a"])
        #expect(outcome.failures.map(\.error.code) == [UploadError(failure).code])
        #expect(try await bench.uploads(.open) == 0)
        #expect(try await bench.uploads(.completed) == 1)
        #expect(try await bench.uploads(.terminated) == 1)
    }

    @Test("a full storage ends the form", arguments: [true, false])
    func endsWhenFull(isAtCreation: Bool) async throws {
        let bench = Bench()
        let full = UploadError(.storageFull, "full")
        if isAtCreation {
            bench.storage.plan.fail(.create, with: full)
        } else {
            bench.storage.failAppend(afterBytes: 2, with: full)
        }
        let outcome = await bench.send([.text(Bench.file("a", "1", "11111") + Bench.file("b", "2", "2") + Bench.end)])
        #expect(outcome.media.isEmpty)
        #expect(outcome.failures.map(\.error.code) == [.storageFull])
        #expect(try await bench.uploads(.open) == 0)
    }

    @Test("the heads of parts are checked")
    func checksParts() async throws {
        let b = "--\(Bench.boundary)\r\n"
        let file = Bench.file("f", "x", "1") + Bench.end
        let refused: [(String, UploadError.Code)] = [
            ("\(b)\r\nx\r\n" + file, .invalidRequest),
            ("\(b)Content-Disposition: attachment; filename=x\r\n\r\nx\r\n" + file, .invalidRequest),
            ("\(b)Content-Disposition: form-data; filename=x\r\n\r\nx\r\n" + file, .invalidRequest),
            (
                "\(b)Content-Disposition: form-data; name=x\r\nContent-Disposition: form-data; name=y\r\n\r\nx\r\n"
                    + file,
                .invalidRequest
            ),
            (
                "\(b)Content-Disposition: form-data; name=x\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c--\r\n"
                    + file, .invalidRequest
            ),
            (
                "\(b)Content-Disposition: form-data; name=x\r\nContent-Transfer-Encoding: base64\r\n\r\neA==\r\n"
                    + file,
                .invalidRequest
            ),
            (Bench.text("a", String(repeating: "x", count: 8192)) + file, .tooLarge(limit: 8192)),
            (
                Bench.text("a", String(repeating: "x", count: 4096))
                    + Bench.text("b", String(repeating: "x", count: 4096))
                    + file, .tooLarge(limit: 8192)
            ),
            ((0...100).map { Bench.text("a\($0)", "") }.joined() + file, .tooLarge(limit: 8192)),
            (Bench.text("token", String(repeating: "x", count: 20_000)) + file, .tooLarge(limit: 8192)),
            (Bench.file("f", "x", "1"), .invalidRequest), ("", .invalidRequest),
        ]
        for (form, code) in refused {
            let bench = Bench()
            let outcome = await bench.send([.text(form)])
            #expect(outcome.failures.map(\.error.code) == [code], "\(form.prefix(200))")
            #expect(try await bench.uploads(.open) == 0)
        }
        let bench = Bench()
        let notUTF8 = await bench.send([
            .text("\(b)Content-Disposition: form-data; name=x\r\n\r\n"), .bytes([0xFC]), .text("\r\n" + file),
        ])
        #expect(notUTF8.failures.map(\.error.code) == [.invalidRequest])
        let saved = await bench.send([
            .text(
                "\(b)Content-Disposition: form-data; name=x; filename=p.mht\r\nContent-Type: multipart/related\r\n\r\nx\r\n"
                    + Bench.end
            )
        ])
        #expect(saved.media.count == 1)
    }

    @Test("of two fields whose names differ only in their Unicode form none gets lost")
    func equalNames() async {
        for (one, other) in [("\u{E9}", "e\u{301}"), ("K", "\u{212A}"), ("a;", "a\u{37E}")] {
            let outcome = await Bench().send([
                .text(Bench.text(one, "1") + Bench.text(other, "2") + Bench.file("f", "a", "x") + Bench.end)
            ])
            #expect(outcome.failures.map(\.error.code) == [.invalidRequest] && outcome.media.isEmpty)
        }
        let again = await Bench().send([
            .text(Bench.text("a", "1") + Bench.text("a", "2") + Bench.file("f", "a", "x") + Bench.end)
        ])
        #expect(again.media.first?.media.metadata["a"] == "2")
    }

    @Test("the Content-Type must have a boundary")
    func needsBoundary() async {
        for type in [
            "multipart/form-data", "multipart/form-data; boundary=\"\"", "multipart/form-data; boundary=a; boundary=b",
        ] {
            let outcome = await Bench().send([], ["Content-Type": type, "Authorization": "Bearer good"])
            #expect(outcome.failures.map(\.error.code) == [.invalidRequest])
        }
    }

    @Test("requests with a form are recognised")
    func knowsForms() throws {
        func isForm(_ method: HTTPMethod, _ fields: HTTPFields) throws -> Bool {
            let target = try RequestTarget(parsing: "/files")
            return FormHandler.isMeant(by: RequestHead(method: method, target: target, fields: fields))
        }
        let type = "multipart/form-data; boundary=b"
        #expect(try isForm(.post, ["Content-Type": type]))
        #expect(try isForm(.post, ["Content-Type": "Multipart/Form-Data"]))
        #expect(
            try isForm(.post, ["Content-Type": type, "Upload-Complete": "?1", "Upload-Draft-Interop-Version": "6"])
        )
        #expect(try !isForm(.post, ["Content-Type": type, "Upload-Complete": "?0"]))
        #expect(try !isForm(.post, ["Content-Type": type, "Upload-Incomplete": "?1"]))
        #expect(try !isForm(.put, ["Content-Type": type]))
        #expect(try !isForm(.post, ["Content-Type": "multipart/mixed; boundary=b"]))
        #expect(try !isForm(.post, [:]))
    }
}
