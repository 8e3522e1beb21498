import Bytes
import Foundation
import SluiceTesting
import Synchronization
import Testing

@testable import UploadCore
@testable import UploadModel

/// A source that delivers one byte at a time while others run; its client may disconnect after them.
private final class PausingSource: ByteSource {
    private let base: ScriptedSource
    private let executor: SeededExecutor

    init(_ bytes: [UInt8], isCut: Bool, _ executor: SeededExecutor) {
        base = ScriptedSource([.bytes(bytes)] + (isCut ? [.fail(.disconnected)] : []))
        self.executor = executor
    }

    var remaining: Int64? { nil }
    var interrupter: SourceInterrupter { base.interrupter }

    func next(maximum: Int) async throws(SourceFailure) -> [UInt8]? {
        await executor.pause()
        return try await base.next(maximum: 1)
    }
}

/// A source whose bytes have all arrived; others run before they are taken.
private final class ArrivedSource: ByteSource {
    private let base: ArraySource
    private let executor: SeededExecutor

    init(_ bytes: [UInt8], _ executor: SeededExecutor) {
        base = ArraySource(bytes)
        self.executor = executor
    }

    var remaining: Int64? { base.remaining }
    var interrupter: SourceInterrupter { base.interrupter }

    func arrives(_ count: Int) async -> Bool {
        await executor.pause()
        return await base.arrives(count)
    }

    func next(maximum: Int) async throws(SourceFailure) -> [UInt8]? {
        await executor.pause()
        return try await base.next(maximum: maximum)
    }
}

/// Counts calls and replies.
private final class Moments: Sendable {
    private let last = Mutex(0)

    func next() -> Int {
        last.withLock { last in
            last += 1
            return last
        }
    }
}

/// A service and its clients.
private struct HistoryBench {
    static let streams = 2
    static let multiparts = 3
    static let clients = 5
    static let callsOfClient = 4

    let bench: ServiceBench
    let executor: SeededExecutor
    let streams: [UploadID]
    let multiparts: [UploadID]
    /// Whether an abort checks the upload first, and then ends it in whatever state it is.
    let looksFirst: Bool
    private let moments = Moments()

    private static let names = [0, 1].map { ObjectName(bucket: "media", key: "key \($0)") }

    init(_ seed: UInt64, _ executor: SeededExecutor, looksFirst: Bool = false) async throws {
        self.looksFirst = looksFirst
        // Half of the runs do without protected writers, so that everything depends on the seed alone.
        let turn = Duration.seconds(seed.isMultiple(of: 2) ? 0 : 1)
        let bench = ServiceBench(limits: UploadLimits(maximumBytes: 1000, lifetime: 3600, protectedTurn: turn))
        self.bench = bench
        self.executor = executor
        _ = try await bench.services.objects.createBucket("media")
        var ids: [UploadID] = []
        for _ in 0..<Self.streams { ids.append(try await bench.upload(Int64(ServiceModel.length))) }
        streams = ids
        ids = []
        for index in 0..<Self.multiparts {
            ids.append(try await bench.begin(Self.names[ServiceModel.key(of: index)]))
        }
        multiparts = ids
        bench.state.plan.pause { await executor.pause() }
        bench.storage.plan.pause { await executor.pause() }
    }

    func history(_ seed: UInt64) async -> ServiceHistory {
        let entries = await withTaskGroup(of: [ServiceHistory.Entry].self) { group in
            for client in 0..<Self.clients {
                group.addTask {
                    var generator = SeededGenerator(seed: seed &* 31 &+ UInt64(client))
                    var entries: [ServiceHistory.Entry] = []
                    for _ in 0..<Self.callsOfClient {
                        let call = ServiceCall.random(using: &generator)
                        let calledAt = moments.next()
                        let reply = await reply(to: call)
                        entries.append(
                            .init(
                                client: client,
                                call: call,
                                reply: reply,
                                calledAt: calledAt,
                                repliedAt: moments.next()
                            )
                        )
                    }
                    return entries
                }
            }
            return await group.reduce(into: []) { $0 += $1 }
        }
        return ServiceHistory(entries: entries)
    }

    private func reply(to call: ServiceCall) async -> ServiceReply {
        do throws(UploadError) {
            return try await response(to: call)
        } catch {
            return .failed(error.code)
        }
    }

    private func response(to call: ServiceCall) async throws(UploadError) -> ServiceReply {
        let services = bench.services
        switch call {
        case .createOnce:
            let grant = bench.grant("once", isOneTime: true)
            _ = try await services.uploads.create(NewUpload(dialect: "tus", length: 4), under: grant)
            return .done
        case .append(let index, let offset, let bytes):
            return try await append(PausingSource(bytes, isCut: false, executor), bytes.count, at: offset, to: index)
        case .appendSmall(let index, let offset, let bytes):
            return try await append(ArrivedSource(bytes, executor), bytes.count, at: offset, to: index)
        case .appendCut(let index, let offset, let bytes):
            return try await append(PausingSource(bytes, isCut: true, executor), bytes.count + 1, at: offset, to: index)
        case .status(let index):
            let upload = try await services.uploads.status(of: streams[index])
            return .offset(upload.state, upload.offset)
        case .inspect(let index): return .state(try await services.uploads.inspect(streams[index]).state)
        case .terminate(let index): try await services.uploads.terminate(streams[index])
        case .stop(let index): try await services.uploads.stop(streams[index], response: HookResponse())
        case .discard(let index): await services.uploads.discard(streams[index], .open)
        case .setMetadata(let index, let value):
            _ = try await services.uploads.editMetadata(of: streams[index]) { _ in UploadMetadata(raw: value) }
        case .metadata(let index): return .text(try await services.uploads.recorded(streams[index]).metadata.raw ?? "")
        case .media(let index): _ = try await services.media.media(streams[index])
        case .putPart(let index, let number, let byte):
            let content = bench.content([byte], isPlain: byte % 2 == 0)
            _ = try await services.putPart(number, of: multiparts[index], content, minimumSize: 0)
        case .parts(let index):
            let (_, parts) = try await services.parts.parts(of: multiparts[index], after: 0, limit: 10)
            return .parts(Dictionary(uniqueKeysWithValues: parts.map { ($0.number, $0.entityTag) }))
        case .complete(let index, let named, let condition):
            let parts = named.sorted { $0.key < $1.key }.map {
                NamedPart(number: $0.key, entityTag: ServiceModel.tag($0.value))
            }
            _ = try await services.parts.completeParts(
                parts,
                of: multiparts[index],
                minimumSize: 0,
                if: condition.asAsked
            ) {
                attributes,
                records in
                attributes.entityTag = records.map(\.entityTag).joined(separator: "+")
            }
        case .abort(let index) where looksFirst:
            switch try await services.uploads.recorded(multiparts[index]).state {
            case .open: try await services.uploads.terminate(multiparts[index])
            case .completed: return .failed(.notOpen)
            case .terminated, .expired: return .failed(.gone)
            }
        case .abort(let index): try await services.uploads.terminate(multiparts[index], .open)
        case .terminateParts(let index): try await services.uploads.terminate(multiparts[index])
        case .put(let key, let byte, let condition):
            try await bench.put([byte], Self.names[key], if: condition.asAsked)
        case .remove(let key): return .flag(try await services.objects.removeObject(Self.names[key]))
        case .object(let key): return .text(try await services.objects.object(Self.names[key])?.attributes?.entityTag)
        case .read(let key):
            let (_, source) = try await services.objects.readObject(Self.names[key]) { 0..<$0.size }
            return .bytes((try? await source.collect(limit: 100)) ?? [])
        case .setTags(let key, let value):
            try await services.objects.setTags(of: Self.names[key], to: ["tag": value], under: bench.grant())
        case .tags(let key):
            let object = try await services.objects.object(Self.names[key])
            return .text(object.map { $0.attributes?.tags["tag"] ?? "" })
        case .list:
            let objects = try await services.objects.objects(ObjectQuery(bucket: "media", limit: 10))
            let pairs = objects.compactMap { object in
                Self.names.firstIndex { $0.key == object.key }.map { ($0, object.entityTag ?? "") }
            }
            return .tags(Dictionary(uniqueKeysWithValues: pairs))
        case .sweep: _ = await services.sweep.run()
        }
        return .done
    }

    private func append(
        _ source: any ByteSource,
        _ announced: Int,
        at offset: Int,
        to index: Int
    ) async throws(UploadError) -> ServiceReply {
        let upload = try await bench.services.uploads.append(
            to: streams[index],
            at: Int64(offset),
            contentLength: Int64(announced),
            expecting: nil,
            from: source
        )
        return .offset(upload.state, upload.offset)
    }
}

extension ServiceCall.Condition {
    fileprivate var asAsked: ObjectCondition? {
        switch self {
        case .none: nil
        case .isAbsent: .isAbsent
        case .hasTag(let byte): .hasTag(ServiceModel.tag(byte))
        }
    }
}

extension ServiceCall {
    fileprivate static func random(using generator: inout SeededGenerator) -> ServiceCall {
        func below(_ count: Int) -> Int { Int.random(in: 0..<count, using: &generator) }
        let (stream, multipart, key) = (below(HistoryBench.streams), below(HistoryBench.multiparts), below(2))
        let byte = UInt8(below(2))
        let condition = [Condition.none, .none, .isAbsent, .hasTag(UInt8(below(2)))][below(4)]
        let bytes = [UInt8](repeating: byte, count: 1 + below(3))
        switch below(32) {
        case 0: return .createOnce
        case 1: return .append(stream, at: 0, bytes + [byte])
        case 2: return .appendSmall(stream, at: 0, bytes)
        case 3: return .appendSmall(stream, at: 1 + below(3), Array(bytes.prefix(1 + below(2))))
        case 4: return .append(stream, at: below(4), bytes)
        case 5: return .appendCut(stream, at: below(2), bytes)
        case 6: return .status(stream)
        case 7: return .inspect(stream)
        case 8: return .terminate(stream)
        case 9: return below(2) == 0 ? .stop(stream) : .discard(stream)
        case 10: return .setMetadata(stream, ["a", "b"][below(2)])
        case 11: return .metadata(stream)
        case 12: return .media(stream)
        case 13, 14, 15, 16, 17: return .putPart(multipart, 1 + below(2), byte)
        case 18: return .parts(multipart)
        case 19, 20, 21, 22: return .complete(multipart, [1 + below(2): byte], condition)
        case 23, 24: return .abort(multipart)
        case 25: return .terminateParts(multipart)
        case 26: return .put(key, byte, condition)
        case 27: return .remove(key)
        case 28: return below(2) == 0 ? .object(key) : .read(key)
        case 29: return below(2) == 0 ? .setTags(key, ["x", "y"][below(2)]) : .tags(key)
        case 30: return .list
        default: return .sweep
        }
    }
}

/// Random histories of twenty operations by five clients.
///
/// `SLUICE_HISTORIES` sets their number, and `SLUICE_SEED` the first seed.
@Suite("Histories of concurrent operations", .timeLimit(.minutes(10)))
struct HistoryTests {
    private static let environment = ProcessInfo.processInfo.environment
    private static let count = environment["SLUICE_HISTORIES"].flatMap { Int($0) } ?? 500
    private static let seed = environment["SLUICE_SEED"].flatMap { UInt64($0) } ?? .random(in: 0..<1 << 48)

    @Test("each is equivalent to a sequential history")
    func linearizable() async throws {
        print("histories: \(Self.count) from SLUICE_SEED=\(Self.seed)")
        for failure in try await Self.failures(of: Self.count, from: Self.seed, atMost: 3) {
            Issue.record("\(failure)")
        }
    }

    @Test("an abort that decides before its turn is detected")
    func earlyDecision() async throws {
        #expect(try await !Self.failures(of: 10_000, from: 1, atMost: 1, looksFirst: true).isEmpty)
    }

    /// - Returns: Histories that are not linearizable.
    private static func failures(
        of count: Int,
        from first: UInt64,
        atMost limit: Int,
        looksFirst: Bool = false
    ) async throws -> [String] {
        let executor = SeededExecutor()
        defer { executor.stop() }
        var failures: [String] = []
        for number in 0..<count where failures.count < limit {
            let seed = first + UInt64(number)
            executor.begin(seed: seed)
            let history = try await withTaskExecutorPreference(executor) {
                try await HistoryBench(seed, executor, looksFirst: looksFirst).history(seed)
            }
            let model = ServiceModel(streams: HistoryBench.streams, multiparts: HistoryBench.multiparts)
            guard !history.isLinearizable(from: model) else { continue }
            let lines = history.entries.sorted { $0.calledAt < $1.calledAt }.map { entry in
                "\(entry.calledAt)-\(entry.repliedAt) client \(entry.client): \(entry.call) -> \(entry.reply)"
            }
            failures.append("SLUICE_SEED=\(seed) SLUICE_HISTORIES=1:\n" + lines.joined(separator: "\n"))
            if looksFirst { print("an early decision is found by history \(seed)") }
        }
        return failures
    }

    @Test("impossible histories are detected")
    func checker() {
        let model = ServiceModel(streams: 1, multiparts: 1)
        func history(_ entries: [(ServiceCall, ServiceReply, Int, Int)]) -> ServiceHistory {
            ServiceHistory(
                entries: entries.map { .init(client: 0, call: $0.0, reply: $0.1, calledAt: $0.2, repliedAt: $0.3) }
            )
        }
        let one = ServiceModel.tag(1)
        #expect(
            history([(.put(0, 1, .none), .done, 1, 4), (.object(0), .text(nil), 2, 3)]).isLinearizable(from: model)
        )
        #expect(
            history([(.put(0, 1, .none), .done, 1, 4), (.object(0), .text(one), 2, 3)]).isLinearizable(from: model)
        )
        #expect(
            !history([(.put(0, 1, .none), .done, 1, 2), (.object(0), .text(nil), 3, 4)]).isLinearizable(from: model)
        )
        #expect(
            !history([
                (.put(0, 1, .none), .done, 1, 8), (.object(0), .text(one), 2, 3), (.object(0), .text(nil), 4, 5),
            ]).isLinearizable(from: model)
        )
        #expect(
            !history([
                (.putPart(0, 1, 1), .done, 1, 2), (.complete(0, [1: 1], .none), .done, 3, 5), (.abort(0), .done, 4, 6),
            ]).isLinearizable(from: model)
        )
    }
}
