import Foundation
import Testing
import UploadModel

@testable import Vimeo

@Suite("App users with tokens of identity providers", .timeLimit(.minutes(10)))
struct VimeoCallerTests {
    private let now = Date(timeIntervalSince1970: 1_750_000_000)

    private func key(_ scopes: Set<Scope>, life: TimeInterval = 3600, maximumBytes: Int64? = nil) -> APIKey {
        APIKey(
            id: "identity_1",
            name: "issuer",
            scopes: scopes,
            createdAt: now,
            expiresAt: now.addingTimeInterval(300),
            digest: [],
            limits: KeyLimits(subjects: ["dora"]),
            user: AppUser(
                issuedAt: now,
                maximumBytes: maximumBytes,
                contentTypes: ["video/*"],
                metadata: ["tenant": "7"],
                mintedLifetime: life
            )
        )
    }

    @Test("each scope of a token gives the scopes that need it, and no others", arguments: 0..<16)
    func scopes(_ mask: Int) throws {
        let all: [Scope] = [.upload, .read, .delete, .mint]
        let scopes = Set(all.indices.filter { mask & 1 << $0 != 0 }.map { all[$0] })
        let caller = try #require(try VimeoCaller(key(scopes)))
        var expected: Set<VimeoScope> = [.public]
        if scopes.contains(.upload) { expected.formUnion([.upload, .create, .edit]) }
        if scopes.contains(.read) { expected.formUnion([.private, .purchased, .stats, .email, .videoFiles]) }
        if scopes.contains(.delete) { expected.insert(.delete) }
        #expect(caller.scopes == expected)
        #expect(caller.isAppUser && !caller.keyUploads)
    }

    @Test("the grant has the limits of the token, and ends with it")
    func grant() throws {
        let caller = try #require(try VimeoCaller(key([.upload], maximumBytes: 10)))
        #expect(caller.grant.subject == "dora" && caller.grant.id == "identity_1" && caller.grant.dialect == "vimeo")
        #expect(caller.grant.maximumBytes == 10 && caller.grant.contentTypes == ["video/*"])
        #expect(caller.grant.metadata == ["tenant": "7"] && caller.grant.expiresAt == now.addingTimeInterval(300))
        let limits = try #require(VimeoLimits(caller.grant))
        var later = Grant(id: "x", subject: "dora", maximumBytes: 20, expiresAt: .distantFuture)
        limits.apply(to: &later)
        #expect(later.maximumBytes == 10 && later.contentTypes == ["video/*"] && later.metadata == ["tenant": "7"])
        #expect(VimeoLimits(Grant(id: "x", subject: "dora", expiresAt: .distantFuture)) == nil)
    }

    @Test("only whoever may upload sees what it began, and learns where bytes go", arguments: 0..<8)
    func links(to mask: Int) throws {
        let all: [VimeoScope] = [.upload, .edit, .private]
        let scopes = Set(all.indices.filter { mask & 1 << $0 != 0 }.map { all[$0] })
        let grant = Grant(id: "token_1", subject: "dora", dialect: "vimeo", expiresAt: .distantFuture)
        let caller = VimeoCaller(grant: grant, scopes: scopes.union([.public, .create, .delete]))
        let uploads = scopes.contains(.upload)
        #expect(caller.maySee(begunBy: "token_1") == (uploads || scopes.contains(.private)))
        #expect(caller.mayAdd(toVideoBegunBy: "token_1") == uploads)
        for other in ["token_2", nil] {
            #expect(caller.maySee(begunBy: other) == scopes.contains(.private))
            #expect(caller.mayAdd(toVideoBegunBy: other) == scopes.isSuperset(of: [.upload, .edit]))
        }
    }

    @Test("what Vimeo tells loses each link by which bytes come, and nothing else")
    func sending() throws {
        let told = #"""
            {"uri": "/videos/1", "link": "https://a.example/1", "form": "<form>", "pictures": {"link": "x", "sizes": [{"link": "y"}]},
            "upload": {"status": "in_progress", "approach": "tus", "size": 5, "upload_link": "x", "form": "x", "gcs": [{"x": "x"}]},
            "data": [{"upload": {"upload_link": "x"}, "complete_uri": "x", "n": 1}, 7]}
            """#
        let kept = #"""
            {"uri": "/videos/1", "link": "https://a.example/1", "form": null, "pictures": {"link": null, "sizes": [{"link": "y"}]},
            "upload": {"status": "in_progress", "approach": "tus", "size": 5, "upload_link": null, "form": null, "gcs": null},
            "data": [{"upload": {"upload_link": null}, "complete_uri": null, "n": 1}, 7]}
            """#
        let members = try #require(VimeoUpstream.members(Array(told.utf8)))
        #expect(VimeoBroker.withoutSending(members) == VimeoUpstream.members(Array(kept.utf8)))
    }

    @Test("an API key is none")
    func keys() throws {
        let key = APIKey(id: "key_1", name: "k", scopes: [.upload], createdAt: now, expiresAt: nil, digest: [])
        #expect(try VimeoCaller(key) == nil)
    }

    @Test(
        "links end within the lifetime of what users mint, and stay the same for half of it",
        arguments: [2.0, 61, 3600, 43_200]
    )
    func links(_ life: TimeInterval) throws {
        let caller = try #require(try VimeoCaller(key([.read], life: life)))
        var ends: Set<Date> = []
        let steps = 64
        for step in 0..<steps {
            let time = now.addingTimeInterval((life * Double(step) / Double(steps)).rounded(.down))
            let end = try #require(caller.reader(at: time)).expiresAt
            #expect(
                end <= time.addingTimeInterval(life) && end > time.addingTimeInterval((life / 2).rounded(.down) - 1)
            )
            ends.insert(end)
        }
        #expect(ends.count <= 4)
        #expect(caller.linkPeriod == Int64(life / 2))
    }

    @Test("without `read` there are no links")
    func noLinks() throws {
        let caller = try #require(try VimeoCaller(key([.upload])))
        #expect(caller.reader(at: now) == nil)
    }
}
