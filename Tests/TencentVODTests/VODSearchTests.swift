import Foundation
import Signing
import SluiceTesting
import Testing
import UploadCore
import UploadModel

@testable import TencentVOD
@testable import VODKit

@Suite("Searches for VOD media", .timeLimit(.minutes(10)))
struct VODSearchTests {
    private let day: TimeInterval = 86_400

    /// Media that a search can tell apart, and the time of its commit.
    private struct Sample {
        var media: VODMedia
        var createdAt: Date
    }

    private static let names = ["Alps", "alpine lake", "Baltic", "\u{c4}rger", "ALPHA", ""]
    private static let tags = ["red", "green", "blue"]
    private static let types = ["mp4", "mp3", "jpg", "mkv"]

    private func sample(
        _ application: Int64,
        begun: Date,
        committed: Date,
        using generator: inout SeededGenerator
    ) throws -> Sample {
        let number = UInt64(begun.unixMilliseconds) * 1_000_000 + UInt64.random(in: 0..<1_000_000, using: &generator)
        let type = Self.types.randomElement(using: &generator) ?? ""
        let session = VODSession(
            fileID: String(number),
            owner: VODOwner(application: application, subject: Bool.random(using: &generator) ? "dora" : nil),
            bucket: "b",
            region: Bool.random(using: &generator) ? "ap-guangzhou" : "ap-beijing",
            video: VODFile(key: "k", name: Self.names.randomElement(using: &generator) ?? "", type: type, size: 1),
            source: Bool.random(using: &generator) ? .client : .server,
            labels: VODLabels(),
            validUntil: 0
        )
        var media = try #require(VODMedia(session, size: 1, md5: nil))
        media.labels.classID = [nil, 0, 1, 2].randomElement(using: &generator) ?? nil
        media.tags = Self.tags.filter { _ in Bool.random(using: &generator) }
        media.description = ["", "Sea", "sand and sea"].randomElement(using: &generator) ?? ""
        return Sample(media: media, createdAt: committed)
    }

    private func insert(_ samples: [Sample], into bench: VODBench) async throws {
        for sample in samples {
            bench.clock.set(to: sample.createdAt)
            #expect(try await bench.state.apply([bench.library.insertion(of: sample.media)]))
        }
    }

    private static let start = Date(timeIntervalSince1970: 1_750_000_000)

    private func query(around samples: [Sample], using generator: inout SeededGenerator) -> VODQuery {
        var query = VODQuery()
        func sometimes() -> Bool { Int.random(in: 0..<4, using: &generator) == 0 }
        if sometimes() {
            query.fileIDs = (0..<3).compactMap { _ in samples.randomElement(using: &generator)?.media.fileID } + ["7"]
        }
        if sometimes() { query.names = [SearchedPart("ALP"), SearchedPart("\u{e4}R")] }
        if sometimes() { query.namePrefixes = ["Al", "B"] }
        if sometimes() { query.descriptions = [SearchedPart("SEA")] }
        if sometimes() { query.classIDs = [0, 2] }
        if sometimes() { query.tags = ["red", "blue"] }
        if sometimes() { query.sources = [.server] }
        if sometimes() { query.regions = ["ap-beijing", "ap-shanghai"] }
        if sometimes() { query.types = ["mp4", "jpg"] }
        if sometimes() { query.categories = ["Video", "Audio"] }
        // The very times of media, so that both bounds are met.
        if sometimes() { query.createdAfter = samples.randomElement(using: &generator)?.createdAt }
        if sometimes() { query.createdBefore = samples.randomElement(using: &generator)?.createdAt }
        query.order = Bool.random(using: &generator) ? .oldestFirst : .newestFirst
        query.offset = [0, 0, 1, 7, 400, 1500].randomElement(using: &generator) ?? 0
        query.limit = [1, 10, 50, 1000].randomElement(using: &generator) ?? 1
        return query
    }

    /// The ids that a query finds, all of them and in its order.
    private func wanted(_ query: VODQuery, in samples: [Sample], of subject: String?) -> [String] {
        let categories = ["mp4": "Video", "mkv": "Video", "mp3": "Audio", "jpg": "Image"]
        let found = samples.filter { sample in
            let media = sample.media
            if media.isDeleted { return false }
            if let subject, media.owner.subject != subject { return false }
            if !query.fileIDs.isEmpty, !query.fileIDs.contains(media.fileID) { return false }
            if !query.names.isEmpty {
                let name = media.name.lowercased()
                if !name.contains("alp"), !name.contains("\u{e4}r") { return false }
            }
            if !query.namePrefixes.isEmpty, !query.namePrefixes.contains(where: media.name.hasPrefix) { return false }
            if !query.descriptions.isEmpty, !media.description.lowercased().contains("sea") { return false }
            if !query.classIDs.isEmpty, !query.classIDs.contains(media.labels.classID ?? 0) { return false }
            if !query.tags.isEmpty, Set(query.tags).isDisjoint(with: media.tags) { return false }
            if !query.sources.isEmpty, !query.sources.contains(media.source) { return false }
            if !query.regions.isEmpty, !query.regions.contains(media.region) { return false }
            if !query.types.isEmpty, !query.types.contains(media.video.type) { return false }
            let category = categories[media.video.type] ?? ""
            if !query.categories.isEmpty, !query.categories.contains(category) { return false }
            if let after = query.createdAfter, sample.createdAt < after { return false }
            if let before = query.createdBefore, sample.createdAt > before { return false }
            return true
        }
        let sorted = found.sorted { one, other in
            one.createdAt == other.createdAt ? one.media.fileID < other.media.fileID : one.createdAt < other.createdAt
        }
        let ids = sorted.map(\.media.fileID)
        return query.order == .oldestFirst ? ids : ids.reversed()
    }

    @Test("a search finds what a plain filter finds, across pages of records", arguments: [1, 2, 3] as [UInt64])
    func search(seed: UInt64) async throws {
        var generator = SeededGenerator(seed: seed)
        let bench = try VODBench()
        let application: Int64 = 1_500_000_000
        var samples: [Sample] = []
        for number in 0..<1203 {
            var committed = Self.start.addingTimeInterval(Double(Int.random(in: 0..<20_000_000, using: &generator)))
            // Some at the same time.
            if number % 3 == 1 { committed = samples[number / 2].createdAt }
            let seconds = Int.random(in: 0..<(number % 5 == 0 ? 89 * 86_400 : 100), using: &generator)
            let begun = committed.addingTimeInterval(-Double(seconds))
            samples.append(try sample(application, begun: begun, committed: committed, using: &generator))
            samples[number].media.isDeleted = number % 11 == 0
        }
        try await insert(samples, into: bench)
        // Their keys begin with the same digits.
        for other: Int64 in [150_000_000, 15_000_000_001, 1_500_000_001, 1_499_999_999] {
            let foreign = try (0..<50).map { _ in
                try sample(other, begun: Self.start, committed: Self.start, using: &generator)
            }
            try await insert(foreign, into: bench)
        }
        for _ in 0..<40 {
            let query = query(around: samples, using: &generator)
            let subject = ["dora", nil].randomElement(using: &generator) ?? nil
            let limits = KeyLimits(subjects: subject.map { [$0] } ?? [])
            let found = try await bench.library.search(application, query, under: limits)
            let ids = wanted(query, in: samples, of: subject)
            #expect(found.count == ids.count, "\(seed) \(query)")
            #expect(
                found.media.map(\.content.fileID) == Array(ids.dropFirst(query.offset).prefix(query.limit)),
                "\(seed) \(query)"
            )
        }
    }

    @Test("a page can end with the 5000th media", arguments: [499, 500, 501, 1000, 5100])
    func pages(number: Int) async throws {
        var generator = SeededGenerator(seed: UInt64(number))
        let bench = try VODBench()
        let samples = try (0..<number).map { _ in
            let time = Self.start.addingTimeInterval(Double(Int.random(in: 0..<100_000, using: &generator)))
            return try sample(1, begun: time, committed: time, using: &generator)
        }
        try await insert(samples, into: bench)
        for (offset, limit) in [(4990, 10), (0, 5000), (495, 10)] {
            var query = VODQuery()
            (query.offset, query.limit) = (offset, limit)
            let found = try await bench.library.search(1, query, under: KeyLimits())
            #expect(found.count == min(number, 5000))
            let ids = wanted(query, in: samples, of: nil).dropFirst(offset).prefix(limit)
            #expect(found.media.map(\.content.fileID) == Array(ids))
        }
        let none = try await bench.library.search(2, VODQuery(), under: KeyLimits())
        #expect(none.count == 0 && none.media.isEmpty)
    }

    /// The number of pages that a search reads, with that of media without terms; to count without reading is one, too.
    private func pages(_ query: VODQuery, finding count: Int, in bench: VODBench) async throws -> Int {
        let before = bench.state.plan.calls(of: .dialectRecords)
        #expect(try await bench.library.search(1, query, under: KeyLimits()).count == count)
        return bench.state.plan.calls(of: .dialectRecords) - before
    }

    @Test("a search reads the records of its time, or with its tag, class, type, category or prefix only")
    func bounds() async throws {
        var generator = SeededGenerator(seed: 1)
        let bench = try VODBench()
        let samples = try (0..<1300).map { number in
            let time = Self.start.addingTimeInterval(Double(number) * day)
            var sample = try sample(1, begun: time, committed: time, using: &generator)
            let isRare = number % 130 == 0
            sample.media.tags = isRare ? ["rare", "often"] : ["often"]
            sample.media.name = isRare ? "Rarity" : "Rest"
            sample.media.labels.classID = isRare ? 7 : nil
            sample.media.video.type = isRare ? "mp3" : "mp4"
            return sample
        }
        try await insert(samples, into: bench)
        for (first, last, count) in [(900, 1299, 3), (0, 400, 3), (700, 800, 3), (0, 1299, 3), (0, 5, 2)] {
            var query = VODQuery()
            (query.createdAfter, query.createdBefore) = (samples[first].createdAt, samples[last].createdAt)
            #expect(try await pages(query, finding: last - first + 1, in: bench) == count)
        }
        let rare: [(inout VODQuery) -> Void] = [
            { $0.tags = ["rare"] }, { $0.namePrefixes = ["Rari"] }, { $0.classIDs = [7] }, { $0.types = ["mp3"] },
            { $0.categories = ["Audio"] },
        ]
        for condition in rare {
            var query = VODQuery()
            condition(&query)
            #expect(try await pages(query, finding: 10, in: bench) == 3)
        }
        // What has another condition is read.
        var both = VODQuery()
        (both.tags, both.regions) = (["often"], ["ap-guangzhou", "ap-beijing"])
        #expect(try await pages(both, finding: 1300, in: bench) == 8)
        both = VODQuery()
        both.namePrefixes = ["Rarity"]
        #expect(try await pages(both, finding: 10, in: bench) == 2)
        var query = VODQuery()
        query.fileIDs = samples.prefix(3).map(\.media.fileID)
        #expect(try await pages(query, finding: 3, in: bench) == 1)
    }

    @Test("a search finds media as it was last changed, also by an earlier version, and none that is deleted")
    func changes() async throws {
        let bench = try VODBench()
        var generator = SeededGenerator(seed: 2)
        var samples: [Sample] = []
        for number in 0..<6 {
            let time = Self.start.addingTimeInterval(Double(number))
            samples.append(try sample(1, begun: time, committed: time, using: &generator))
            samples[number].media.tags = ["old"]
        }
        try await insert(samples, into: bench)
        let ids = samples.map(\.media.fileID)
        func found(_ tag: String) async throws -> [String] {
            var query = VODQuery()
            query.tags = [tag]
            query.order = .oldestFirst
            return try await bench.library.search(1, query, under: KeyLimits()).media.map(\.content.fileID)
        }
        _ = try await bench.library.change(ids[1], of: 1, where: { _ in true }) { $0.tags = ["cafe\u{301}"] }
        _ = try await bench.library.change(ids[2], of: 1, where: { _ in true }) { $0.isDeleted = true }
        #expect(try await found("old") == [ids[0], ids[3], ids[4], ids[5]])
        #expect(try await found("caf\u{E9}") == [ids[1]])
        // A node of an earlier version changes one, and makes one.
        let record = try #require(try await bench.library.record(ids[3], of: 1))
        var media = record.content
        media.tags = ["new"]
        var outdated = record.replaced(by: media, until: nil).record
        outdated.terms = nil
        #expect(try await bench.state.replace(outdated))
        bench.memory.writeAsBeforeTerms(VODMedia.kind, outdated.key, isNew: false)
        bench.memory.writeAsBeforeTerms(VODMedia.kind, VODMedia.key(ids[4], of: 1), isNew: true)
        #expect(try await found("new") == [ids[3]])
        #expect(try await found("old") == [ids[0], ids[4], ids[5]])
        #expect(try await bench.state.recordsWithoutTerms(VODMedia.kind, after: nil, limit: 9).isEmpty)
        // What cannot be read is not found, and keeps no other from being found.
        var broken = try #require(try await bench.state.record(VODMedia.kind, VODMedia.key(ids[5], of: 1)))
        broken.text = "{}"
        #expect(try await bench.state.replace(broken))
        bench.memory.writeAsBeforeTerms(VODMedia.kind, broken.key, isNew: false)
        #expect(try await found("old") == [ids[0], ids[4]])
        var query = VODQuery()
        query.fileIDs = [ids[5], ids[0]]
        let named = try await bench.library.search(1, query, under: KeyLimits())
        #expect(named.media.map(\.content.fileID) == [ids[0]] && named.count == 1)
        // Background work counts and reports it.
        let failing = FailingRecords(clock: bench.clock) { _ in }
        let adding = bench.state.addingTerms(to: VODMedia.kind, as: VODMedia.self)
        await #expect(throws: UploadError.self) { try await adding(failing) }
        #expect(failing.count == 1)
        #expect(try await !adding(failing))
    }

    @Test("media whose session was resumed for a long time is found by the time of its commit")
    func longUpload() async throws {
        let bench = try VODBench()
        let signer = try await bench.signer { $0.expiresIn = TencentUploadSignature.maximumLifetime }
        let applied = try await bench.sent(by: signer)
        for _ in 0..<60 {
            bench.clock.advance(by: day - 1)
            _ = try await bench.uploads.resume(applied.sessionKey, by: signer)
        }
        var query = VODQuery()
        query.createdAfter = bench.clock.now
        _ = try await bench.uploads.commit(applied.sessionKey, by: signer)
        query.createdBefore = bench.clock.now
        let found = try await bench.library.search(applied.session.owner.application, query, under: KeyLimits())
        #expect(found.media.map(\.content.fileID) == [applied.session.fileID])
    }

    @Test("no session lasts longer than the record of deleted media")
    func longestUpload() async throws {
        let bench = try VODBench()
        let applied = try await bench.sent(by: bench.signer())
        let start = bench.clock.now
        var last = start
        for _ in 0..<200 {
            bench.clock.advance(by: day - 1)
            let signer = try await bench.signer()
            let code = try await bench.code { _ = try await bench.uploads.resume(applied.sessionKey, by: signer) }
            if code != nil { break }
            last = bench.clock.now
        }
        #expect(last.timeIntervalSince(start) < VODUploads.longestUpload)
        #expect(last.timeIntervalSince(start) > VODUploads.longestUpload - 2 * day)
        let signer = try await bench.signer()
        let code = try await bench.code { _ = try await bench.uploads.commit(applied.sessionKey, by: signer) }
        #expect(code == .invalidSession)
        try await bench.cleanUp()
        #expect(try await bench.keys().isEmpty)
    }
}
