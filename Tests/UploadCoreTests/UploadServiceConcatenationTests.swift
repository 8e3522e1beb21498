import Bytes
import Foundation
import SluiceTesting
import Testing

@testable import UploadCore
@testable import UploadModel

@Suite("Concatenation", .timeLimit(.minutes(10)))
struct UploadServiceConcatenationTests {
    private static let first = [UInt8](1...6)
    private static let second = [UInt8](101...104)
    private static let whole = first + second + first

    private func partial(_ length: Int64?) -> NewUpload {
        NewUpload(dialect: "tus", length: length, concatenation: Concatenation(.partial, raw: "partial"))
    }

    private func final(_ parts: [UploadID]) -> NewUpload {
        NewUpload(dialect: "tus", length: nil, concatenation: Concatenation(.final(parts: parts), raw: "final;…"))
    }

    private func complete(_ bytes: [UInt8], _ bench: ServiceBench) async throws -> UploadID {
        let id = try await bench.services.uploads.create(partial(Int64(bytes.count)), under: bench.grant()).id
        try await bench.append(bytes, to: id, at: 0)
        return id
    }

    @Test("complete parts are joined at once, and only the final upload becomes media")
    func joined() async throws {
        let bench = ServiceBench()
        let parts = [try await complete(Self.first, bench), try await complete(Self.second, bench)]
        let upload = try await bench.services.uploads.create(final(parts + [parts[0]]), under: bench.grant())
        #expect(upload.state == .completed)
        #expect(upload.length == 16)
        #expect(try await bench.contents(of: upload.id) == Self.whole)
        #expect(try await bench.services.media.media(upload.id).size == 16)
        for part in parts { #expect(await code { try await bench.services.media.media(part) } == .notFound) }
    }

    @Test("a final upload is limited by the lengths of its parts, whoever began those")
    func limit() async throws {
        let bench = ServiceBench()
        let parts = [try await complete(Self.first, bench), try await complete(Self.second, bench)]
        let small = bench.grant(maximumBytes: 9)
        let refused = await code { try await bench.services.uploads.create(final(parts), under: small) }
        #expect(refused == .tooLarge(limit: 9))
        let exact = bench.grant(maximumBytes: 10)
        #expect(try await bench.services.uploads.create(final(parts), under: exact).length == 10)
    }

    @Test("empty parts and a single part are joined, too")
    func empty() async throws {
        let bench = ServiceBench()
        let none = try await bench.services.uploads.create(partial(0), under: bench.grant())
        #expect(none.state == .completed)
        let part = try await complete(Self.first, bench)
        let nothing = try await bench.services.uploads.create(final([none.id, none.id]), under: bench.grant())
        #expect(nothing.state == .completed)
        #expect(nothing.length == 0)
        let same = try await bench.services.uploads.create(final([none.id, part, none.id]), under: bench.grant())
        #expect(try await bench.contents(of: same.id) == Self.first)
    }

    @Test("a final upload accepts no bytes, neither before nor after it is joined")
    func takesNothing() async throws {
        let bench = ServiceBench()
        let open = try await bench.services.uploads.create(partial(6), under: bench.grant()).id
        let waiting = try await bench.services.uploads.create(final([open]), under: bench.grant())
        #expect(waiting.state == .open)
        #expect(await code { try await bench.append([1], to: waiting.id, at: 0) } == .notOpen)
        try await bench.append(Self.first, to: open, at: 0)
        #expect(await code { try await bench.append([], to: waiting.id, at: 6) } == .notOpen)
        #expect(try await bench.contents(of: waiting.id) == Self.first)
    }

    @Test("complete partial uploads expire, and so does a final upload that waits for one of them")
    func expiry() async throws {
        let bench = ServiceBench()
        let part = try await complete(Self.first, bench)
        let joined = try await bench.services.uploads.create(final([part]), under: bench.grant())
        let open = try await bench.services.uploads.create(partial(5), under: bench.grant()).id
        let waiting = try await bench.services.uploads.create(final([part, open]), under: bench.grant())
        bench.clock.advance(by: 3000)
        try await bench.append([1], to: open, at: 0)
        bench.clock.advance(by: 600)
        #expect(await code { try await bench.services.uploads.create(final([part]), under: bench.grant()) } == .gone)
        #expect(await bench.services.sweep.run().failures == 0)
        #expect(await code { try await bench.services.uploads.status(of: part) } == .gone)
        #expect(await code { try await bench.services.uploads.status(of: waiting.id) } == .gone)
        #expect(try await bench.services.uploads.status(of: open).offset == 1)
        #expect(try await bench.contents(of: joined.id) == Self.first)
    }

    @Test("a final upload that cannot be joined leaves nothing, and its parts can be used again")
    func storageFails() async throws {
        let bench = ServiceBench()
        let part = try await complete(Self.first, bench)
        bench.storage.plan.fail(.copy)
        #expect(
            await code { try await bench.services.uploads.create(final([part]), under: bench.grant()) }
                == .storageFailure
        )
        #expect(try await bench.storage.list(after: nil, limit: 10) == [part])
        let again = try await bench.services.uploads.create(final([part]), under: bench.grant())
        #expect(try await bench.contents(of: again.id) == Self.first)
    }

    @Test("a waiting final upload is joined later if joining fails first", arguments: ["status", "sweep"])
    func joinedLater(recovering: String) async throws {
        let bench = ServiceBench()
        let part = try await bench.services.uploads.create(partial(6), under: bench.grant()).id
        let waiting = try await bench.services.uploads.create(final([part]), under: bench.grant()).id
        bench.storage.plan.fail(.copy)
        // The part is complete, whatever happens to the final upload.
        #expect(try await bench.append(Self.first, to: part, at: 0).state == .completed)
        #expect(try await bench.services.uploads.inspect(waiting).state == .open)
        if recovering == "status" {
            #expect(try await bench.services.uploads.status(of: waiting).state == .completed)
        } else {
            #expect(await bench.services.sweep.run().completed == 1)
        }
        #expect(try await bench.contents(of: waiting) == Self.first)
    }

    /// What a client knows from the responses that it received.
    private struct Knowledge {
        var parts: [UploadID] = []
        var final: UploadID?
        var isFinished = false
    }

    private func client(_ bench: ServiceBench) async -> Knowledge {
        var known = Knowledge()
        do throws(UploadError) {
            known.parts.append(try await bench.services.uploads.create(partial(nil), under: bench.grant()).id)
            known.parts.append(try await bench.services.uploads.create(partial(4), under: bench.grant()).id)
            try await bench.append(Self.second, to: known.parts[1], at: 0)
            let parts = [known.parts[0], known.parts[1], known.parts[0]]
            known.final = try await bench.services.uploads.create(final(parts), under: bench.grant()).id
            _ = try await bench.services.uploads.append(
                to: known.parts[0],
                at: 0,
                contentLength: 6,
                declaring: 6,
                expecting: nil,
                from: ArraySource(Self.first)
            )
            known.isFinished = true
        } catch {
            // The process died: the client stops.
        }
        return known
    }

    @Test("wherever the process dies, parts are joined once, in full, and nothing is left behind")
    func everyPoint() async throws {
        var point = 0
        while true {
            let bench = ServiceBench()
            bench.fuse.burn(afterCalls: point)
            let known = await client(bench)
            let services = bench.restarted()
            #expect(await services.sweep.run().failures == 0, "died after \(point) calls")
            if let id = known.final {
                let upload = try await services.uploads.status(of: known.parts[0])
                if upload.state == .open {
                    let rest = ArraySource(Array(Self.first[Int(upload.offset)...]))
                    _ = try await services.uploads.append(
                        to: upload.id,
                        at: upload.offset,
                        contentLength: nil,
                        declaring: 6,
                        expecting: nil,
                        from: rest
                    )
                }
                #expect(try await services.uploads.status(of: id).state == .completed, "died after \(point) calls")
                #expect(try await bench.contents(of: id) == Self.whole, "died after \(point) calls")
                #expect(try await services.media.media(id).size == 16)
                let completions = bench.observer.events.count { event in
                    if case .completed(let upload, .some) = event { upload.id == id } else { false }
                }
                #expect(completions <= 1, "died after \(point) calls")
            }
            bench.clock.advance(by: 3601)
            #expect(await services.sweep.run().failures == 0)
            bench.clock.advance(by: 3601)
            #expect(await services.sweep.run().failures == 0)
            let alive = try await services.uploads.list(UploadQuery()).filter {
                $0.state == .open || $0.state == .completed
            }
            #expect(Set(alive.map(\.id)) == Set(try await bench.storage.list(after: nil, limit: 10)), "\(point)")
            // Parts and unknown remnants expire; a final upload whose response was lost may have been joined.
            #expect(alive.allSatisfy { $0.state == .completed && $0.concatenation?.parts != nil }, "\(point)")
            if known.isFinished { break }
            point += 1
        }
        #expect(point > 15)
    }
}
