import Bytes
import Foundation
import HTTPWire
import SluiceTesting
import Testing
import UploadCore
import UploadModel

@testable import VODKit
@testable import Vimeo

@Suite("Uploads of Vimeo's videos", .timeLimit(.minutes(10)))
struct VimeoUploadsTests {
    private static let bytes: [UInt8] = Array(0..<10)

    private static func failure(_ body: () async throws -> Void) async -> VimeoFailure? {
        do {
            try await body()
            return nil
        } catch let error as VimeoError {
            return error.failure
        } catch {
            return (error as? UploadError).map(VimeoFailure.init)
        }
    }

    @Test("a streamed file makes a video, whether its size was announced or not", arguments: [10, nil], [10, nil])
    func streaming(size: Int64?, total: Int64?) async throws {
        let bench = try VimeoBench()
        let entry = try await bench.create(.streaming, size)
        #expect(entry.status == .uploading)
        #expect(try await bench.put(Self.bytes, of: total, to: entry) == .stored)
        #expect(try await bench.current(entry)?.status == .available)
        #expect(try await bench.content(entry) == Self.bytes)
        // The response was lost.
        #expect(try await bench.put(Self.bytes, of: total, to: entry) == .stored)
        #expect(try await bench.content(entry) == Self.bytes)
    }

    @Test("an empty file is a video at once")
    func empty() async throws {
        let bench = try VimeoBench()
        for approach in [VimeoVideo.Approach.tus, .streaming, .post] {
            #expect(try await bench.create(approach, 0).status == .available)
        }
    }

    @Test("a ticket becomes a video when it is completed, once and again; before, bytes may be missing")
    func ticket() async throws {
        let bench = try VimeoBench()
        for size in [10, nil] as [Int64?] {
            let entry = try await bench.create(.ticket, size)
            if size != nil {
                #expect(await Self.failure { _ = try await bench.uploads.complete(entry) }?.code == 4011)
            }
            #expect(try await bench.put(Array(Self.bytes.prefix(4)), of: 10, to: entry) == .stored)
            #expect(try await bench.uploads.count(of: try #require(try await bench.current(entry))) == 4)
            let open = try #require(try await bench.current(entry))
            #expect(await Self.failure { _ = try await bench.uploads.complete(open) }?.code == 4011)
            #expect(try await bench.videos().isEmpty == (size != nil))
            // The whole length is announced again, but only the rest comes.
            #expect(try await bench.put(Array(Self.bytes.dropFirst(4)), from: 4, of: 10, to: entry) == .stored)
            let full = try #require(try await bench.current(entry))
            #expect(full.video.isTicket && full.upload?.state == .open)
            for _ in 0..<2 {
                let entry = try #require(try await bench.current(entry))
                let video = try await bench.uploads.complete(entry)
                #expect(video.uri == entry.video.uri && !video.isTicket)
            }
            #expect(try await bench.current(entry)?.status == .available)
            #expect(try await bench.content(entry) == Self.bytes)
        }
        #expect(try await bench.videos().count == 2)
    }

    @Test("a ticket of which nobody said a size, and to which nobody sent bytes, becomes an empty video")
    func emptyTicket() async throws {
        let bench = try VimeoBench()
        let entry = try await bench.create(.ticket, nil)
        for _ in 0..<2 {
            _ = try await bench.uploads.complete(try #require(try await bench.current(entry)))
            #expect(try await bench.current(entry)?.status == .available)
        }
        #expect(try await bench.content(entry).isEmpty)
        // Not if its bytes were refused.
        let refused = try await bench.create(.ticket, nil)
        #expect(await Self.code { _ = try await bench.put(Self.bytes + [1], of: 10, to: refused) } != nil)
        let current = try #require(try await bench.current(refused))
        #expect(await Self.failure { _ = try await bench.uploads.complete(current) }?.code == 2502)
    }

    @Test("content from 0 takes the place of what was there; from before the end it is passed over; after it, refused")
    func positions() async throws {
        let bench = try VimeoBench()
        for approach in [VimeoVideo.Approach.streaming, .ticket] {
            let entry = try await bench.create(approach)
            #expect(try await bench.put([9, 9, 9, 9], of: 10, to: entry) == .stored)
            let first = try #require(try await bench.current(entry)?.video.uploadID)
            #expect(try await bench.put([1], from: 5, of: 10, to: entry) == .count(4))
            #expect(try await bench.put(Array(Self.bytes.prefix(6)), of: 10, to: entry) == .stored)
            let second = try #require(try await bench.current(entry)?.video.uploadID)
            #expect(first != second)
            let ended = try #require(UploadID(first))
            #expect(try await bench.state.upload(ended)?.state == .terminated)
            #expect(try await bench.put(Array(Self.bytes.dropFirst(3)), from: 3, of: 10, to: entry) == .stored)
            if approach == .ticket {
                _ = try await bench.uploads.complete(try #require(try await bench.current(entry)))
            }
            #expect(try await bench.content(entry) == Self.bytes)
        }
    }

    private static func code(_ body: () async throws -> Void) async -> UploadError.Code? {
        do {
            try await body()
            return nil
        } catch {
            if case .core(let cause) = error as? VimeoError { return cause.code }
            return (error as? UploadError)?.code
        }
    }

    @Test("more bytes than the file has are not waited for", arguments: [VimeoVideo.Approach.streaming, .ticket])
    func announcedExcess(approach: VimeoVideo.Approach) async throws {
        for (size, total) in [(10, 10), (10, nil), (nil, 10)] as [(Int64?, Int64?)] {
            let bench = try VimeoBench()
            let entry = try await bench.create(approach, size)
            let current = try #require(try await bench.current(entry))
            let source = ScriptedSource([.bytes(Self.bytes), .stall, .bytes([77])], isLengthKnown: true)
            #expect(try await bench.uploads.put(source, from: 0, of: total, to: current) == .stored)
            #expect(try await bench.content(entry) == Self.bytes)
        }
    }

    @Test(
        "more bytes than the file has that are really sent are refused, and nothing of them stays",
        arguments: [VimeoVideo.Approach.streaming, .post, .ticket],
        [true, false]
    )
    func sentExcess(approach: VimeoVideo.Approach, isLengthKnown: Bool) async throws {
        for (size, total, isWhole) in [(10, 10, false), (10, nil, false), (10, nil, true), (nil, 10, false)]
            as [(Int64?, Int64?, Bool)]
        {
            let bench = try VimeoBench()
            let entry = try await bench.create(approach, size)
            for before in [0, 3] as [Int64] {
                let bytes = Array(Self.bytes.dropFirst(Int(before))) + [77]
                let source = ScriptedSource([.bytes(bytes)], isLengthKnown: isLengthKnown)
                if before > 0 {
                    #expect(try await bench.put(Array(Self.bytes.prefix(Int(before))), of: 10, to: entry) == .stored)
                }
                let current = try #require(try await bench.current(entry))
                let code = await Self.code {
                    _ = try await bench.uploads.put(
                        source,
                        from: before,
                        of: total,
                        isWhole: isWhole && before == 0,
                        to: current
                    )
                }
                #expect(code == .lengthExceeded(length: 10), "\(total ?? 0) \(isWhole) \(before)")
                let left = try #require(try await bench.current(entry))
                #expect(try await bench.uploads.count(of: left) == 0)
                // Its client may not have read the answer.
                #expect(left.status == .uploadingError)
            }
            // What the client says is enough.
            #expect(
                await Self.code { _ = try await bench.put(Self.bytes, of: size == nil ? 2000 : 11, to: entry) } != nil
            )
            #expect(try await bench.put(Self.bytes, of: 10, to: entry) == .stored)
            #expect(try await bench.content(entry) == Self.bytes)
            #expect(try await bench.current(entry)?.status == (approach == .ticket ? .uploading : .available))
        }
    }

    @Test("for a complete file the same content is accepted again, and no other")
    func repeated() async throws {
        let bench = try VimeoBench()
        let others: [[UInt8]] = [
            [9] + Self.bytes.dropFirst(), Self.bytes.dropLast() + [0], Self.bytes + [1], Array(Self.bytes.dropLast()),
        ]
        for approach in [VimeoVideo.Approach.streaming, .post, .ticket] {
            let entry = try await bench.create(approach)
            #expect(try await bench.put(Self.bytes, of: 10, to: entry) == .stored)
            if approach == .ticket {
                _ = try await bench.uploads.complete(try #require(try await bench.current(entry)))
            }
            let current = try #require(try await bench.current(entry))
            func put(_ bytes: [UInt8], from start: Int64 = 0, isLengthKnown: Bool, isWhole: Bool) async throws
                -> VimeoUploads.Outcome
            {
                let source = ScriptedSource([.bytes(bytes)], isLengthKnown: isLengthKnown)
                return try await bench.uploads.put(source, from: start, of: nil, isWhole: isWhole, to: current)
            }
            for isLengthKnown in [true, false] {
                #expect(try await put(Self.bytes, isLengthKnown: isLengthKnown, isWhole: true) == .stored)
                #expect(try await put([7, 8, 9], from: 7, isLengthKnown: isLengthKnown, isWhole: false) == .stored)
                #expect(try await put([], isLengthKnown: isLengthKnown, isWhole: true) == .count(10))
                #expect(try await put([1], from: 11, isLengthKnown: isLengthKnown, isWhole: false) == .count(10))
                for other in others {
                    let failure = await Self.failure {
                        _ = try await put(other, isLengthKnown: isLengthKnown, isWhole: true)
                    }
                    #expect(failure != nil, "\(other)")
                }
                let failure = await Self.failure {
                    _ = try await put([8, 8], from: 7, isLengthKnown: isLengthKnown, isWhole: false)
                }
                #expect(failure?.status == 409)
            }
            #expect(try await bench.content(entry) == Self.bytes)
        }
    }

    @Test(
        "a request without content changes nothing",
        arguments: [VimeoVideo.Approach.streaming, .post, .ticket],
        [10, nil] as [Int64?]
    )
    func stray(approach: VimeoVideo.Approach, size: Int64?) async throws {
        let bench = try VimeoBench()
        let entry = try await bench.create(approach, size)
        for stored in [0, 4] as [Int64] {
            if stored > 0 {
                #expect(try await bench.put(Array(Self.bytes.prefix(4)), of: 10, to: entry) == .stored)
            }
            for (total, isWhole) in [(nil, true), (10, false), (nil, false)] as [(Int64?, Bool)] {
                for isLengthKnown in [true, false] {
                    let source = ScriptedSource([], isLengthKnown: isLengthKnown)
                    let current = try #require(try await bench.current(entry))
                    let outcome = try await bench.uploads.put(source, from: 0, of: total, isWhole: isWhole, to: current)
                    #expect(outcome == .count(stored))
                }
            }
            let current = try #require(try await bench.current(entry))
            #expect(try await bench.uploads.count(of: current) == stored && current.status == .uploading)
        }
        #expect(try await bench.put(Array(Self.bytes.dropFirst(4)), from: 4, of: 10, to: entry) == .stored)
        #expect(try await bench.content(entry) == Self.bytes)
    }

    @Test("whoever asks, or cannot add anything, does not end a running request", arguments: [true, false])
    func probes(isLengthKnown: Bool) async throws {
        let bench = try VimeoBench()
        for approach in [VimeoVideo.Approach.streaming, .ticket] {
            let entry = try await bench.create(approach)
            let current = try #require(try await bench.current(entry))
            // All bytes but the last one, or, if nobody knows how many come, all of them, but not their end.
            let first = isLengthKnown ? Array(Self.bytes.dropLast()) : Self.bytes
            let source = ScriptedSource(
                [.bytes(first), .stall, .bytes(Array(Self.bytes.dropFirst(first.count)))],
                isLengthKnown: isLengthKnown
            )
            async let outcome = bench.uploads.put(source, from: 0, of: 10, to: current)
            await source.waitUntilStalled()
            for _ in 0..<2 {
                let found = try #require(try await bench.current(entry))
                #expect(try await bench.uploads.count(of: found) == 9)
                #expect(try await bench.uploads.polled(found).status == .uploading)
                #expect(try await bench.put([], from: 0, of: nil, to: entry) == .count(9))
                #expect(try await bench.put([1], from: 10, of: 11, to: entry) == .count(9))
                #expect(source.interruptions == 0)
            }
            source.proceed()
            #expect(try await outcome == .stored)
            #expect(try await bench.content(entry) == Self.bytes)
        }
    }

    @Test("wherever the gateway dies when a client begins anew, the video stays, and another PUT brings the bytes")
    func anew() async throws {
        var calls = 0
        while true {
            let bench = try VimeoBench()
            let entry = try await bench.create(.streaming)
            _ = try await bench.put([9, 9, 9, 9], of: 10, to: entry)
            let current = try #require(try await bench.current(entry))
            bench.fuse.burn(afterCalls: calls)
            let isOver =
                (try? await bench.uploads.put(ArraySource(Self.bytes), from: 0, of: 10, to: current)) == .stored
            bench.fuse.replace()
            #expect(try await bench.current(entry) != nil, "\(calls)")
            #expect(try await bench.put(Self.bytes, of: 10, to: entry) == .stored, "\(calls)")
            #expect(try await bench.current(entry)?.status == .available, "\(calls)")
            #expect(try await bench.content(entry) == Self.bytes, "\(calls)")
            if isOver { break }
            calls += 1
        }
        #expect(calls > 8)
    }

    @Test("of two that begin anew at the same time, the content is that of one")
    func together() async throws {
        let bench = try VimeoBench()
        for approach in [VimeoVideo.Approach.streaming, .ticket] {
            for _ in 0..<20 {
                let entry = try await bench.create(approach)
                _ = try await bench.put([9, 9], of: 10, to: entry)
                bench.state.plan.pause { await Task.yield() }
                let stored = await withTaskGroup(of: Bool.self) { group in
                    for number in 1...4 {
                        group.addTask {
                            let bytes = [UInt8](repeating: UInt8(number), count: 10)
                            return (try? await bench.put(bytes, of: 10, to: entry)) == .stored
                        }
                    }
                    return await group.reduce(into: false) { $0 = $0 || $1 }
                }
                #expect(stored)
                if approach == .ticket {
                    _ = try await bench.uploads.complete(try #require(try await bench.current(entry)))
                }
                let content = try await bench.content(entry)
                #expect(Set(content).count == 1 && content.count == 10, "\(content)")
            }
        }
    }

    @Test("what is completed while another client begins anew stays, also if the gateway dies then")
    func completedMeanwhile() async throws {
        let bench = try VimeoBench()
        let entry = try await bench.create(.streaming)
        _ = try await bench.put([9, 9], of: 10, to: entry)
        let rest = [UInt8](repeating: 8, count: 8)
        bench.state.plan.before(.replaceRecord) {
            #expect(await (try? bench.put(rest, from: 2, of: 10, to: entry)) == .stored)
        }
        let newer = [UInt8](repeating: 7, count: 10)
        #expect(await Self.failure { _ = try await bench.put(newer, of: 10, to: entry) }?.status == 409)
        #expect(try await bench.content(entry) == [9, 9] + rest)

        // The gateway died after the record had lost its upload.
        let current = try #require(try await bench.current(entry))
        _ = try await bench.library.change(current) { video in
            var video = video
            (video.uploadID, video.replacedID) = (nil, video.uploadID)
            return video
        }
        let found = try #require(try await bench.current(entry))
        #expect(found.status == .available)
        #expect(await Self.failure { _ = try await bench.put(newer, of: 10, to: found) }?.status == 409)
        #expect(try await bench.content(entry) == [9, 9] + rest)
        #expect(try await bench.library.delete(found))
        #expect(try await bench.services.uploads.list(UploadQuery()).filter(\.isAlive).isEmpty)
    }

    @Test("a file whose bytes are all there is complete for whoever asks, wherever the gateway died")
    func completedLater() async throws {
        for isPolled in [false, true] {
            var calls = 0
            while true {
                let bench = try VimeoBench()
                let entry = try await bench.create(.streaming)
                bench.fuse.burn(afterCalls: calls)
                let outcome = try? await bench.put(Self.bytes, of: 10, to: entry)
                bench.fuse.replace()
                let current = try #require(try await bench.current(entry))
                let isWhole = try await bench.storage.currentLength(of: try #require(current.upload).id) == 10
                let found = isPolled ? try await bench.uploads.polled(current) : current
                if !isPolled { #expect(try await bench.uploads.count(of: current) == (isWhole ? 10 : 0)) }
                let status = isPolled ? found.status : try #require(try await bench.current(entry)).status
                #expect(status == (isWhole ? .available : .uploading), "\(calls)")
                if outcome == .stored { break }
                calls += 1
            }
            #expect(calls > 2)
        }
    }

    @Test("a creation that fails leaves no video, wherever the gateway dies")
    func creation() async throws {
        for approach in [VimeoVideo.Approach.tus, .ticket] {
            var calls = 0
            while true {
                let bench = try VimeoBench()
                bench.fuse.burn(afterCalls: calls)
                let entry = try? await bench.create(approach)
                bench.fuse.replace()
                let found = try await bench.videos()
                #expect(found.count <= (approach == .ticket ? 0 : 1))
                if entry != nil { break }
                calls += 1
            }
            #expect(calls > 2)
        }
    }

    @Test("a deleted video is gone with its bytes, wherever the gateway dies; its link too")
    func deletion() async throws {
        for isComplete in [true, false] {
            var calls = 0
            while true {
                let bench = try VimeoBench()
                let entry = try await bench.create(.streaming)
                _ = try await bench.put(isComplete ? Self.bytes : [1], of: 10, to: entry)
                let current = try #require(try await bench.current(entry))
                bench.fuse.burn(afterCalls: calls)
                let isOver = (try? await bench.library.delete(current)) == true
                bench.fuse.replace()
                if let left = try await bench.current(entry) {
                    // Nothing happened yet.
                    #expect(!isOver)
                    #expect(try await bench.library.delete(left))
                }
                #expect(try await bench.current(entry) == nil)
                #expect(try await bench.library.entry(at: entry.record.record.key) == nil)
                // By the client, or by and by.
                if calls.isMultiple(of: 2) {
                    try await bench.library.finishDeletion(entry.video.id, of: entry.video.user)
                } else {
                    try await bench.library.lookAtOpen()
                }
                #expect(try await bench.services.uploads.list(UploadQuery()).filter(\.isAlive).isEmpty)
                #expect(try await bench.state.records(VimeoVideo.recordKind, prefix: "", after: nil, limit: 10).isEmpty)
                if isOver { break }
                calls += 1
            }
            #expect(calls > 1)
        }
    }

    @Test("quotas refuse at creation and when bytes come; the total of a token too")
    func quotas() async throws {
        let bench = try VimeoBench()
        var policy = Policy()
        policy.storedBytes = 15
        try await bench.services.quota.setPolicy(policy, of: Account(.subject, "dora"))
        #expect(await Self.failure { _ = try await bench.create(.tus, 16) }?.code == 4101)
        let entry = try await bench.create(.streaming, nil)
        let other = try await bench.create(.tus, 10)
        #expect(await Self.failure { _ = try await bench.put(Self.bytes, of: 10, to: entry) }?.code == 4101)
        #expect(try await bench.current(entry)?.status == .quotaExceeded)
        #expect(try await bench.library.delete(other))
        #expect(try await bench.put(Self.bytes, of: 10, to: entry) == .stored)
        #expect(try await bench.current(entry)?.status == .available)
        let limited = bench.caller("eve", total: 12)
        _ = try await bench.create(.tus, 12, by: limited)
        #expect(await Self.failure { _ = try await bench.create(.tus, 1, by: limited) }?.code == 4101)
        // Beginning anew gives back what was reserved before.
        policy.storedBytes = 10
        try await bench.services.quota.setPolicy(policy, of: Account(.subject, "eli"))
        let again = try await bench.create(.streaming, 10, by: bench.caller("eli"))
        _ = try await bench.put([1, 2], of: 10, to: again)
        #expect(try await bench.put(Self.bytes, of: 10, to: again) == .stored)
    }

    @Test("videos without content end, and no record stays")
    func expiry() async throws {
        let bench = try VimeoBench()
        let entry = try await bench.create(.tus)
        let ticket = try await bench.create(.ticket)
        bench.clock.advance(by: VimeoBench.lifetime - 10)
        #expect(try await bench.current(entry) != nil)
        bench.clock.advance(by: 20)
        #expect(try await bench.current(entry) == nil)
        #expect(try await bench.current(ticket) == nil)
        #expect(try await bench.state.records(VimeoVideo.recordKind, prefix: "", after: nil, limit: 10).isEmpty)
    }

    @Test("links belong to one video of one user, and to this server")
    func links() async throws {
        let bench = try VimeoBench()
        let entry = try await bench.create(.streaming)
        let other = try await bench.create(.streaming, by: bench.caller("eve"))
        let path = String(bench.links.path(entry.video).split(separator: "/").last ?? "")
        let target = try #require(bench.links.target(path))
        #expect(target.recordKey == entry.video.recordKey)
        #expect(bench.links.verifies(target, "dora"))
        #expect(!bench.links.verifies(target, "eve"))
        let foreign = try #require(
            bench.links.target(String(bench.links.path(other.video).split(separator: "/").last ?? ""))
        )
        var mixed = target
        mixed.signature = foreign.signature
        #expect(!bench.links.verifies(mixed, "dora"))
        for index in path.indices {
            var changed = path
            changed.replaceSubrange(index...index, with: path[index] == "1" ? "2" : "1")
            let isRefused = bench.links.target(changed).map { !bench.links.verifies($0, "dora") } ?? true
            #expect(isRefused, "\(changed)")
        }
        let signature = try #require(bench.links.completionURI(entry.video).split(separator: "=").last)
        for (video, isSigned) in [(entry.video, true), (other.video, false)] {
            #expect(bench.links.verifiesTicket(video.id, of: video.user, String(signature)) == isSigned)
        }
    }

    @Test("tokens: of this server, for their time, until they are revoked; codes are used once")
    func tokens() async throws {
        let bench = try VimeoBench()
        let grant = bench.tokens.grant(issuer: nil, subject: "dora", total: 5, lifetime: 60)
        let content = VimeoTokens.Content(grant: grant, scopes: ["upload", "unknown"])
        let token = bench.tokens.seal(content)
        let caller = try #require(try await bench.tokens.caller(token))
        #expect(caller.scopes == [.upload] && caller.grant.storedBytes == 5)
        for wrong in [
            "", "slv_", token + "A", String(token.dropLast()), token.replacing("slv_", with: "slc_"),
            "slg_" + token.dropFirst(4),
        ] {
            #expect(try await bench.tokens.caller(wrong) == nil)
        }
        bench.clock.advance(by: 59)
        #expect(try await bench.tokens.caller(token) != nil)
        try await bench.tokens.revoke(caller)
        #expect(try await bench.tokens.caller(token) == nil)
        let other = bench.tokens.seal(
            VimeoTokens.Content(
                grant: bench.tokens.grant(issuer: nil, subject: "dora", total: nil, lifetime: 60),
                scopes: []
            )
        )
        #expect(try await bench.tokens.caller(other) != nil)
        bench.clock.advance(by: 60)
        #expect(try await bench.tokens.caller(other) == nil)
        let code = bench.tokens.seal(
            VimeoTokens.Content(
                grant: bench.tokens.grant(issuer: nil, subject: "dora", total: nil, lifetime: 60),
                scopes: ["upload"],
                isCode: true
            )
        )
        #expect(try await bench.tokens.caller(code) == nil)
        #expect(try await bench.tokens.exchange(token) == nil)
        #expect(try await bench.tokens.exchange(code)?.scopes == ["upload"])
        #expect(try await bench.tokens.exchange(code) == nil)
    }

    @Test("calls are limited in each minute, for each user")
    func rates() {
        let rates = VimeoRates(perMinute: 2)
        let start = Date(timeIntervalSince1970: 600)
        #expect(rates.call(by: "dora", at: start).remaining == 1)
        #expect(rates.call(by: "dora", at: start + 59).isAllowed)
        let refused = rates.call(by: "dora", at: start + 59.9)
        #expect(!refused.isAllowed && refused.remaining == 0 && refused.resetsAt == start + 60)
        #expect(rates.call(by: "eve", at: start + 59.9).isAllowed)
        #expect(rates.call(by: "dora", at: start + 60).isAllowed)
    }
}
