import Bytes
import Digests

@testable import UploadCore
@testable import UploadModel

/// One operation on one of a few uploads or objects.
enum ServiceCall: Hashable, Sendable {
    enum Condition: Hashable, Sendable {
        case none, isAbsent
        case hasTag(UInt8)
    }

    case createOnce
    case append(Int, at: Int, [UInt8])
    /// All bytes have arrived when it begins.
    case appendSmall(Int, at: Int, [UInt8])
    /// The client disconnects before its last byte.
    case appendCut(Int, at: Int, [UInt8])
    case status(Int)
    case inspect(Int)
    case terminate(Int)
    case stop(Int)
    case discard(Int)
    case setMetadata(Int, String)
    case metadata(Int)
    case media(Int)
    case putPart(Int, Int, UInt8)
    case parts(Int)
    case complete(Int, [Int: UInt8], Condition)
    case abort(Int)
    case terminateParts(Int)
    case put(Int, UInt8, Condition)
    case remove(Int)
    case object(Int)
    case read(Int)
    case setTags(Int, String)
    case tags(Int)
    case list
    case sweep
}

enum ServiceReply: Equatable, Sendable {
    case done
    case offset(Upload.State, Int64)
    case state(Upload.State)
    case text(String?)
    case parts([Int: String])
    case bytes([UInt8])
    case flag(Bool)
    case tags([Int: String])
    case failed(UploadError.Code)
}

/// The specification of the service: each operation takes effect at one moment between its call and its reply.
struct ServiceModel: Hashable {
    /// Four sequential bytes.
    enum Stream: Hashable {
        case open([UInt8])
        case completed
        case ended
    }

    enum Multipart: Hashable {
        case open([Int: UInt8])
        /// Its parts were joined, and then its completion was refused.
        case held([Int: UInt8], [Int])
        case completed(count: Int)
        case ended
    }

    struct Object: Hashable {
        /// The multipart upload that created it.
        var owner: Int?
        var bytes: [UInt8]
        var tags = ""

        var tag: String {
            owner == nil ? ServiceModel.tag(bytes[0]) : bytes.map(ServiceModel.tag).joined(separator: "+")
        }
    }

    static let length = 4

    var isGrantUsed = false
    var streams: [Stream]
    var metadata: [String]
    var multiparts: [Multipart]
    var objects: [Int: Object] = [:]

    init(streams: Int, multiparts: Int) {
        self.streams = Array(repeating: .open([]), count: streams)
        metadata = Array(repeating: "", count: streams)
        self.multiparts = Array(repeating: .open([:]), count: multiparts)
    }

    private static let tags = (0...UInt8(255)).map { Hexadecimal.encode(Digest.hash([$0], .md5)) }
    static func tag(_ byte: UInt8) -> String { tags[Int(byte)] }
    /// The object of a multipart upload.
    static func key(of multipart: Int) -> Int { multipart % 2 }

    /// The possible models after an operation with this reply; empty if the reply is impossible.
    func after(_ call: ServiceCall, _ reply: ServiceReply) -> [ServiceModel] {
        switch call {
        case .createOnce:
            if isGrantUsed { return reply == .failed(.grantUsed) ? [self] : [] }
            return reply == .done ? [with { $0.isGrantUsed = true }] : []
        case .append(let index, let offset, let bytes), .appendSmall(let index, let offset, let bytes):
            return appending(bytes, announced: bytes.count, at: offset, to: index, reply)
        case .appendCut(let index, let offset, let bytes):
            return appending(bytes, announced: bytes.count + 1, at: offset, to: index, reply)
        case .status(let index):
            switch streams[index] {
            case .open(let bytes): return reply == .offset(.open, Int64(bytes.count)) ? [self] : []
            case .completed: return reply == .offset(.completed, Int64(Self.length)) ? [self] : []
            case .ended: return reply == .failed(.gone) ? [self] : []
            }
        case .inspect(let index):
            switch streams[index] {
            case .open: return reply == .state(.open) ? [self] : []
            case .completed: return reply == .state(.completed) ? [self] : []
            case .ended: return reply == .state(.terminated) ? [self] : []
            }
        case .terminate(let index):
            if streams[index] == .ended { return reply == .failed(.gone) ? [self] : [] }
            return reply == .done ? [with { $0.streams[index] = .ended }] : []
        case .stop(let index), .discard(let index):
            guard reply == .done else { return [] }
            guard case .open = streams[index] else { return [self] }
            return [with { $0.streams[index] = .ended }]
        case .setMetadata(let index, let value):
            if streams[index] == .ended { return reply == .failed(.gone) ? [self] : [] }
            return reply == .done ? [with { $0.metadata[index] = value }] : []
        case .metadata(let index): return reply == .text(metadata[index]) ? [self] : []
        case .media(let index):
            switch streams[index] {
            case .open: return reply == .failed(.notFound) ? [self] : []
            case .completed: return reply == .done ? [self] : []
            case .ended: return reply == .failed(.gone) ? [self] : []
            }
        case .putPart, .parts, .complete, .abort, .terminateParts: return afterParts(call, reply)
        case .put, .remove, .object, .read, .setTags, .tags, .list: return afterObject(call, reply)
        case .sweep: return reply == .done ? [self] : []
        }
    }

    private func with(_ change: (inout ServiceModel) -> Void) -> ServiceModel {
        var model = self
        change(&model)
        return model
    }

    private func appending(
        _ bytes: [UInt8],
        announced: Int,
        at offset: Int,
        to index: Int,
        _ reply: ServiceReply
    ) -> [ServiceModel] {
        func holding(_ count: Int, _ before: [UInt8]) -> ServiceModel {
            with { model in
                let all = before + bytes.prefix(count)
                model.streams[index] = all.count == Self.length ? .completed : .open(all)
            }
        }
        let isCutOff = reply == .failed(.interrupted) || reply == .failed(.rejected)
        switch streams[index] {
        case .ended: return reply == .failed(.gone) || isCutOff ? [self] : []
        case .completed:
            if isCutOff { return [self] }
            if offset != Self.length {
                return reply == .failed(.offsetMismatch(expected: Int64(Self.length))) ? [self] : []
            }
            return reply == .failed(.lengthExceeded(length: Int64(Self.length))) ? [self] : []
        case .open(let before):
            guard offset == before.count else {
                return reply == .failed(.offsetMismatch(expected: Int64(before.count))) || isCutOff ? [self] : []
            }
            guard before.count + announced <= Self.length else {
                return reply == .failed(.lengthExceeded(length: Int64(Self.length))) || isCutOff ? [self] : []
            }
            // A newer request took over: the bytes received until then are kept.
            if isCutOff { return (0...bytes.count).map { holding($0, before) } }
            if announced > bytes.count {
                return reply == .failed(.disconnected) ? [holding(bytes.count, before)] : []
            }
            let state: Upload.State = before.count + bytes.count == Self.length ? .completed : .open
            return reply == .offset(state, Int64(before.count + bytes.count)) ? [holding(bytes.count, before)] : []
        }
    }

    private func afterParts(_ call: ServiceCall, _ reply: ServiceReply) -> [ServiceModel] {
        switch call {
        case .putPart(let index, let number, let byte):
            if reply == .failed(.busy) { return [self] }
            switch multiparts[index] {
            case .open(var parts):
                parts[number] = byte
                return reply == .done ? [with { $0.multiparts[index] = .open(parts) }] : []
            case .held: return reply == .failed(.notOpen) ? [self] : []
            case .completed: return reply == .failed(.notOpen) || reply == .failed(.gone) ? [self] : []
            case .ended: return reply == .failed(.gone) ? [self] : []
            }
        case .parts(let index):
            switch multiparts[index] {
            case .open(let parts), .held(let parts, _):
                return reply == .parts(parts.mapValues(Self.tag)) ? [self] : []
            case .completed: return reply == .failed(.notOpen) ? [self] : []
            case .ended: return reply == .failed(.gone) ? [self] : []
            }
        case .abort(let index):
            switch multiparts[index] {
            case .open, .held: return reply == .done ? [with { $0.multiparts[index] = .ended }] : []
            case .completed: return reply == .failed(.notOpen) ? [self] : []
            case .ended: return reply == .failed(.gone) ? [self] : []
            }
        case .terminateParts(let index):
            if multiparts[index] == .ended { return reply == .failed(.gone) ? [self] : [] }
            guard reply == .done else { return [] }
            return [
                with { model in
                    if case .completed = multiparts[index] { model.objects[Self.key(of: index)] = nil }
                    model.multiparts[index] = .ended
                }
            ]
        case .complete(let index, let named, let condition): return completing(index, named, condition, reply)
        default: return []
        }
    }

    private func completing(
        _ index: Int,
        _ named: [Int: UInt8],
        _ condition: ServiceCall.Condition,
        _ reply: ServiceReply
    ) -> [ServiceModel] {
        if reply == .failed(.busy) { return [self] }
        let parts: [Int: UInt8]
        let numbers = named.keys.sorted()
        var isInvalid = named.isEmpty
        switch multiparts[index] {
        case .ended: return reply == .failed(.gone) ? [self] : []
        case .completed(let count):
            return reply == (count == named.count ? .done : .failed(.notFound)) ? [self] : []
        case .open(let stored): parts = stored
        case .held(let stored, let joined):
            parts = stored
            if joined != numbers { isInvalid = true }
        }
        if isInvalid || named.contains(where: { parts[$0.key] != $0.value }) {
            guard case .failed(.invalidParts) = reply else { return [] }
            return [self]
        }
        let key = Self.key(of: index)
        guard holds(condition, for: key) else {
            guard reply == .failed(.conditionFailed) else { return [] }
            return [self, with { $0.multiparts[index] = .held(parts, numbers) }]
        }
        guard reply == .done else { return [] }
        return [
            with { model in
                model.replace(key, with: Object(owner: index, bytes: numbers.compactMap { named[$0] }))
                model.multiparts[index] = .completed(count: named.count)
            }
        ]
    }

    private func holds(_ condition: ServiceCall.Condition, for key: Int) -> Bool {
        switch condition {
        case .none: true
        case .isAbsent: objects[key] == nil
        case .hasTag(let byte): objects[key]?.tag == Self.tag(byte)
        }
    }

    private mutating func replace(_ key: Int, with object: Object?) {
        if let owner = objects[key]?.owner { multiparts[owner] = .ended }
        objects[key] = object
    }

    private func afterObject(_ call: ServiceCall, _ reply: ServiceReply) -> [ServiceModel] {
        switch call {
        case .put(let key, let byte, let condition):
            guard holds(condition, for: key) else { return reply == .failed(.conditionFailed) ? [self] : [] }
            return reply == .done ? [with { $0.replace(key, with: Object(bytes: [byte])) }] : []
        case .remove(let key):
            guard objects[key] != nil else { return reply == .flag(false) ? [self] : [] }
            return reply == .flag(true) ? [with { $0.replace(key, with: nil) }] : []
        case .object(let key): return reply == .text(objects[key]?.tag) ? [self] : []
        case .read(let key):
            return reply == (objects[key].map { .bytes($0.bytes) } ?? .failed(.notFound)) ? [self] : []
        case .setTags(let key, let value):
            guard objects[key] != nil else { return reply == .failed(.notFound) ? [self] : [] }
            return reply == .done ? [with { $0.objects[key]?.tags = value }] : []
        case .tags(let key): return reply == .text(objects[key]?.tags) ? [self] : []
        case .list: return reply == .tags(objects.mapValues(\.tag)) ? [self] : []
        default: return []
        }
    }
}

/// A history of operations as their clients observed it.
struct ServiceHistory {
    struct Entry {
        var client: Int
        var call: ServiceCall
        var reply: ServiceReply
        /// All moments are distinct.
        var calledAt: Int
        var repliedAt: Int
    }

    var entries: [Entry]

    /// Whether some order of the operations, each at a moment between its call and its reply, produces these replies
    /// (Wing and Gong, "Testing and Verifying Concurrent Objects", 1993; with the memoisation of Lowe, 2017).
    func isLinearizable(from model: ServiceModel) -> Bool {
        struct Place: Hashable {
            var done: UInt64
            var model: ServiceModel
        }
        precondition(entries.count <= 64)
        let all: UInt64 = entries.count == 64 ? .max : (1 << UInt64(entries.count)) - 1
        var seen: Set<Place> = []
        var open = [Place(done: 0, model: model)]
        while let place = open.popLast() {
            if place.done == all { return true }
            let left = entries.indices.filter { place.done & (1 << UInt64($0)) == 0 }
            let firstReply = left.map { entries[$0].repliedAt }.min() ?? .max
            for index in left where entries[index].calledAt < firstReply {
                for next in place.model.after(entries[index].call, entries[index].reply) {
                    let place = Place(done: place.done | 1 << UInt64(index), model: next)
                    if seen.insert(place).inserted { open.append(place) }
                }
            }
        }
        return false
    }
}
