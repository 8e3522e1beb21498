import Bytes
import Foundation
import SluiceTesting
import Testing

@testable import UploadCore
@testable import UploadModel

@Suite("Quotas and concatenation", .timeLimit(.minutes(10)))
struct UploadServiceConcatenationQuotaTests {
    private static let alice = Account(.subject, "alice")

    private func partial(_ length: Int64?) -> NewUpload {
        NewUpload(dialect: "tus", length: length, concatenation: Concatenation(.partial, raw: "partial"))
    }

    private func final(_ parts: [UploadID]) -> NewUpload {
        NewUpload(dialect: "tus", length: nil, concatenation: Concatenation(.final(parts: parts), raw: "final;…"))
    }

    private func bench(_ change: (inout Policy) -> Void) -> ServiceBench {
        var policy = Policy()
        change(&policy)
        return ServiceBench(limits: UploadLimits(maximumBytes: 1000, lifetime: 3600, policies: [.subject: policy]))
    }

    private func complete(_ length: Int, _ bench: ServiceBench) async throws -> UploadID {
        let id = try await bench.services.uploads.create(partial(Int64(length)), under: bench.grant()).id
        try await bench.append([UInt8](repeating: 7, count: length), to: id, at: 0)
        return id
    }

    private func usage(_ services: UploadServices) async throws -> Usage {
        try await services.quota.quota(of: Self.alice).usage
    }

    @Test("parts whose final upload is deleted still count, so that nobody fills the disk with them")
    func evasion() async throws {
        let bench = bench { $0.storedBytes = 10 }
        let part = try await complete(6, bench)
        let whole = try await bench.services.uploads.create(final([part]), under: bench.grant())
        #expect(try await usage(bench.services).storedBytes == 6)
        try await bench.services.uploads.terminate(whole.id)
        let after = try await usage(bench.services)
        #expect((after.storedBytes, after.reservedBytes) == (0, 6))
        #expect(await code { try await complete(6, bench) }?.name == "quota_exceeded")
        // A part that is joined again needs no further room, and its end gives all back.
        let again = try await bench.services.uploads.create(final([part]), under: bench.grant())
        try await bench.services.uploads.terminate(again.id)
        try await bench.services.uploads.terminate(part)
        let empty = try await usage(bench.services)
        #expect((empty.storedBytes, empty.reservedBytes) == (0, 0))
    }

    @Test("a final upload that a quota refuses counts nowhere, leaves nothing, and tells of nothing")
    func refused() async throws {
        let bench = bench {
            $0.storedBytes = 10
            $0.periodUploads = 3
        }
        let part = try await complete(6, bench)
        let events = try await bench.state.events(EventQuery(after: 0)).count
        for _ in 0..<5 {
            let refusal = await code {
                try await bench.services.uploads.create(final([part, part]), under: bench.grant())
            }
            #expect(refusal?.name == "quota_exceeded")
        }
        let used = try await usage(bench.services)
        #expect((used.periodUploads, used.openUploads, used.reservedBytes) == (1, 0, 6))
        #expect(try await bench.state.events(EventQuery(after: 0)).count == events)
        #expect(try await bench.storage.list(after: nil, limit: 9) == [part])
        #expect(try await bench.services.uploads.create(final([part]), under: bench.grant()).state == .completed)
    }

    /// A client that does anything in any order, on a gateway that may die at any moment.
    private struct Player {
        let bench: ServiceBench
        var services: UploadServices
        var random: SeededGenerator

        init(_ bench: ServiceBench, seed: UInt64) {
            self.bench = bench
            services = bench.services
            random = SeededGenerator(seed: seed)
        }

        func recorded() async throws -> [Upload] {
            try await services.uploads.list(UploadQuery(limit: 1000)).filter(\.isAlive)
        }
    }

    private func move(_ player: inout Player) async throws {
        let (bench, services) = (player.bench, player.services)
        let known = try await player.recorded()
        let parts = known.filter { $0.concatenation?.role == .partial }.map(\.id)
        let finals = known.filter { $0.concatenation?.parts != nil }.map(\.id)
        let dies = Int.random(in: 0..<4, using: &player.random) == 0
        if dies { bench.fuse.burn(afterCalls: Int.random(in: 0..<12, using: &player.random)) }
        do throws(UploadError) {
            switch Int.random(in: 0..<10, using: &player.random) {
            case 0...2:
                let length = Int64.random(in: 0...9, using: &player.random)
                let id = try await services.uploads.create(partial(length), under: bench.grant()).id
                // Some stay open.
                if length > 0, Bool.random(using: &player.random) {
                    let bytes = [UInt8](repeating: 7, count: Int(length))
                    _ = try await services.uploads.append(
                        to: id,
                        at: 0,
                        contentLength: length,
                        expecting: nil,
                        from: ArraySource(bytes)
                    )
                }
            case 3...5 where !parts.isEmpty:
                let count = Int.random(in: 1...3, using: &player.random)
                let named = (0..<count).compactMap { _ in parts.randomElement(using: &player.random) }
                _ = try await services.uploads.create(final(named), under: bench.grant())
            case 6, 7:
                if let id = finals.randomElement(using: &player.random) { try await services.uploads.terminate(id) }
            case 8:
                if let id = parts.randomElement(using: &player.random) { try await services.uploads.terminate(id) }
            default:
                bench.clock.advance(by: TimeInterval(Int.random(in: 0..<1800, using: &player.random)))
                _ = await services.sweep.run()
            }
        } catch {
            // Refused, or the process died.
        }
        if dies {
            player.services = bench.restarted()
            _ = await player.services.sweep.run()
        }
    }

    @Test("whatever is joined, deleted and left to expire, what is stored counts", arguments: 0..<20 as Range<UInt64>)
    func anyOrder(seed: UInt64) async throws {
        let limit: Int64 = 40
        let bench = bench { $0.storedBytes = limit }
        var player = Player(bench, seed: seed)
        for step in 0..<120 {
            try await move(&player)
            let uploads = try await player.recorded()
            let used = try await usage(player.services)
            let counted = used.storedBytes + used.reservedBytes
            let media = uploads.filter { $0.state == .completed && $0.concatenation?.parts != nil }
            let named = Set(media.flatMap { $0.concatenation?.parts ?? [] })
            let parts = uploads.filter { $0.concatenation?.role == .partial }
            let free = parts.filter { !named.contains($0.id) }
            func bytes(_ uploads: [Upload]) -> Int64 { uploads.reduce(0) { $0 + ($1.length ?? 0) } }
            let reserved = uploads.filter { $0.state == .open && $0.concatenation?.parts != nil }
                .reduce(Int64(0)) { $0 + $1.reservedBytes }
            #expect(used.storedBytes == bytes(media), "seed \(seed), step \(step)")
            #expect(counted >= bytes(media) + bytes(free) + reserved, "seed \(seed), step \(step)")
            #expect(counted <= bytes(media) + bytes(parts) + reserved, "seed \(seed), step \(step)")
            #expect(counted <= limit, "seed \(seed), step \(step)")
        }
        for upload in try await player.recorded() { try? await player.services.uploads.terminate(upload.id) }
        let used = try await usage(player.services)
        #expect((used.storedBytes, used.reservedBytes, used.openUploads) == (0, 0, 0), "seed \(seed)")
    }
}
