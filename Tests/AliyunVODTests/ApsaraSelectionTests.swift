import Foundation
import SluiceTesting
import Testing
import UploadCore
import UploadModel

@testable import AliyunVOD
@testable import VODKit

@Suite("Searches for media by terms", .timeLimit(.minutes(10)))
struct ApsaraSelectionTests {
    private static let start = Date(timeIntervalSince1970: 1_750_000_000)
    private static let applications = ["app-1", "app-10", "App-1", ApsaraBench.application]
    private static let tags = ["red", "caf\u{E9}", "cafe\u{301}", "", "a/b"]
    private static let subjects = ["dora", "eve", "\u{E9}ve", "e\u{301}ve"]

    private func media(at time: Date, using generator: inout SeededGenerator) -> ApsaraMedia {
        func some<Value>(_ values: [Value]) -> [Value] {
            values.filter { _ in Int.random(in: 0..<3, using: &generator) == 0 }
        }
        func isSometimes() -> Bool { Int.random(in: 0..<4, using: &generator) == 0 }
        let suffix = ["mp4", "mp3", "png"].randomElement(using: &generator) ?? ""
        let id = ApsaraMedia.newID(at: time)
        var media = ApsaraMedia(
            id: id,
            kind: suffix == "png" ? .image : isSometimes() ? .attached : .video,
            application: Self.applications.randomElement(using: &generator) ?? "",
            subject: isSometimes() ? nil : Self.subjects.randomElement(using: &generator),
            bucket: "b",
            key: "k/\(id)",
            fileName: "f",
            suffix: suffix,
            announced: Int64.random(in: 0..<50, using: &generator),
            labels: ApsaraMedia.Labels(title: ["Alps", "The Lake", ""].randomElement(using: &generator) ?? ""),
            modifiedAt: time.unixSeconds,
            openUntil: 0
        )
        media.labels.tags = some(Self.tags)
        media.labels.categoryIDs = some([1, 2, 7])
        if isSometimes() { media.labels.referenceID = id }
        if !isSometimes() { media.content = ApsaraMedia.Content(objectID: "o", size: 7, storedAt: 0) }
        media.isDeleted = isSometimes() && isSometimes()
        return media
    }

    /// Media of which some began at the same time.
    private func fill(
        _ bench: ApsaraBench,
        _ number: Int,
        using generator: inout SeededGenerator
    ) async throws -> [CodedRecord<ApsaraMedia>] {
        var made: [CodedRecord<ApsaraMedia>] = []
        for index in 0..<number {
            // The clock's resolution is a millisecond.
            let offset = Double(Int.random(in: 0..<200_000, using: &generator)) / 1000
            let time = index % 4 == 1 ? made[index / 2].record.createdAt : Self.start.addingTimeInterval(offset)
            let media = media(at: time, using: &generator)
            let record = CodedRecord(ApsaraMedia.recordKind, media.id, media, at: time, until: nil)
            #expect(try await bench.state.insert(record.record, at: time))
            made.append(record)
        }
        return made
    }

    private func filter(
        _ depth: Int,
        of made: [CodedRecord<ApsaraMedia>],
        using generator: inout SeededGenerator
    ) -> ApsaraMatch {
        switch Int.random(in: 0..<(depth > 0 ? 20 : 14), using: &generator) {
        case 0: return .all
        case 1...3: return .isOne(of: values(Self.tags, using: &generator), .tags)
        case 4: return .isOne(of: values(["1", "2", "7", "07"], using: &generator), .categoryID)
        case 5: return .isOne(of: values(["Normal", "Uploading", "x"], using: &generator), .status)
        case 6: return .isOne(of: values(Self.applications, using: &generator), .application)
        case 7: return .hasOne(of: [SearchedPart("ALPS")], .title)
        case 8: return .isWithin(lower: "10", hasLower: true, upper: "", hasUpper: false, .size)
        case 9:
            let ids = (0..<3).compactMap { _ in made.randomElement(using: &generator)?.content.id }
            return .isOne(of: ids + ["x"], .mediaID)
        case 10:
            let references = made.compactMap(\.content.labels.referenceID)
            return .isOne(of: values(references, using: &generator), .referenceID)
        case 11: return .isOne(of: [time(of: made, using: &generator)], .creationTime)
        case 12, 13:
            return .isWithin(
                lower: Bool.random(using: &generator) ? time(of: made, using: &generator) : "",
                hasLower: Bool.random(using: &generator),
                upper: Bool.random(using: &generator) ? time(of: made, using: &generator) : "",
                hasUpper: Bool.random(using: &generator),
                .creationTime
            )
        case 14, 15: return .not(filter(depth - 1, of: made, using: &generator))
        case 16, 17:
            return .both(
                filter(depth - 1, of: made, using: &generator),
                filter(depth - 1, of: made, using: &generator)
            )
        default:
            return .either(
                filter(depth - 1, of: made, using: &generator),
                filter(depth - 1, of: made, using: &generator)
            )
        }
    }

    private func values(_ values: [String], using generator: inout SeededGenerator) -> [String] {
        (0..<Int.random(in: 1...2, using: &generator)).compactMap { _ in values.randomElement(using: &generator) }
    }

    private func time(of made: [CodedRecord<ApsaraMedia>], using generator: inout SeededGenerator) -> String {
        ApsaraDocuments.time(made.randomElement(using: &generator)?.record.createdAt ?? Self.start)
    }

    private func caller(using generator: inout SeededGenerator) -> ApsaraCaller {
        let limits: [KeyLimits] = [
            KeyLimits(), KeyLimits(), KeyLimits(subjects: ["dora"]), KeyLimits(subjects: ["\u{E9}ve"]),
            KeyLimits(subjects: ["dora", "eve"]), KeyLimits(subjects: ["e*"]),
            KeyLimits(buckets: [ApsaraPlace(AliyunVODSettings()).bucket], prefixes: ["app-1/"]),
            KeyLimits(buckets: [ApsaraPlace(AliyunVODSettings()).bucket], prefixes: ["app-1"]),
            KeyLimits(subjects: ["dora"], buckets: [ApsaraPlace(AliyunVODSettings()).bucket], prefixes: ["app-10/"]),
        ]
        return ApsaraCaller(identity: .key(ApsaraBench.key(limits.randomElement(using: &generator) ?? KeyLimits())))
    }

    /// What a query finds without an index: all of it, in its order.
    private func wanted(
        _ query: ApsaraQuery,
        in made: [CodedRecord<ApsaraMedia>],
        by caller: ApsaraCaller,
        at place: ApsaraPlace
    ) -> [String] {
        let found = made.filter { one in
            let media = one.content
            return !media.isDeleted && query.kinds.contains(media.searchKind) && caller.owns(media.subject)
                && caller.may(.searchMedia, in: media.application, at: place) && query.match.holds(for: one)
        }
        let sorted = found.sorted { one, other in
            (one.record.createdAt, one.content.id) < (other.record.createdAt, other.content.id)
        }
        let ids = sorted.map(\.content.id)
        return query.isOldestFirst ? ids : ids.reversed()
    }

    @Test("a search finds what a plain filter finds, by pages and by tokens", arguments: [1, 2, 3, 4] as [UInt64])
    func property(seed: UInt64) async throws {
        var generator = SeededGenerator(seed: seed)
        let bench = try ApsaraBench()
        var made = try await fill(bench, 400, using: &generator)
        // An earlier version wrote what cannot be read.
        for spoilt in made.suffix(5).map(\.content.id) {
            try await bench.spoil(ApsaraMedia.recordKind, spoilt)
            bench.memory.writeAsBeforeTerms(ApsaraMedia.recordKind, spoilt, isNew: true)
        }
        made.removeLast(5)
        for _ in 0..<60 {
            var query = ApsaraQuery()
            query.kinds = Set(ApsaraQuery.Kind.allCases.filter { _ in Bool.random(using: &generator) })
            if query.kinds.isEmpty { query.kinds = [.video] }
            query.match = filter(3, of: made, using: &generator)
            query.isOldestFirst = Bool.random(using: &generator)
            query.offset = [0, 0, 3, 500].randomElement(using: &generator) ?? 0
            query.limit = [1, 10, 100].randomElement(using: &generator) ?? 1
            let caller = caller(using: &generator)
            let ids = wanted(query, in: made, by: caller, at: bench.place)
            let found = try await bench.library.search(query, by: caller)
            #expect(found.count == ids.count, "\(seed) \(query) \(caller)")
            #expect(
                found.media.map(\.content.id) == Array(ids.dropFirst(query.offset).prefix(query.limit)),
                "\(seed) \(query) \(caller)"
            )
            (query.offset, query.limit) = (0, 30)
            var scrolled: [String] = []
            repeat {
                let page = try await bench.library.search(query, by: caller)
                #expect(page.count == ids.count, "\(seed) \(query) \(caller)")
                query.after = page.media.last?.content.id
                scrolled += page.media.map(\.content.id)
            } while query.after != nil && scrolled.count <= ids.count
            #expect(scrolled == ids, "\(seed) \(query) \(caller)")
        }
    }

    @Test("pages end with the 5000th media, and tokens go on")
    func most() async throws {
        var generator = SeededGenerator(seed: 5)
        let bench = try ApsaraBench()
        for number in 0..<5010 {
            var media = media(at: Self.start.addingTimeInterval(Double(number)), using: &generator)
            (media.kind, media.suffix, media.isDeleted, media.labels.tags) = (.video, "mp4", false, ["a"])
            let time = Self.start.addingTimeInterval(Double(number))
            let record = CodedRecord(ApsaraMedia.recordKind, media.id, media, at: time, until: nil).record
            #expect(try await bench.state.insert(record, at: time))
        }
        for text in ["", "Tags=a and Size=[0,)"] {
            var query = ApsaraQuery(match: try ApsaraMatch(text), offset: 4990, limit: 20)
            var found = try await bench.library.search(query, by: ApsaraBench.server)
            #expect(found.count == 5000 && found.media.count == 10, "\(text)")
            (query.offset, query.after) = (0, found.media.last?.content.id)
            found = try await bench.library.search(query, by: ApsaraBench.server)
            #expect(found.count == 5000 && found.media.count == 10, "\(text)")
        }
    }

    @Test("a search reads what has the rarest of its terms, and counts in the index")
    func bounds() async throws {
        let bench = try ApsaraBench()
        for number in 0..<1200 {
            _ = try await bench.begin { new in
                new.subject = number % 120 == 0 ? "dora" : "eve"
                new.labels.tags = number % 120 == 1 ? ["often", "rare"] : ["often"]
                new.labels.categoryIDs = number % 120 == 2 ? [7] : [1]
            }
            bench.clock.advance(by: 1)
        }
        let stored = try await bench.made()
        let times = ApsaraDocuments.time(bench.clock.now.addingTimeInterval(-10))
        let dora = ApsaraCaller(identity: .key(ApsaraBench.key(KeyLimits(subjects: ["dora"]))))
        // One call finds media of earlier versions, two the applications of each term, and one counts after a full page.
        for (text, count, calls, caller) in [
            ("Tags=rare", 10, 5, ApsaraBench.server), ("CateId=7", 10, 5, ApsaraBench.server),
            ("Status=Normal", 1, 4, ApsaraBench.server), ("Tags=often", 1200, 5, ApsaraBench.server),
            // The other terms are counted, up to the number of the first one.
            ("Tags=often and CateId=7", 10, 6, ApsaraBench.server),
            ("AppId=\(ApsaraBench.application) and Tags=rare", 10, 3, ApsaraBench.server),
            ("", 1201, 9, ApsaraBench.server), ("CreationTime=['\(times)',)", 11, 9, ApsaraBench.server),
            // Eight of them at the most are looked at.
            (String(repeating: "Tags=often and ", count: 20) + "CateId=7", 10, 18, ApsaraBench.server),
            ("", 10, 5, dora), ("Tags=often", 10, 6, dora), ("MediaId=\(stored.id)", 1, 1, ApsaraBench.server),
        ] as [(String, Int, Int, ApsaraCaller)] {
            let query = ApsaraQuery(match: try ApsaraMatch(text))
            let before = bench.state.plan.calls(of: .dialectRecords)
            let found = try await bench.library.search(query, by: caller)
            #expect(found.count == count, "\(text)")
            #expect(bench.state.plan.calls(of: .dialectRecords) - before == calls, "\(text)")
        }
    }

    @Test("media that an earlier version wrote is found, also as the first one of its application")
    func upgrade() async throws {
        let bench = try ApsaraBench()
        let old = try await bench.made { $0.application = "app-7" }
        let new = try await bench.made()
        bench.memory.writeAsBeforeTerms(ApsaraMedia.recordKind, old.id, isNew: true)
        let found = try await bench.library.search(ApsaraQuery(), by: ApsaraBench.server)
        #expect(Set(found.media.map(\.content.id)) == [old.id, new.id] && found.count == 2)
        // Background work does that, too, and reports what cannot be read.
        try await bench.spoil(ApsaraMedia.recordKind, old.id)
        for id in [old.id, new.id] { bench.memory.writeAsBeforeTerms(ApsaraMedia.recordKind, id, isNew: false) }
        let failing = FailingRecords(clock: bench.clock) { _ in }
        let adding = bench.state.addingTerms(to: ApsaraMedia.recordKind, as: ApsaraMedia.self)
        await #expect(throws: UploadError.self) { try await adding(failing) }
        let left = try await bench.state.recordsWithoutTerms(ApsaraMedia.recordKind, after: nil, limit: 9)
        #expect(left.map(\.key) == [old.id] && failing.count == 1)
    }

    @Test("a token of media whose record is gone goes on at the time of its id", arguments: [false, true])
    func gone(isOldestFirst: Bool) async throws {
        let bench = try ApsaraBench()
        var ids: [String] = []
        for _ in 0..<5 {
            ids.append(try await bench.made().id)
            bench.clock.advance(by: 1)
        }
        #expect(try await bench.state.removeRecord(ApsaraMedia.recordKind, ids[2]))
        var query = ApsaraQuery()
        (query.isOldestFirst, query.after) = (isOldestFirst, ids[2])
        let found = try await bench.library.search(query, by: ApsaraBench.server)
        #expect(found.media.map(\.content.id) == (isOldestFirst ? [ids[3], ids[4]] : [ids[1], ids[0]]))
    }
}
