import Bytes
import Foundation
import SluiceTesting
import Testing

@testable import UploadCore
@testable import UploadModel

@Suite("Crashes", .timeLimit(.minutes(10)))
struct UploadServiceCrashTests {
    private static let bytes = [UInt8](1...10)

    /// What a client knows from the responses that it received.
    private struct Knowledge {
        var id: UploadID?
        var acknowledged: Int64 = 0
        var isComplete = false
        var askedToTerminate = false
        var isFinished = false
    }

    /// Creates, appends twice and optionally terminates, until a call fails.
    private func client(_ bench: ServiceBench, terminating: Bool) async -> Knowledge {
        var known = Knowledge()
        do throws(UploadError) {
            let grant = bench.grant("once", isOneTime: true)
            let id = try await bench.services.uploads.create(NewUpload(dialect: "tus", length: 10), under: grant).id
            known.id = id
            known.acknowledged = try await bench.append(Array(Self.bytes[..<4]), to: id, at: 0).offset
            let upload = try await bench.append(Array(Self.bytes[4...]), to: id, at: 4)
            known.acknowledged = upload.offset
            known.isComplete = upload.state == .completed
            if terminating {
                known.askedToTerminate = true
                try await bench.services.uploads.terminate(id)
            }
            known.isFinished = true
        } catch {
            // The process died: the client stops.
        }
        return known
    }

    @Test("after a crash at any point, no acknowledged byte is lost and nothing is left", arguments: [false, true])
    func everyPoint(terminating: Bool) async throws {
        var point = 0
        while true {
            let bench = ServiceBench(limits: UploadLimits(lifetime: 24 * 3600))
            bench.fuse.burn(afterCalls: point)
            let known = await client(bench, terminating: terminating)
            let services = bench.restarted()
            bench.clock.advance(by: 3601)
            let report = await services.sweep.run()
            #expect(report.failures == 0, "died after \(point) calls")

            let uploads = try await services.uploads.list(UploadQuery())
            let alive = uploads.filter { $0.state == .open || $0.state == .completed }
            #expect(Set(alive.map(\.id)) == Set(try await bench.storage.list(after: nil, limit: 10)), "\(point)")
            if let id = known.id {
                let upload = try #require(uploads.first { $0.id == id })
                if known.askedToTerminate, upload.state == .terminated {
                    #expect(try await bench.storage.list(after: nil, limit: 10) == [])
                } else {
                    try await resume(id, services, bench, known)
                }
            } else {
                #expect(uploads.count <= 1)
            }
            if known.isFinished { break }
            point += 1
        }
        #expect(point > 5)
    }

    private func resume(_ id: UploadID, _ services: UploadServices, _ bench: ServiceBench, _ known: Knowledge)
        async throws
    {
        let upload = try await services.uploads.status(of: id)
        #expect(upload.offset >= known.acknowledged)
        if known.isComplete { #expect(upload.state == .completed) }
        if upload.state == .open {
            let rest = Array(Self.bytes[Int(upload.offset)...])
            let source = ArraySource(rest)
            let end = try await services.uploads.append(
                to: id,
                at: upload.offset,
                contentLength: nil,
                expecting: nil,
                from: source
            )
            #expect(end.state == .completed)
        }
        #expect(try await bench.contents(of: id) == Self.bytes)
        #expect(try await services.media.media(id).size == 10)
    }

    @Test(
        "an upload with all its bytes but without completion is completed by the next access",
        arguments: ["status", "append", "wrong append", "sweep", "late sweep"]
    )
    func unrecordedCompletion(recovering: String) async throws {
        let bench = ServiceBench()
        let id = try await bench.upload(3)
        bench.state.plan.fail(.complete)
        #expect(await code { try await bench.append([1, 2, 3], to: id, at: 0) } == .storageFailure)
        #expect(try await bench.services.uploads.inspect(id).state == .open)
        switch recovering {
        case "status":
            #expect(try await bench.services.uploads.status(of: id).state == .completed)
        case "append":
            #expect(try await bench.append([], to: id, at: 3).state == .completed)
        case "wrong append":
            let result = await code { try await bench.append([1], to: id, at: 0) }
            #expect(result == .offsetMismatch(expected: 3))
        default:
            // It must be completed rather than expire, even after its expiry.
            if recovering == "late sweep" { bench.clock.advance(by: 7200) }
            var expected = SweepReport()
            expected.completed = 1
            #expect(await bench.services.sweep.run() == expected)
        }
        #expect(try await bench.services.uploads.inspect(id).state == .completed)
        #expect(try await bench.contents(of: id) == [1, 2, 3])
        #expect(bench.observer.story == ["created", "appended 3", "failed", "completed"])
    }

    @Test("if synchronising fails, the upload is not complete, and the next request tries again")
    func synchronizeFails() async throws {
        let bench = ServiceBench()
        let id = try await bench.upload(3)
        bench.storage.plan.fail(.synchronize)
        #expect(await code { try await bench.append([1, 2, 3], to: id, at: 0) } == .storageFailure)
        #expect(await code { try await bench.services.media.media(id) } == .notFound)
        #expect(try await bench.services.uploads.status(of: id).state == .completed)
    }
}
