import CloudCalls
import Foundation
import SluiceTesting
import Testing
import UploadModel

@testable import AliyunVOD
@testable import VODKit

@Suite("Filters of SearchMedia", .timeLimit(.minutes(10)))
struct ApsaraMatchTests {
    private func match(_ text: String) throws -> ApsaraMatch { try ApsaraMatch(text) }

    /// Why a filter is refused; `nil` if it is not.
    private func problem(_ text: String) throws -> String? {
        do throws(ApsaraMatch.Problem) {
            _ = try ApsaraMatch(text)
            return nil
        } catch {
            return error.message
        }
    }

    @Test("an empty filter matches everything", arguments: ["", " ", "\n\t"])
    func empty(_ text: String) throws { #expect(try match(text) == .all) }

    // MARK: Grammar

    @Test(
        "comparisons",
        arguments: [
            ("Title = 'a b'", .hasOne(of: [SearchedPart("a b")], .title)),
            ("title='a'", .hasOne(of: [SearchedPart("a")], .title)),
            ("Title = \"it's\"", .hasOne(of: [SearchedPart("it's")], .title)),
            ("Title=''", .hasOne(of: [SearchedPart("")], .title)),
            // Made ready for all media at once.
            ("Title in ('ÉA', b)", .hasOne(of: [SearchedPart("éa"), SearchedPart("B")], .title)),
            ("Description != 'X'", .not(.hasOne(of: [SearchedPart("x")], .description))),
            ("CateId = 5", .isOne(of: ["5"], .categoryID)), ("CateId=-1", .isOne(of: ["-1"], .categoryID)),
            ("Status != 'Normal'", .not(.isOne(of: ["Normal"], .status))),
            ("Status in ('Normal', 'Uploading')", .isOne(of: ["Normal", "Uploading"], .status)),
            ("Status IN ['Normal']", .isOne(of: ["Normal"], .status)),
            ("Status not in ('a','b')", .not(.isOne(of: ["a", "b"], .status))),
            ("not Status = 'a'", .not(.isOne(of: ["a"], .status))),
            ("NOT (Tags = 'a')", .not(.isOne(of: ["a"], .tags))),
            ("not not Tags = a", .not(.not(.isOne(of: ["a"], .tags)))),
        ] as [(String, ApsaraMatch)]
    )
    func comparisons(_ text: String, _ expected: ApsaraMatch) throws { #expect(try match(text) == expected) }

    @Test(
        "ranges have their ends or not",
        arguments: [
            ("Size = [1, 5]", "1", true, "5", true), ("Size = (1, 5)", "1", false, "5", false),
            ("Size = [1, 5)", "1", true, "5", false), ("Size=(1,5]", "1", false, "5", true),
            ("Size = [,5]", "", true, "5", true), ("Size = (1,)", "1", false, "", false),
            ("Size = ['1','5']", "1", true, "5", true), ("Size = (,)", "", false, "", false),
        ]
    )
    func ranges(_ text: String, _ lower: String, _ hasLower: Bool, _ upper: String, _ hasUpper: Bool) throws {
        let expected = ApsaraMatch.isWithin(lower: lower, hasLower: hasLower, upper: upper, hasUpper: hasUpper, .size)
        #expect(try match(text) == expected)
    }

    @Test("and binds before or, not before both, and brackets before all")
    func precedence() throws {
        let (a, b, c) = (
            ApsaraMatch.isOne(of: ["a"], .tags), ApsaraMatch.isOne(of: ["b"], .tags),
            ApsaraMatch.isOne(of: ["c"], .tags)
        )
        #expect(try match("Tags=a or Tags=b and Tags=c") == .either(a, .both(b, c)))
        #expect(try match("Tags=a and Tags=b or Tags=c") == .either(.both(a, b), c))
        #expect(try match("(Tags=a or Tags=b) and Tags=c") == .both(.either(a, b), c))
        #expect(try match("not Tags=a and Tags=b") == .both(.not(a), b))
        #expect(try match("not (Tags=a and Tags=b)") == .not(.both(a, b)))
        #expect(try match("Tags=a AND Tags=b Or Tags=c") == .either(.both(a, b), c))
        #expect(try match("((Tags=a))") == a)
    }

    @Test(
        "whatever is no filter is refused with a reason",
        arguments: [
            ("Title", "="), ("Title =", "value"), ("= 'a'", "field"), ("Title 'a'", "="), ("Title = 'a", "quote"),
            ("Title = \"a'", "quote"), ("Title = 'a' Status = 'b'", "end"), ("Title = 'a' and", "field"),
            ("or Title = 'a'", "field or"), ("(Title = 'a'", "bracket"), ("Title = 'a')", "end"), ("()", "field"),
            ("Title in 'a'", "brackets"), ("Title in ()", "value"), ("Title in ('a'", "bracket"),
            ("Title in ('a',)", "value"), ("Title not 'a'", "="), ("Size = [1", "two values"),
            ("Size = [1]", "two values"),
            ("Size = [1,2", "closing bracket"), ("Size = [1,2,3]", "closing bracket"), ("Size = ()", "value"),
            ("Title ! 'a'", "unexpected"), ("!", "unexpected"), ("Title != ", "value"), ("Title = =", "value"),
            ("Colour = 'red'", "Colour"), ("and = 'a'", "and"), ("Title > 'a'", "="),
        ]
    )
    func wrong(_ text: String, _ reason: String) throws {
        let problem = try #require(try problem(text))
        #expect(problem.contains(reason), "\(problem)")
    }

    @Test("a filter has at most 64 comparisons, and 16 levels")
    func limits() throws {
        func many(_ count: Int) -> String {
            [String](repeating: "Tags=a", count: count).joined(separator: " or ")
        }
        #expect(try problem(many(64)) == nil)
        #expect(try problem(many(65))?.contains("64") == true)
        func deep(_ count: Int) -> String {
            String(repeating: "(", count: count) + "Tags=a" + String(repeating: ")", count: count)
        }
        #expect(try problem(deep(15)) == nil)
        #expect(try problem(deep(16))?.contains("brackets") == true)
        #expect(try problem(String(repeating: "(", count: 100_000)) != nil)
        #expect(try problem(String(repeating: "not ", count: 100_000)) != nil)
        #expect(try problem("\(String(repeating: "x", count: 100_000)) = a").map { $0.utf8.count < 200 } == true)
    }

    @Test("each value after in costs time for each media: there are at most 256, and 64 words to search for")
    func values() throws {
        func list(_ field: String, _ count: Int) -> String {
            "\(field) in (\([String](repeating: "a", count: count).joined(separator: ",")))"
        }
        #expect(try problem(list("Tags", 256)) == nil)
        #expect(try problem(list("Tags", 257))?.contains("256") == true)
        #expect(try problem(list("Tags", 128) + " or " + list("CateId", 129))?.contains("256") == true)
        for field in ["Title", "Description"] {
            #expect(try problem(list(field, 64)) == nil)
            #expect(try problem(list(field, 65))?.contains("64") == true)
            #expect(try problem("Tags = b and " + list(field, 64))?.contains("64") == true)
        }
        #expect(try problem(list("Tags", 10_000)) != nil)
    }

    @Test("a filter has at most 16 KiB, and a word that is searched for 256 characters")
    func lengths() throws {
        for field in ["Title", "Description"] {
            for letter in ["x", "É", "日", "\u{20DD}"] {
                func word(_ count: Int) -> String { "a" + String(repeating: letter, count: count - 1) }
                #expect(try problem("\(field) = '\(word(256))'") == nil)
                #expect(try problem("\(field) = '\(word(257))'")?.contains("256") == true)
                #expect(try problem("\(field) != '\(word(257))'")?.contains("256") == true)
                #expect(try problem("\(field) in (a, '\(word(257))')")?.contains("256") == true)
            }
        }
        #expect(try problem("Tags = '\(String(repeating: "x", count: 16_384 - 9))'") == nil)
        #expect(try problem("Tags = '\(String(repeating: "x", count: 16_384 - 8))'")?.contains("16384") == true)
        let name = "a" + String(repeating: "\u{20DD}", count: 5000)
        #expect(try problem("\(name) = a").map { $0.utf8.count < 300 } == true)
    }

    @Test("no text stops the server", .timeLimit(.minutes(10)))
    func randomTexts() throws {
        var random = SeededGenerator(seed: 18)
        let words = [
            "Title", "Tags", "Size", "CreationTime", "x", "and", "or", "not", "in", "=", "!=", "!", "(", ")", "[", "]",
            ",", "'", "\"", "'a'", "'2026-01-01T00:00:00Z'", " ", "\u{0}", "ü", "👩‍👩‍👧", "5", "-1", "\u{301}",
        ]
        var accepted = 0
        for _ in 0..<20_000 {
            let count = Int.random(in: 0...24, using: &random)
            let text = (0..<count).map { _ in words[Int.random(in: 0..<words.count, using: &random)] }
                .joined(separator: Bool.random(using: &random) ? " " : "")
            guard let match = try? ApsaraMatch(text) else { continue }
            accepted += 1
            _ = match.holds(for: try record())
            _ = match.selection()
        }
        #expect(accepted > 20)
    }

    // MARK: Meaning

    private func record(
        at time: TimeInterval = 1_767_225_600,
        _ change: (inout ApsaraMedia) -> Void = { _ in }
    ) throws -> CodedRecord<ApsaraMedia> {
        let time = Date(timeIntervalSince1970: time)
        let id = ApsaraMedia.newID(at: time)
        var media = ApsaraMedia(
            id: id,
            kind: .video,
            application: "app-1",
            bucket: "b",
            key: "k",
            fileName: "v.mp4",
            suffix: "mp4",
            announced: 100,
            labels: ApsaraMedia.Labels(
                title: "Summer Holiday",
                description: "At the sea",
                categoryIDs: [5, 7],
                tags: ["sea", "sun"],
                referenceID: "film-1"
            ),
            modifiedAt: time.unixSeconds + 60,
            openUntil: 0
        )
        change(&media)
        return CodedRecord(ApsaraMedia.recordKind, id, media, at: time, until: nil)
    }

    @Test(
        "a filter finds media by each field",
        arguments: [
            ("Title = 'holiday'", true), ("Title = 'Winter'", false), ("Title in ('Winter', 'SUMMER')", true),
            ("Title != 'holiday'", false), ("Description = 'SEA'", true), ("Tags = 'sea'", true),
            ("Tags = 'se'", false),
            ("Tags in ('x', 'sun')", true), ("Tags != 'sea'", false), ("Tags not in ('x','y')", true),
            ("Status = 'Uploading'", true), ("Status = 'Normal'", false), ("CateId = 7", true),
            ("CateId in (1, 2)", false),
            ("CateId = [6, 9]", true), ("CateId = (7, 9]", false), ("AppId = 'app-1'", true),
            ("AppId = 'app-2'", false),
            ("Size = [99, 100]", true), ("Size = (100, 1000]", false), ("Size = [9, 99]", false), ("Size = [9,)", true),
            ("Size = (,100)", false), ("ReferenceId = 'film-1'", true), ("ReferenceId != 'film-1'", false),
            ("StorageLocation = 'b'", true), ("BusinessType = 'watermark'", false), ("MediaSource = 'general'", true),
            ("VideoId = 'x'", false), ("CreationTime = ['2026-01-01T00:00:00Z', '2026-01-01T00:00:00Z']", true),
            ("CreationTime = ('2026-01-01T00:00:00Z', '2026-02-01T00:00:00Z']", false),
            ("CreationTime = ['2025-12-01T00:00:00Z', '2026-01-01T00:00:00Z')", false),
            ("CreationTime = ['2025-12-01T00:00:00Z', '2026-01-01T00:00:01Z')", true),
            ("ModificationTime = '2026-01-01T00:01:00Z'", true),
            ("Tags = 'sea' and Tags = 'sun'", true), ("Tags = 'x' or Tags = 'y'", false),
            ("not (Tags = 'x' or Tags = 'y') and AppId = 'app-1'", true),
        ]
    )
    func meaning(_ text: String, _ holds: Bool) throws {
        #expect(try match(text).holds(for: try record()) == holds)
    }

    @Test("media that is complete is Normal, with its own size")
    func complete() throws {
        let record = try record { $0.content = .init(objectID: "o", size: 3, storedAt: 0) }
        #expect(try match("Status = 'Normal' and Size = 3").holds(for: record))
        #expect(try match("MediaId = '\(record.content.id)' and ImageId='\(record.content.id)'").holds(for: record))
    }

    @Test(
        "a filter limits the times of creation only where it must hold",
        arguments: [
            ("CreationTime = ['2026-01-01T00:00:00Z', '2026-02-01T00:00:00Z')", 1_767_225_600_000, 1_769_903_999_999),
            ("CreationTime = ('2026-01-01T00:00:00Z', '2026-02-01T00:00:00Z']", 1_767_225_601_000, 1_769_904_000_999),
            ("CreationTime = ('2026-01-01T00:00:00Z',)", 1_767_225_601_000, .max),
            ("CreationTime = (,'2026-02-01T00:00:00Z')", .min, 1_769_903_999_999),
            ("CreationTime = '2026-01-01T00:00:00Z'", 1_767_225_600_000, 1_767_225_600_999),
            (
                "Tags=a and CreationTime = ('2026-01-01T00:00:00Z',) and CreationTime=(,'2026-02-01T00:00:00Z')",
                1_767_225_601_000, 1_769_903_999_999
            ),
            (
                "CreationTime = '2026-01-01T00:00:00Z' or CreationTime='2026-02-01T00:00:00Z'", 1_767_225_600_000,
                1_769_904_000_999
            ),
            ("Tags=a or CreationTime = ('2026-01-01T00:00:00Z',)", .min, .max),
            ("CreationTime = ('2026-01-01T00:00:00Z',) or Tags=a", .min, .max),
            ("not CreationTime = ('2026-01-01T00:00:00Z',)", .min, .max),
            ("ModificationTime = ('2026-01-01T00:00:00Z',)", .min, .max), ("CreationTime = (x, y)", .min, .max),
            // Compared as texts.
            ("CreationTime = ('2026-01-01T08:00:00+08:00',)", .min, .max), ("CreationTime = (2026,)", .min, .max),
        ] as [(String, Int64, Int64)]
    )
    func times(_ text: String, _ first: Int64, _ last: Int64) throws {
        #expect(try match(text).selection().positions == (first, last))
    }

    private typealias Condition = ApsaraSelection.Condition

    @Test("a filter names the conditions of which all media that it matches satisfies each")
    func conditions() throws {
        for (text, wanted, isComplete) in [
            ("", [], true), ("Tags=a", [Condition(.tag, ["a"])], true), ("Tags!=a", [], false),
            ("Tags in (a, b) and CateId=7", [Condition(.tag, ["a", "b"]), Condition(.category, ["7"])], true),
            ("CateId=7 and Title=x", [Condition(.category, ["7"])], false),
            ("not (Tags!=a or not Status=Normal)", [Condition(.tag, ["a"]), Condition(.status, ["Normal"])], true),
            ("not (Tags!=a and Tags!=b)", [Condition(.tag, ["a", "b"])], false),
            ("Tags=a or ReferenceId=r", [or(Condition(.tag, ["a"]), Condition(.reference, ["r"]))], false),
            ("Tags=a or Title=x", [], false), ("Tags=a or MediaId=x", [], false),
            ("MediaId=x or VideoId=y", [Condition(.id, ["x", "y"])], false),
            ("(Tags=a and Status=Normal) or Tags=b", [Condition(.tag, ["a", "b"])], false),
            ("AppId=app-1 and Size=(1, 2)", [], false), ("AppId=app-1", [], true),
        ] as [(String, [Condition], Bool)] {
            let found = try match(text).selection()
            #expect(found.conditions == wanted && found.isComplete == isComplete, "\(text)")
        }
        for (text, wanted) in [
            ("AppId=app-1 and Tags=a", ["app-1"]), ("AppId in (a, b) and AppId in (b, c)", ["b"]),
            ("AppId=a or AppId=b", ["a", "b"]), ("AppId=a or Tags=x", nil), ("AppId='a/b'", []), ("AppId!=a", nil),
        ] as [(String, Set<String>?)] {
            #expect(try match(text).selection().applications == wanted, "\(text)")
        }
        let many = "Tags in (\((0...ApsaraMatch.maximumCount).map(String.init).joined(separator: ",")))"
        #expect(try match(many).selection() == ApsaraSelection())
    }

    private func or(_ one: Condition, _ other: Condition) -> Condition {
        var both = Condition(max(one.field, other.field), [])
        both.values = one.values.union(other.values)
        return both
    }
}

@Suite("SearchMedia", .timeLimit(.minutes(10)))
struct ApsaraSearchTests {
    /// A bench with media of which each began a minute after the one before; the ids in their order.
    private func bench(_ count: Int, _ change: (Int, inout ApsaraNewUpload) -> Void = { _, _ in }) async throws -> (
        ApsaraBench, [String]
    ) {
        let bench = try await ApsaraBench.telling()
        var ids: [String] = []
        for number in 0..<count {
            ids.append(try await bench.begin { change(number, &$0) }.id)
            bench.clock.advance(by: 60)
        }
        return (bench, ids)
    }

    private func ids(_ found: AliyunDocument) -> [String] { found.list("MediaList").compactMap { $0.text("MediaId") } }

    @Test("pages by PageNo, the newest first, and by order")
    func pages() async throws {
        let (bench, ids) = try await bench(25)
        let newest = Array(ids.reversed())
        for (order, all) in [(nil, newest), ("CreationTime:Desc", newest), ("CreationTime:Asc", ids)] {
            var parameters = order.map { ["SortBy": $0] } ?? [:]
            let first = try await bench.call(.searchMedia, parameters)
            #expect(self.ids(first) == Array(all.prefix(10)) && first.text("Total") == "25")
            for (page, range) in [("1", 0..<10), ("2", 10..<20), ("3", 20..<25), ("4", 25..<25)] {
                parameters["PageNo"] = page
                let found = try await bench.call(.searchMedia, parameters)
                #expect(self.ids(found) == Array(all[range]) && found.text("Total") == "25", "\(page)")
            }
            parameters["PageSize"] = "7"
            parameters["PageNo"] = "2"
            #expect(self.ids(try await bench.call(.searchMedia, parameters)) == Array(all[7..<14]))
        }
    }

    @Test("a ScrollToken continues after the page before, also if media was added or deleted since")
    func scrolling() async throws {
        for order in ["CreationTime:Desc", "CreationTime:Asc"] {
            let (bench, ids) = try await bench(25)
            let all = order == "CreationTime:Asc" ? ids : Array(ids.reversed())
            var parameters = ["SortBy": order, "PageSize": "4"]
            var found: [String] = []
            while found.count < 100 {
                let page = try await bench.call(.searchMedia, parameters)
                if self.ids(page).isEmpty { break }
                found += self.ids(page)
                parameters["ScrollToken"] = page.text("ScrollToken")
                if found.count == 8 {
                    let last = try #require(try await bench.recorded(all[7]))
                    try await bench.library.delete(last.id, hasEvent: true)
                    if order == "CreationTime:Desc" { _ = try await bench.begin() }
                }
            }
            #expect(found == all, "\(order)")
        }
    }

    @Test("SearchType decides about kinds")
    func kinds() async throws {
        let (bench, ids) = try await bench(4) { number, new in
            new.kind = [.video, .video, .image, .attached][number]
            new.suffix = ["mp4", "mp3", "png", "srt"][number]
        }
        for (type, wanted) in [
            (nil, [ids[0]]), ("video", [ids[0]]), ("audio", [ids[1]]), ("image", [ids[2]]), ("attached", [ids[3]]),
            ("attached,video, image,audio", ids.reversed()),
        ] as [(String?, [String])] {
            let found = try await bench.call(.searchMedia, type.map { ["SearchType": $0] } ?? [:])
            #expect(self.ids(found) == wanted, "\(type ?? "")")
        }
        let found = try await bench.call(.searchMedia, ["SearchType": "video,audio,image,attached"]).list("MediaList")
        try #require(found.map { $0.text("MediaType") } == ["attached", "image", "audio", "video"])
        #expect(found[0].text("AttachedMedia", "MediaId") == ids[3])
        #expect(found[1].text("Image", "ImageId") == ids[2])
        #expect(found[2].text("Audio", "AudioId") == ids[1])
        #expect(found[3].text("Video", "VideoId") == ids[0])
    }

    @Test("a time in the filter finds exactly the media of that time, although their ids came a little earlier")
    func times() async throws {
        let (bench, ids) = try await bench(5)
        let start = bench.clock.now.addingTimeInterval(-300)
        func time(_ minutes: Double) -> String { ApsaraDocuments.time(start.addingTimeInterval(minutes * 60)) }
        func search(_ match: String) async throws -> [String] {
            self.ids(try await bench.call(.searchMedia, ["Match": match, "SortBy": "CreationTime:Asc"]))
        }
        #expect(try await search("CreationTime = ['\(time(1))', '\(time(3))')") == Array(ids[1..<3]))
        #expect(try await search("CreationTime = ('\(time(1))', '\(time(3))']") == Array(ids[2..<4]))
        #expect(try await search("CreationTime = ['\(time(4))',)") == [ids[4]])
        #expect(try await search("CreationTime = (,'\(time(0))']") == [ids[0]])
        #expect(try await search("CreationTime = '\(time(2))'") == [ids[2]])
        // Its record comes late.
        bench.state.plan.before(.bucket) { bench.clock.advance(by: 20) }
        let slow = try await bench.begin()
        let created = ApsaraDocuments.time(bench.clock.now)
        #expect(try await search("CreationTime = ['\(created)',)") == [slow.id])
    }

    @Test("very many media are searched in pages")
    func many() async throws {
        let bench = try await ApsaraBench.telling()
        for _ in 0..<1203 { _ = try await bench.begin { $0.labels.tags = ["a"] } }
        let found = try await bench.call(.searchMedia, ["Match": "Tags=a", "PageNo": "12", "PageSize": "100"])
        #expect(found.text("Total") == "1203" && ids(found).count == 100)
        let last = try await bench.call(.searchMedia, ["Match": "Tags=a", "PageNo": "13", "PageSize": "100"])
        #expect(ids(last).count == 3 && Set(ids(last)).isDisjoint(with: ids(found)))
    }

    @Test(
        "wrong parameters are refused",
        arguments: [
            ["SearchType": "film"], ["SearchType": ","], ["Match": "x"], ["SortBy": "Title:Asc"], ["PageNo": "0"],
            ["PageNo": "201"], ["PageSize": "0"], ["PageSize": "101"], ["PageSize": "+5"], ["ScrollToken": "x"],
        ]
    )
    func wrong(_ parameters: [String: String]) async throws {
        let bench = try await ApsaraBench.telling()
        #expect(try await code { try await bench.call(.searchMedia, parameters) } == "InvalidParameter")
    }

    @Test("media of others is neither found nor counted")
    func owners() async throws {
        let (bench, ids) = try await bench(4) { number, new in
            new.subject = number % 2 == 0 ? "dora" : "eve"
            new.application = number < 2 ? "app-1" : "app-2"
        }
        for (limits, wanted) in [
            (KeyLimits(subjects: ["dora"]), [ids[2], ids[0]]),
            (KeyLimits(buckets: [bench.place.bucket], prefixes: ["app-2/"]), [ids[3], ids[2]]),
            (KeyLimits(subjects: ["eve"], buckets: [bench.place.bucket], prefixes: ["app-2/"]), [ids[3]]),
            (KeyLimits(buckets: ["other"]), []),
        ] {
            let caller = ApsaraCaller(identity: .key(ApsaraBench.key(limits)))
            let found = try await bench.call(.searchMedia, [:], by: caller)
            #expect(self.ids(found) == wanted && found.text("Total") == String(wanted.count))
        }
    }
}
