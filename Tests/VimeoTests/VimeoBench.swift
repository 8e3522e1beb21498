import Bytes
import Foundation
import HTTPWire
import Signing
import SluiceTesting
import Testing
import UploadCore
import UploadModel

@testable import VODKit
@testable import Vimeo

/// Videos in memory, whose state and storage fail where a test wants it.
struct VimeoBench {
    let clock = ManualClock()
    let fuse = Fuse()
    let state: FaultyState
    /// Behind `state`.
    let memory: InMemoryState
    let storage: FaultyStorage
    let services: UploadServices
    let library: VimeoLibrary
    let uploads: VimeoUploads
    let links: VimeoLinks
    let tokens: VimeoTokens
    let revoked: RevocationList

    static let lifetime: TimeInterval = 7 * 86_400

    init(limits: UploadLimits = UploadLimits(maximumBytes: 1000, lifetime: 3600)) throws {
        memory = InMemoryState(clock: clock)
        state = FaultyState(memory, fuse: fuse)
        storage = FaultyStorage(InMemoryStorage(), fuse: fuse)
        services = UploadServices(
            state: state,
            storage: storage,
            clock: clock,
            limits: limits.patient,
            observer: RecordingObserver()
        )
        library = VimeoLibrary(
            records: state,
            uploads: services.uploads,
            clock: clock,
            lifetime: Self.lifetime,
            quota: services.quota,
            storage: storage
        )
        uploads = VimeoUploads(library: library)
        let master = try #require(MasterSecret(bytes: [UInt8](repeating: 7, count: 32)))
        links = VimeoLinks(master: master, locator: UploadLocator(master: master))
        revoked = RevocationList(state: state, clock: clock)
        tokens = VimeoTokens(master: master, records: state, revoked: revoked, clock: clock)
    }

    /// A user's caller with all scopes.
    func caller(_ subject: String? = "dora", total: Int64? = nil) -> VimeoCaller {
        let grant = tokens.grant(issuer: nil, subject: subject, total: total, lifetime: 3600)
        return VimeoCaller(grant: grant, scopes: Set(VimeoScope.allCases))
    }

    func create(
        _ approach: VimeoVideo.Approach,
        _ size: Int64? = 10,
        by caller: VimeoCaller? = nil
    ) async throws -> VimeoEntry {
        let new = VimeoUploads.New(labels: VimeoVideo.Labels(name: "N"), approach: approach, size: size)
        return try await uploads.create(new, by: caller ?? self.caller())
    }

    /// All videos of a user.
    func videos(of subject: String = "dora") async throws -> [VimeoVideo] {
        let page = VimeoCall.Page(number: 1, size: 100)
        let found = try await library.videos(page, of: VimeoUser(subject), begunBy: nil)
        #expect(found.count == found.media.count)
        return found.media.map(\.content)
    }

    /// As the library sees it now.
    func current(_ entry: VimeoEntry) async throws -> VimeoEntry? {
        try await library.entry(entry.video.id, of: entry.video.user)
    }

    func put(_ bytes: [UInt8], from start: Int64 = 0, of total: Int64? = nil, to entry: VimeoEntry) async throws
        -> VimeoUploads.Outcome
    {
        let entry = try #require(try await current(entry))
        return try await uploads.put(ArraySource(bytes), from: start, of: total, to: entry)
    }

    func content(_ entry: VimeoEntry) async throws -> [UInt8] {
        let entry = try #require(try await current(entry))
        let upload = try #require(entry.upload)
        return try await storage.head(of: upload.id, length: 1000)
    }
}
