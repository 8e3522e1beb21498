import Bytes
import Digests
import Foundation
import GatewayKit
import ObjectGrants
import SettingsKit
import Signing
import SluiceTesting
import Synchronization
import Testing
import UploadCore
import UploadModel

@testable import TencentVOD
@testable import VODKit

/// Sessions over adapters in memory that can be made to fail.
struct VODBench {
    let clock = ManualClock()
    let fuse = Fuse()
    let memory: InMemoryState
    let state: FaultyState
    let uploads: VODUploads
    let library: VODLibrary
    let events: VODEvents
    let services: UploadServices
    let check: VODSignatureCheck
    private let signatures: TencentSignatureIssuer
    private let master: MasterSecret

    init() throws {
        memory = InMemoryState(clock: clock)
        state = FaultyState(memory, fuse: fuse)
        services = UploadServices(
            state: state,
            storage: InMemoryStorage(),
            clock: clock,
            limits: UploadLimits(maximumBytes: 1000, lifetime: 3600).patient,
            observer: RecordingObserver()
        )
        let master = try #require(MasterSecret(bytes: [UInt8](repeating: 7, count: 32)))
        let pair = TencentCredentials.relay(from: master)
        signatures = TencentSignatureIssuer(pair, mode: .relay)
        check = VODSignatureCheck(
            own: [pair],
            place: VODPlace(Settings()),
            pairs: { _ in nil },
            revoked: RevocationList(state: state, clock: clock)
        )
        self.master = master
        library = VODLibrary(records: state, objects: services.objects, clock: clock)
        events = VODEvents(mode: .pull, library: library)
        uploads = Self.uploads(at: VODPlace(Settings()), library, events, services, master)
    }

    /// The same sessions with other settings.
    func uploads(at place: VODPlace) -> VODUploads { Self.uploads(at: place, library, events, services, master) }

    private static func uploads(
        at place: VODPlace,
        _ library: VODLibrary,
        _ events: VODEvents,
        _ services: UploadServices,
        _ master: MasterSecret
    ) -> VODUploads {
        let clock = library.clock
        return VODUploads(
            place: place,
            records: library.records,
            library: library,
            events: events,
            objects: services.objects,
            uploads: services.uploads,
            issuer: CredentialIssuer(master: master),
            keys: VODSessionKeys(master: master),
            limiter: RateLimiter(perSecond: 1000),
            clock: clock
        )
    }

    /// Repeats a test with a new bench each time, whose gateway is to die after 0, 1, 2 … calls.
    ///
    /// `body` returns whether what was to be interrupted came to its end.
    static func afterEachCall(_ body: (_ bench: VODBench, _ calls: Int) async throws -> Bool) async throws {
        for calls in 0..<80 where try await body(VODBench(), calls) { return }
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

    func signature(_ change: (inout SignatureRequest) -> Void = { _ in }) throws -> String {
        var request = SignatureRequest()
        request.subject = "dora"
        request.expiresIn = TencentUploadSignature.maximumLifetime
        change(&request)
        return try signatures.issue(request, at: clock.now).signature
    }

    func signer(_ change: (inout SignatureRequest) -> Void = { _ in }) async throws -> VODSigner {
        try await check.verify(signature(change), at: clock.now)
    }

    func oneTimeSigner() async throws -> VODSigner { try await signer { $0.oneTimeValid = true } }

    static let video = VODRequest.media(VODNewFile(name: "v", type: "mp4", size: 3), cover: nil)
    static let both = VODRequest.media(
        VODNewFile(name: "v", type: "mp4", size: 3),
        cover: VODNewFile(name: "c", type: "jpg", size: 2)
    )

    /// Stores the bytes of a file of a session.
    func put(_ file: VODFile?, of session: VODSession) async throws {
        guard let file else { return }
        let bytes = [UInt8](repeating: 1, count: Int(file.size ?? 1))
        var new = NewUpload(dialect: "cos", length: Int64(bytes.count), completesWhenFull: false)
        new.object = NewObject(ObjectName(bucket: session.bucket, key: file.key))
        let content = ObjectContent(ArraySource(bytes), size: Int64(bytes.count)) { () async throws(UploadError) in
            ContentDigests(md5: Digest.hash(bytes, .md5), crc64: 1)
        }
        let grant = Grant(id: "g", subject: "dora", expiresAt: .distantFuture)
        _ = try await services.objects.putObject(new, under: grant, content) { _, _ in }
    }

    /// Stores bytes of a file with the certificate of a session.
    @discardableResult
    func send(_ bytes: [UInt8], as file: VODFile?, of session: VODSession, by signer: VODSigner) async throws -> Upload
    {
        var new = NewUpload(dialect: "cos", length: Int64(bytes.count), completesWhenFull: false)
        new.object = NewObject(ObjectName(bucket: session.bucket, key: file?.key ?? ""))
        let content = ObjectContent(ArraySource(bytes), size: Int64(bytes.count)) { () async throws(UploadError) in
            ContentDigests(md5: Digest.hash(bytes, .md5), crc64: 1)
        }
        return try await services.objects.putObject(new, under: grant(of: session, by: signer), content) {
            $0.entityTag = Hexadecimal.encode($1.md5)
        }
    }

    /// Begins to store a file in parts with the certificate of a session.
    func beginParts(_ file: VODFile?, of session: VODSession, by signer: VODSigner) async throws -> Upload {
        var new = NewUpload(dialect: "cos", length: nil, completesWhenFull: false)
        new.object = NewObject(ObjectName(bucket: session.bucket, key: file?.key ?? ""), takesParts: true)
        return try await services.uploads.create(new, under: grant(of: session, by: signer))
    }

    private func grant(of session: VODSession, by signer: VODSigner) -> Grant {
        signer.grant(for: session.fileID, turn: session.turn, until: .distantFuture)
    }

    /// A session whose bytes are all there.
    func sent(_ request: VODRequest = Self.both, by signer: VODSigner) async throws -> VODUploads.Applied {
        let applied = try await uploads.begin(request, region: nil, by: signer)
        for file in applied.session.files { try await put(file, of: applied.session) }
        return applied
    }

    /// Media with its session.
    func committed(_ request: VODRequest = Self.both, by signer: VODSigner) async throws -> VODUploads.Applied {
        let applied = try await sent(request, by: signer)
        _ = try await uploads.commit(applied.sessionKey, by: signer)
        return applied
    }

    /// Whether there is media of a session for anybody.
    func isThere(_ session: VODSession) async throws -> Bool {
        try await library.media(session.fileID, of: session.owner.application) != nil
    }

    func delete(_ session: VODSession) async throws -> Bool {
        try await library.delete(session.fileID, of: session.owner.application) { _ in true }
    }

    /// Lets all sessions end, and removes what they and deletions left.
    func cleanUp() async throws {
        clock.advance(by: 3 * 86_400)
        try await library.finishRemovals()
        try await uploads.removeExpired()
    }

    /// Keys of all objects of VOD uploads.
    func keys() async throws -> Set<String> {
        Set(try await services.objects.objects(ObjectQuery(bucket: uploads.place.bucketName, limit: 100)).map(\.key))
    }

    func count(_ kind: String) async throws -> Int {
        try await state.records(kind, prefix: "", after: nil, limit: 100).count
    }

    /// The code with which a call is refused; `nil` if it is not.
    func code(_ body: () async throws -> Void) async throws -> VODFailure.Code? {
        do {
            try await body()
            return nil
        } catch let error as VODError {
            guard let refusal = error.refusal else { throw error }
            return refusal.code
        }
    }
}

/// Holds what a part of a test made for the next one.
final class Box<Content: Sendable>: Sendable {
    private let stored = Mutex<Content?>(nil)

    func set(_ content: Content) { stored.withLock { $0 = content } }

    func content() throws -> Content { try #require(stored.withLock { $0 }) }
}

/// Runs work whose errors fail the test.
func recorded(_ body: () async throws -> Void) async {
    do { try await body() } catch { Issue.record(error) }
}
