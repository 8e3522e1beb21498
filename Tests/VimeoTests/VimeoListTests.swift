import Foundation
import SluiceTesting
import Testing
import UploadCore
import UploadModel

@testable import VODKit
@testable import Vimeo

@Suite("Lists of videos", .timeLimit(.minutes(10)))
struct VimeoListTests {
    private static let subjects = ["dora", "eve", "\u{E9}ve", "e\u{301}ve"]

    /// Videos and tickets of some users, begun by some tokens.
    private func fill(_ bench: VimeoBench, using generator: inout SeededGenerator) async throws -> [VimeoVideo] {
        var made: [VimeoVideo] = []
        for number in 0..<300 {
            var video = VimeoVideo(
                id: Int64(1_000_000 + number),
                subject: Self.subjects.randomElement(using: &generator) ?? "",
                principal: ["one", "other"].randomElement(using: &generator) ?? "",
                approach: .tus,
                modifiedAt: 0
            )
            video.isTicket = Int.random(in: 0..<6, using: &generator) == 0
            if Int.random(in: 0..<6, using: &generator) == 0 { video.isDeleted = true }
            #expect(try await bench.library.insert(video))
            made.append(video)
        }
        return made
    }

    private func listed(
        _ bench: VimeoBench,
        of subject: String,
        begunBy principal: String? = nil,
        page number: Int = 1,
        of size: Int = 100
    ) async throws -> (ids: [Int64], count: Int) {
        let page = VimeoCall.Page(number: number, size: size)
        let found = try await bench.library.videos(page, of: VimeoUser(subject), begunBy: principal)
        return (found.media.map(\.content.id), found.count)
    }

    @Test("a page has what a plain filter finds, of one user and one token", arguments: [1, 2] as [UInt64])
    func pages(seed: UInt64) async throws {
        var generator = SeededGenerator(seed: seed)
        let bench = try VimeoBench()
        let made = try await fill(bench, using: &generator)
        for subject in Self.subjects {
            for principal in [nil, "one", "other", "none"] {
                let wanted = made.filter { video in
                    video.subject.isSameSubject(as: subject) && (principal.map { video.principal == $0 } ?? true)
                        && !video.isTicket && video.isDeleted != true
                }
                let ids = Array(wanted.map(\.id).reversed())
                for size in [1, 7, 100] {
                    for number in [1, 2, 5, 1000] {
                        let found = try await listed(bench, of: subject, begunBy: principal, page: number, of: size)
                        #expect(found.count == ids.count, "\(seed) \(subject) \(principal ?? "") \(number)")
                        #expect(found.ids == Array(ids.dropFirst((number - 1) * size).prefix(size)))
                    }
                }
            }
        }
    }

    @Test("a page reads no more than its videos, and the number of all is counted in the index")
    func bounds() async throws {
        let bench = try VimeoBench()
        for number in 0..<500 {
            let video = VimeoVideo(
                id: Int64(1_000_000 + number),
                subject: number % 2 == 0 ? "dora" : "eve",
                principal: "p",
                approach: .tus,
                modifiedAt: 0
            )
            #expect(try await bench.library.insert(video))
        }
        let before = bench.state.plan.calls(of: .dialectRecords)
        let found = try await listed(bench, of: "dora", of: 25)
        #expect(found.count == 250 && found.ids.count == 25)
        #expect(bench.state.plan.calls(of: .dialectRecords) - before == 3)
    }

    @Test("a video is listed as it was last changed, also by an earlier version, which writes no terms")
    func changes() async throws {
        let bench = try VimeoBench()
        var made: [VimeoEntry] = []
        for _ in 0..<4 {
            made.append(try await bench.create(.tus))
            bench.clock.advance(by: 1)
        }
        let ids = made.map(\.video.id)
        #expect(try await bench.library.delete(made[1]))
        #expect(try await bench.videos().map(\.id) == [ids[3], ids[2], ids[0]])
        bench.memory.writeAsBeforeTerms(VimeoVideo.recordKind, made[0].record.record.key, isNew: true)
        #expect(try await bench.videos().map(\.id) == [ids[3], ids[2], ids[0]])
        // What cannot be read is not listed, and keeps no other from being listed.
        var broken = try #require(try await bench.state.record(VimeoVideo.recordKind, made[2].record.record.key))
        broken.text = "[]"
        #expect(try await bench.state.replace(broken))
        for index in [0, 2] {
            bench.memory.writeAsBeforeTerms(VimeoVideo.recordKind, made[index].record.record.key, isNew: true)
        }
        #expect(try await bench.videos().map(\.id) == [ids[3], ids[0]])
    }
}
