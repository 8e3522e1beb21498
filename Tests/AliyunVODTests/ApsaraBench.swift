import Bytes
import CloudCalls
import Digests
import Foundation
import GatewayKit
import HTTPClient
import HTTPWire
import ObjectGrants
import ObjectStore
import RESTKit
import Signing
import SluiceTesting
import Synchronization
import Testing
import Transport
import UploadCore
import UploadModel

@testable import AliyunVOD
@testable import Pulls
@testable import VODKit

/// Media over adapters in memory that can be made to fail.
struct ApsaraBench {
    static let application = ApsaraPlace.defaultApplication
    static let url = "https://app.example/events"
    static let day: TimeInterval = 86_400

    let clock = ManualClock()
    let fuse = Fuse()
    let state: FaultyState
    /// Behind `state`, for what a test looks up without a call that could fail.
    let memory: InMemoryState
    let services: UploadServices
    let library: ApsaraLibrary
    let uploads: ApsaraUploads
    let pulls: ApsaraPulls
    let actions: ApsaraActions
    let callbacks: ApsaraCallbacks
    let issuer: CredentialIssuer
    let master: MasterSecret
    let receiver = EventReceiver()
    var events: ApsaraEvents { library.events }
    var place: ApsaraPlace { library.place }

    init(
        _ settings: AliyunVODSettings = AliyunVODSettings(),
        limits: UploadLimits = UploadLimits(maximumBytes: 1000, lifetime: nil),
        hooks: any UploadHooks = NoHooks()
    ) throws {
        memory = InMemoryState(clock: clock)
        state = FaultyState(memory, fuse: fuse)
        services = UploadServices(
            state: state,
            storage: InMemoryStorage(),
            clock: clock,
            limits: limits.patient,
            observer: RecordingObserver(),
            hooks: hooks
        )
        master = try #require(MasterSecret(bytes: [UInt8](repeating: 7, count: 32)))
        issuer = CredentialIssuer(master: master)
        callbacks = ApsaraCallbacks(records: state, master: master, clock: clock)
        library = ApsaraLibrary(
            place: ApsaraPlace(settings),
            records: state,
            objects: services.objects,
            uploads: services.uploads,
            parts: services.parts,
            events: ApsaraEvents(records: state, callbacks: callbacks, clock: clock),
            clock: clock
        )
        uploads = ApsaraUploads(
            place: library.place,
            library: library,
            uploads: services.uploads,
            issuer: issuer,
            clock: clock
        )
        let sealer = PullSealer(master: master)
        let service = PullService(
            uploads: services.uploads,
            pulls: state,
            origin: NoOrigin(),
            sealer: sealer,
            limits: PullLimits(),
            revoked: RevocationList(state: state, clock: clock),
            observe: { _ in }
        )
        pulls = ApsaraPulls(
            uploads: uploads,
            starter: PullStarter(pulls: service, sealer: sealer, addresses: .publicOnly())
        )
        actions = ApsaraActions(
            uploads: uploads,
            pulls: pulls,
            callbacks: callbacks,
            reader: ApsaraUploadReader(place: library.place) { [receiver] in receiver.problem(with: $0) },
            links: ApsaraLinks(
                issuer: issuer,
                objectURL: ObjectURL(
                    configured: "https://oss.example",
                    gateway: PublicURL(configured: nil, trustedProxies: []),
                    port: nil
                ),
                region: "cn-shanghai",
                clock: clock
            )
        )
    }

    /// The tests store the bytes that pulls would fetch.
    private struct NoOrigin: PullOrigin {
        func open(_ request: PullRequest, rest: OriginRest?) async throws(PullFailure) -> OriginResponse {
            throw PullFailure("unreachable", "there is no origin", .final)
        }
    }

    // MARK: Calling

    /// Performs an action whose call is authenticated.
    @discardableResult
    func call(
        _ action: ApsaraAction,
        _ parameters: [String: String],
        by caller: ApsaraCaller = server
    ) async throws -> AliyunDocument {
        let documents = ApsaraDocuments(place: place, endpoint: "https://oss.example") { media, seconds in
            "https://oss.example/\(media.key)?for=\(seconds)"
        }
        return try await actions.perform(
            ApsaraActions.Call(order: try Self.order(action, parameters, by: caller), documents: documents)
        )
    }

    /// A bench whose application wants all events.
    static func telling() async throws -> ApsaraBench {
        let bench = try ApsaraBench()
        try await bench.want(["ALL"])
        return bench
    }

    func want(_ types: [String]?, of application: String = application, signedWith key: String = "") async throws {
        let callback = types.map {
            ApsaraCallback(url: Self.url, types: $0, isSigned: !key.isEmpty, key: callbacks.seal(key))
        }
        try await callbacks.set(callback, of: application)
    }

    /// Repeats a test with a new bench each time, whose gateway is to die after 0, 1, 2 … calls.
    ///
    /// `body` returns whether what was to be interrupted came to its end.
    static func afterEachCall(_ body: (_ bench: ApsaraBench, _ calls: Int) async throws -> Bool) async throws {
        for calls in 0..<120 where try await body(telling(), calls) { return }
        Issue.record("the action makes more calls than this test lets pass")
    }

    /// Runs an action in which the gateway dies after so many calls, and starts the gateway again.
    ///
    /// - Returns: The result; `nil` if there was none. Whether the action came to its end before the gateway would have died.
    func dying<Success>(
        afterCalls calls: Int,
        _ action: () async throws -> Success
    ) async -> (result: Success?, isOver: Bool) {
        fuse.burn(afterCalls: calls)
        let result = try? await action()
        let isOver = result != nil && !fuse.isBurnt
        fuse.replace()
        return (result, isOver)
    }

    static func order(
        _ action: ApsaraAction,
        _ parameters: [String: String],
        by caller: ApsaraCaller
    ) throws -> ApsaraOrder {
        ApsaraOrder(
            action: action,
            parameters: try ApsaraParameters(parameters.map { (name: $0.key, value: $0.value) }),
            caller: caller
        )
    }

    // MARK: Callers

    static func key(
        _ limits: KeyLimits = KeyLimits(),
        _ scopes: Set<Scope> = [.mint, .upload, .read, .delete],
        id: String = "key_a"
    ) -> APIKey {
        APIKey(id: id, name: id, scopes: scopes, createdAt: .distantPast, digest: [], limits: limits)
    }

    static let server = ApsaraCaller(identity: .key(key()))

    // MARK: Uploading

    static let video = ApsaraNewUpload(
        kind: .video,
        fileName: "v.mp4",
        suffix: "mp4",
        labels: ApsaraMedia.Labels(title: "Film")
    )

    func begin(
        by caller: ApsaraCaller = server,
        _ change: (inout ApsaraNewUpload) -> Void = { _ in }
    ) async throws -> ApsaraMedia {
        var new = Self.video
        change(&new)
        return try await uploads.begin(new, by: caller).media
    }

    func begin(reference: String) async throws -> ApsaraMedia { try await begin { $0.labels.referenceID = reference } }

    /// Stores an object of media and tells nobody.
    func put(
        _ bytes: [UInt8] = [1, 2, 3],
        of media: ApsaraMedia,
        isAppendable: Bool? = nil,
        under given: Grant? = nil
    ) async throws {
        var new = NewUpload(dialect: "oss", length: Int64(bytes.count), completesWhenFull: false)
        new.object = NewObject(media.name)
        new.object?.attributes.isAppendable = isAppendable
        let content = ObjectContent(ArraySource(bytes), size: Int64(bytes.count)) { () async throws(UploadError) in
            ContentDigests(md5: Digest.hash(bytes, .md5), crc64: 1)
        }
        let grant = if let given { given } else { try await currentGrant(for: media) }
        _ = try await Self.$isLocked.withValue(true) {
            try await services.objects.putObject(new, under: grant, content) { attributes, digests in
                attributes.entityTag = Hexadecimal.encode(digests.md5)
            }
        }
    }

    /// The code of an error of the core; `nil` if there is none.
    func refusal(_ body: () async throws -> Void) async throws -> UploadError.Code? {
        do {
            try await body()
            return nil
        } catch let error as UploadError {
            return error.code
        }
    }

    /// That of the credentials which were issued last.
    func currentGrant(for media: ApsaraMedia) async throws -> Grant {
        let record = try await memory.record(ApsaraMedia.recordKind, media.id)
        return grant(for: try record.map { try CodedRecord<ApsaraMedia>($0).content } ?? media)
    }

    func grant(for media: ApsaraMedia) -> Grant {
        uploads.grant(for: media, by: Self.server, until: .distantFuture)
    }

    func beginParts(of media: ApsaraMedia) async throws -> Upload {
        var new = NewUpload(dialect: "oss", length: nil, completesWhenFull: false)
        new.object = NewObject(media.name, takesParts: true)
        return try await services.uploads.create(new, under: try await currentGrant(for: media))
    }

    func putPart(_ number: Int, _ bytes: [UInt8], of upload: Upload) async throws {
        let content = ObjectContent(ArraySource(bytes), size: Int64(bytes.count)) { () async throws(UploadError) in
            ContentDigests(md5: Digest.hash(bytes, .md5), crc64: 1)
        }
        _ = try await services.parts.putPart(number, of: upload, replacing: nil, content, minimumSize: 1)
    }

    func complete(_ upload: Upload, of parts: [[UInt8]]) async throws {
        let named = parts.enumerated().map { index, bytes in
            NamedPart(number: index + 1, entityTag: Hexadecimal.encode(Digest.hash(bytes, .md5)))
        }
        _ = try await Self.$isLocked.withValue(true) {
            try await services.parts.completeParts(named, of: upload.id, minimumSize: 1, if: nil) {
                attributes,
                _ throws(UploadError) in
                attributes.entityTag = "\(Hexadecimal.encode([UInt8](repeating: 1, count: 16)))-\(parts.count)"
            }
        }
    }

    /// Stores an object in two parts and tells nobody.
    func putParts(of media: ApsaraMedia) async throws {
        let parts: [[UInt8]] = [[1, 2], [3]]
        let upload = try await beginParts(of: media)
        for (index, bytes) in parts.enumerated() { try await putPart(index + 1, bytes, of: upload) }
        try await complete(upload, of: parts)
    }

    /// Stores an object as the object endpoint does.
    func send(_ bytes: [UInt8] = [1, 2, 3], of media: ApsaraMedia) async throws {
        _ = try await library.admit(media.name)
        try await put(bytes, of: media)
        await library.stored(media.name)
    }

    /// Stores another object in place of that of complete media.
    func replace(_ bytes: [UInt8], of media: ApsaraMedia) async throws {
        _ = try await refresh(media)
        try await send(bytes, of: media)
    }

    /// Media whose content has arrived and is recorded.
    func made(_ change: (inout ApsaraNewUpload) -> Void = { _ in }) async throws -> ApsaraMedia {
        let media = try await begin(change)
        try await send(of: media)
        return try #require(try await library.record(media.id)?.content)
    }

    func refresh(_ media: ApsaraMedia, by caller: ApsaraCaller = server) async throws -> ApsaraUploads.Issued? {
        try await uploads.refresh(media, by: caller)
    }

    /// Leaves a reference id to media that never got it, like a gateway of an earlier version that died.
    func leave(reference: String) async throws {
        let record = DialectRecord(
            kind: ApsaraLibrary.referenceKind,
            key: "\(reference)/\(Self.application)",
            text: "\(ApsaraMedia.newID(at: clock.now)) \(clock.now.unixSeconds)",
            createdAt: clock.now
        )
        #expect(try await state.insert(record, at: clock.now))
    }

    // MARK: Restarting

    /// What a gateway does after it has started, and every twenty seconds.
    func look() async throws {
        try await library.finishRemovals()
        try await library.lookAtOpen()
    }

    // MARK: Looking

    /// Replaces a record by one that cannot be read.
    func spoil(_ kind: String, _ key: String) async throws {
        var record = try #require(try await state.record(kind, key))
        record.text = "[]"
        #expect(try await state.replace(record))
    }

    func isThere(_ id: String) async throws -> Bool { try await library.media(id) != nil }

    /// What is recorded; unlike a reader it does not look for the object.
    func recorded(_ id: String) async throws -> ApsaraMedia? { try await library.record(id)?.content }

    /// Keys of all objects.
    func keys() async throws -> Set<String> {
        Set(try await services.objects.objects(ObjectQuery(bucket: place.bucket, limit: 100)).map(\.key))
    }

    func count(_ kind: String) async throws -> Int {
        try await state.records(kind, prefix: "", after: nil, limit: 1000).count
    }

    func isOpen(_ id: String) async throws -> Bool {
        try await state.record(ApsaraLibrary.openKind, id) != nil
    }

    func isThereAndOpen(_ id: String) async throws -> Bool {
        guard try await isThere(id) else { return false }
        return try await isOpen(id)
    }

    func holder(of reference: String) async throws -> String? {
        try await library.ids(ofReference: reference, in: Self.application).first
    }

    func claim() async throws -> [ApsaraEvents.Claimed] {
        try await events.outbox.claim(limit: 16, failing: FailingRecords(), events.target).claimed
    }

    /// Delivers all events that can be delivered, as an app's server gets them.
    func deliver() async throws -> [ApsaraEvent] {
        var delivered: [ApsaraEvent] = []
        while true {
            let claimed = try await claim()
            if claimed.isEmpty { return delivered }
            for one in claimed {
                delivered.append(one.record.content)
                try await events.outbox.remove(one.record.record.key)
            }
        }
    }

    // MARK: Interleaving

    /// Whether the lock of an upload is held, for which overtaking work would wait.
    @TaskLocal private static var isLocked = false

    /// Runs `work` before one of the calls, counted from 0 from now on, that have no lock of an upload.
    func overtake(beforeCall number: Int, with work: @escaping @Sendable () async -> Void) -> @Sendable () -> Bool {
        state.overtake(beforeCall: number, when: { !Self.isLocked }, with: work)
    }

    /// Runs two pieces of work, with a new bench each time: the second one before a call of the first one, each in turn.
    ///
    /// At last the second one runs after the first. `check` is told before which call it ran.
    static func interleaved<Made: Sendable>(
        _ begin: (ApsaraBench) async throws -> Made,
        _ first: (ApsaraBench, Made) async throws -> Void,
        _ second: @escaping @Sendable (ApsaraBench, Made) async throws -> Void,
        _ check: (ApsaraBench, Made, Int) async throws -> Void
    ) async throws {
        for number in 0..<120 {
            let bench = try await telling()
            let made = try await begin(bench)
            let hasRun = bench.overtake(beforeCall: number) {
                await noted { try await second(bench, made) }
            }
            try await first(bench, made)
            let isOver = !hasRun()
            if isOver { try await second(bench, made) }
            try await check(bench, made, number)
            if isOver { return }
        }
        Issue.record("there are more calls than this test lets pass")
    }
}

/// The content of a request without one.
final class NoBody: RequestBody {
    var trailers: HTTPFields { HTTPFields() }
    var remaining: Int64? { 0 }
    let interrupter = ArraySource([]).interrupter

    func next(maximum: Int) async throws(SourceFailure) -> [UInt8]? { nil }
}

/// Runs work whose errors fail the test.
func noted(_ body: () async throws -> Void) async {
    do { try await body() } catch { Issue.record(error) }
}

/// The code with which a call is refused; `nil` if it is not.
func code(_ body: () async throws -> Void) async throws -> String? {
    do {
        try await body()
        return nil
    } catch let error as ApsaraError {
        guard let refusal = error.refusal else { throw error }
        return refusal.code
    }
}

/// Holds what a part of a test made for the next one.
final class Box<Content: Sendable>: Sendable {
    private let stored = Mutex<Content?>(nil)

    func set(_ content: Content) { stored.withLock { $0 = content } }

    func content() throws -> Content { try #require(stored.withLock { $0 }) }
}

/// Stands in for apps' servers at hosts that end in `.example`, with configured responses.
final class EventReceiver: CallbackSender {
    struct Call: Equatable {
        let url: String
        let message: CallbackMessage

        var content: String { String(decoding: message.content, as: UTF8.self) }

        func field(_ name: String) -> String? { message.fields.first { $0.name == name }?.value }
    }

    private let received = Mutex<[Call]>([])
    /// The status for a call; `nil` for none in time.
    private let respond = Mutex<@Sendable (Call) -> Int?>({ _ in 200 })

    var calls: [Call] { received.withLock { $0 } }

    func respond(_ body: @escaping @Sendable (Call) -> Int?) { respond.withLock { $0 = body } }

    func problem(with url: String) -> CallbackURLProblem? {
        guard let parsed = URL(string: url), let host = parsed.host(), parsed.scheme?.hasPrefix("http") == true else {
            return .malformed
        }
        return mayName(host: host) ? nil : .notAllowed
    }

    func mayName(host: String) -> Bool { host.hasSuffix(".example") }

    func send(_ message: CallbackMessage, to url: String) async throws(CallbackFailure) -> CallbackResponse {
        let call = Call(url: url, message: message)
        received.withLock { $0.append(call) }
        guard let status = respond.withLock({ $0 })(call) else { throw .timedOut }
        return CallbackResponse(status: status, length: 0, body: [])
    }

    func ended(_ failure: CallbackFailure?) {}
}

/// An app that does not let the object with some keys be removed.
final class RefusingHook: UploadHooks {
    private let refused = Mutex<Set<String>>([])

    func refuse(_ key: String) { _ = refused.withLock { $0.insert(key) } }

    func wants(_ kind: EventRecord.Kind) -> Bool { false }
    var decidesUploads: Bool { false }
    func willCreate(_ upload: Upload) async throws(UploadError) -> CreationChanges { CreationChanges() }
    func willFinish(_ upload: Upload) async throws(UploadError) {}
    func willTerminate(_ upload: Upload) async throws(UploadError) {
        if let key = upload.key, refused.withLock({ $0.contains(key) }) { throw UploadError(.rejected, "no") }
    }
}

extension AliyunDocument {
    subscript(name: String) -> Value? { members.first { $0.name == name }?.value }

    /// A text behind some names.
    func text(_ names: String...) -> String? {
        var value: Value? = .object(self)
        for name in names {
            guard case .object(let document)? = value else { return nil }
            value = document[name]
        }
        return switch value {
        case .text(let text)?: text
        case .integer(let number)?: String(number)
        case .number(let number)?: String(number)
        default: nil
        }
    }

    /// The texts of a list.
    func texts(_ name: String) -> [String] {
        guard case .list(_, let values)? = self[name] else { return [] }
        return values.compactMap { if case .text(let text) = $0 { text } else { nil } }
    }

    /// The members of a list.
    func list(_ name: String) -> [AliyunDocument] {
        guard case .list(_, let values)? = self[name] else { return [] }
        return values.compactMap { if case .object(let document) = $0 { document } else { nil } }
    }
}
