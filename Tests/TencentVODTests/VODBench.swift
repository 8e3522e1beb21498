import Bytes
import Digests
import Foundation
import GatewayKit
import ObjectGrants
import Signing
import SluiceTesting
import Testing
import UploadCore

@testable import TencentVOD

/// Sessions over adapters in memory that can be made to fail.
struct VODBench {
    let clock = ManualClock()
    let fuse = Fuse()
    let state: FaultyState
    let uploads: VODUploads
    let library: VODLibrary
    let events: VODEvents
    let services: UploadServices
    let check: VODSignatureCheck
    private let signatures: TencentSignatureIssuer
    private let master: MasterSecret

    init() throws {
        state = FaultyState(InMemoryState(clock: clock), fuse: fuse)
        services = UploadServices(
            state: state,
            storage: InMemoryStorage(),
            clock: clock,
            limits: UploadLimits(maximumBytes: 1000, lifetime: 3600),
            observer: RecordingObserver()
        )
        let master = try #require(MasterSecret(bytes: [UInt8](repeating: 7, count: 32)))
        let pair = TencentCredentials.relay(from: master)
        signatures = TencentSignatureIssuer(pair, mode: .relay)
        check = VODSignatureCheck(
            own: [pair],
            place: VODPlace(TencentSettings()),
            pairs: { _ in nil },
            revoked: RevocationList(state: state, clock: clock)
        )
        self.master = master
        library = VODLibrary(records: state, objects: services.objects, clock: clock)
        events = VODEvents(mode: .pull, records: state, library: library, bell: EventBell(), clock: clock)
        uploads = Self.uploads(at: VODPlace(TencentSettings()), library, events, services, master)
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

    /// A session whose bytes are all there.
    func sent(_ request: VODRequest = Self.both, by signer: VODSigner) async throws -> VODUploads.Applied {
        let applied = try await uploads.begin(request, region: nil, by: signer)
        for file in applied.session.files { try await put(file, of: applied.session) }
        return applied
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
        } catch let failure as VODFailure {
            return failure.code
        }
    }
}
