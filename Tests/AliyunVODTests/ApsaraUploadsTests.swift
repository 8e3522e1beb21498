import Bytes
import CloudCalls
import Digests
import Foundation
import GatewayKit
import ObjectGrants
import SluiceTesting
import Testing
import UploadCore
import UploadModel

@testable import AliyunVOD
@testable import VODKit

@Suite("Uploads to ApsaraVideo VOD", .timeLimit(.minutes(10)))
struct ApsaraUploadsTests {
    private let day = ApsaraBench.day

    private static let video = ["Title": "Film", "FileName": "film.mp4"]

    private func decoded(_ text: String?) throws -> [String: String] {
        let bytes = try #require(text.flatMap { Base64.decode($0) })
        return try JSONDecoder().decode([String: String].self, from: Data(bytes))
    }

    private func session(_ auth: [String: String], _ bench: ApsaraBench) throws -> Session {
        try bench.issuer.open(
            accessKeyID: auth["AccessKeyId"] ?? "",
            token: auth["SecurityToken"],
            at: bench.clock.now
        )
    }

    // MARK: What one user may begin

    @Test("a user who calls has a bounded number of media without content; an app's server has not")
    func begunByOneUser() async throws {
        let bench = try await ApsaraBench.telling()
        func user(_ name: String) -> ApsaraCaller {
            let upload = Grant(id: "s", subject: name, expiresAt: .distantFuture, issuedAt: .distantPast)
            let actions = ObjectAction.allowed(to: ApsaraBench.key())
            return ApsaraCaller(
                identity: .session(ObjectGrant(upload: upload, bucket: nil, keys: .all, actions: actions))
            )
        }
        func begin(_ caller: ApsaraCaller) async throws -> String? {
            do {
                _ = try await bench.begin(by: caller) { $0.subject = "dora" }
                return nil
            } catch let error as ApsaraError {
                return error.refusal?.code
            }
        }
        let first = try await bench.begin(by: user("dora"))
        for number in 1..<BegunUploads.maximum {
            let record = DialectRecord(
                kind: "aliyun begun",
                key: BegunUploads.key("\(number)", of: "dora"),
                text: "{}",
                createdAt: bench.clock.now,
                expiresAt: bench.clock.now + day
            )
            #expect(try await bench.state.insert(record, at: bench.clock.now))
        }
        #expect(try await begin(user("dora")) == "Throttling.User")
        #expect(try await begin(ApsaraBench.server) == nil)
        #expect(try await bench.begin(by: user("eve")).subject == "eve")
        try await bench.send(of: first)
        #expect(try await begin(user("dora")) == nil)
        #expect(try await begin(user("dora")) == "Throttling.User")
        bench.clock.advance(by: day)
        #expect(try await begin(user("dora")) == nil)
    }

    @Test("what has expired, and is not forgotten yet, hides nothing that a user has begun", arguments: ["a", "z"])
    func expiredBegun(_ name: String) async throws {
        let clock = ManualClock()
        let state = InMemoryState(clock: clock)
        let begun = BegunUploads("begun", in: state, maximum: 3)
        func begin(_ id: String) async throws -> Bool {
            let now = clock.now
            let change = try await begun.beginning(id, of: "dora", until: now.addingTimeInterval(10), at: now)
            guard let change else { return false }
            return try await state.apply([change])
        }
        for round in 1...3 {
            for number in 1...3 { #expect(try await begin("m\(round)\(number)")) }
            #expect(try await !begin("m\(round)4"))
            clock.advance(by: 10)
        }
        // Their keys are before or after those that have expired.
        for number in 1...3 { #expect(try await begin("\(name)\(number)")) }
        #expect(try await !begin("\(name)4"))
        #expect(try await begun.beginning("\(name)4", of: "eve", until: clock.now, at: clock.now) != nil)
    }

    // MARK: Credentials

    @Test("UploadAuth has its six fields and UploadAddress its three, in the alphabets that all clients carry")
    func auth() async throws {
        let bench = try await ApsaraBench.telling()
        for _ in 0..<50 {
            let made = try await bench.call(.createUploadVideo, Self.video)
            let id = try #require(made.text("VideoId"))
            #expect(made.members.map(\.name) == ["VideoId", "UploadAddress", "UploadAuth"])
            let address = try decoded(made.text("UploadAddress"))
            #expect(
                address == [
                    "Endpoint": "https://oss.example", "Bucket": "outin-sluice", "FileName": "app-1000000/sv/\(id).mp4",
                ]
            )
            let auth = try decoded(made.text("UploadAuth"))
            let names = ["AccessKeyId", "AccessKeySecret", "SecurityToken", "ExpireUTCTime", "Expiration", "Region"]
            #expect(Set(auth.keys) == Set(names))
            let (key, secret) = (try #require(auth["AccessKeyId"]), try #require(auth["AccessKeySecret"]))
            let token = try #require(auth["SecurityToken"])
            #expect(key.hasPrefix("STS.") && key.dropFirst(4).allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber) })
            #expect(key.count > 10 && secret.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber) })
            #expect(
                token.utf8.count < 4096
                    && token.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || "+/=-_".contains($0)) }
            )
            #expect(auth["Expiration"] == "3000" && auth["Region"] == "cn-shanghai")
            #expect(auth["ExpireUTCTime"] == ApsaraDocuments.time(bench.clock.now + 3000))
            for text in [made.text("UploadAuth"), made.text("UploadAddress")] {
                #expect(text?.utf8.allSatisfy { $0 >= 0x21 && $0 < 0x7F } == true)
            }
        }
    }

    @Test("UploadAuth allows uploading the one object of its media, and nothing else")
    func oneObject() async throws {
        let bench = try await ApsaraBench.telling()
        let made = try await bench.call(.createUploadVideo, Self.video)
        let grant = try session(decoded(made.text("UploadAuth")), bench).grant
        let (bucket, key) = (bench.place.bucket, "app-1000000/sv/\(try #require(made.text("VideoId"))).mp4")
        for action in ObjectAction.allCases {
            let isUpload = ObjectAction.upload.contains(action)
            #expect(grant.allows(action, bucket: bucket, key: key) == isUpload, "\(action)")
            if !action.isForBucket {
                for other in [key + "x", "app-1000000/sv/", "", "app-1000000/"] {
                    #expect(!grant.allows(action, bucket: bucket, key: other), "\(action) \(other)")
                }
            }
            #expect(!grant.allows(action, bucket: "other", key: key))
        }
        // Nor the API of media itself.
        let caller = ApsaraCaller(identity: .session(grant))
        for action in ApsaraAction.allCases {
            #expect(!caller.may(action, in: ApsaraBench.application, at: bench.place), "\(action)")
        }
    }

    @Test("it is valid for its time, to the second")
    func lifetime() async throws {
        var settings = AliyunVODSettings()
        settings.authLifetime = .seconds(90)
        let bench = try ApsaraBench(settings)
        let issued = try await bench.uploads.begin(ApsaraBench.video, by: ApsaraBench.server)
        #expect(issued.seconds == 90)
        #expect(issued.media.openUntil == bench.clock.now.unixSeconds + 90 + 3600)
        func open(grace: TimeInterval = 0) throws -> Session {
            try bench.issuer.open(
                accessKeyID: issued.credentials.accessKeyID,
                token: issued.credentials.sessionToken,
                at: bench.clock.now,
                grace: grace
            )
        }
        bench.clock.advance(by: 89)
        _ = try open()
        bench.clock.advance(by: 1)
        #expect(throws: CredentialFailure.self) { try open() }
        // Media is looked at for as long as a multipart upload can be completed.
        bench.clock.advance(by: Double(ApsaraPlace.grace) - 1)
        #expect(try open(grace: Double(ApsaraPlace.grace)).isInGrace)
        #expect(bench.clock.now.unixSeconds < issued.media.openUntil)
    }

    @Test("refreshing gives other credentials for the same object, with the same id; earlier ones stay valid")
    func refreshing() async throws {
        let bench = try await ApsaraBench.telling()
        let made = try await bench.call(.createUploadVideo, Self.video.merging(["ReferenceId": "film-1"]) { $1 })
        let id = try #require(made.text("VideoId"))
        let old = try decoded(made.text("UploadAuth"))
        bench.clock.advance(by: 2999)
        for names in [["VideoId": id], ["ReferenceId": "film-1"]] {
            let new = try await bench.call(.refreshUploadVideo, names)
            #expect(new.text("VideoId") == id && new.text("UploadAddress") == made.text("UploadAddress"))
            let auth = try decoded(new.text("UploadAuth"))
            #expect(auth["AccessKeyId"] != old["AccessKeyId"] && auth["SecurityToken"] != old["SecurityToken"])
            let (first, second) = (try session(old, bench).grant, try session(auth, bench).grant)
            #expect(first.upload.id == second.upload.id && first.keys == second.keys)
            #expect(second.upload.expiresAt == bench.clock.now + 3000)
        }
        bench.clock.advance(by: 100 * day)
        #expect(try await bench.call(.refreshUploadVideo, ["VideoId": id]).text("VideoId") == id)
        #expect(try await bench.count(ApsaraMedia.recordKind) == 1)
    }

    @Test("an upload in parts goes on after a refresh")
    func partsAfterRefresh() async throws {
        let bench = try await ApsaraBench.telling()
        let media = try await bench.begin()
        let upload = try await bench.beginParts(of: media)
        try await bench.putPart(1, [1, 2], of: upload)
        bench.clock.advance(by: 3001)
        #expect(try await bench.refresh(media) != nil)
        try await bench.putPart(2, [3], of: upload)
        try await bench.complete(upload, of: [[1, 2], [3]])
        await bench.library.stored(media.name)
        #expect(try await bench.recorded(media.id)?.content?.size == 3)
    }

    @Test("the first complete object ends the right to write, and a refresh gives it anew", arguments: [false, true])
    func endOfRight(inParts: Bool) async throws {
        let bench = try await ApsaraBench.telling()
        let media = try await bench.begin()
        let first = try await bench.currentGrant(for: media)
        let open = try await bench.beginParts(of: media)
        try await bench.putPart(1, [9], of: open)
        #expect(try await bench.refresh(media) != nil)
        // Without content a refresh is for the same upload.
        #expect(try await bench.currentGrant(for: media).id == first.id)
        if inParts { try await bench.putParts(of: media) } else { try await bench.put([1, 2, 3], of: media) }
        let stored = try #require(try await bench.services.objects.object(media.name))
        for bytes in [[], [3, 2, 1], [1, 2, 3, 4]] as [[UInt8]] {
            #expect(try await bench.refusal { try await bench.put(bytes, of: media, under: first) } == .conditionFailed)
        }
        #expect(try await bench.refusal { try await bench.complete(open, of: [[9]]) } == .conditionFailed)
        #expect(try await bench.refusal { _ = try await bench.beginParts(of: media) } == .conditionFailed)
        // The response to it was lost.
        if !inParts { try await bench.put([1, 2, 3], of: media, under: first) }
        #expect(try await bench.services.objects.object(media.name) == stored)

        #expect(try await bench.refresh(media) != nil)
        #expect(try await bench.refusal { try await bench.put([4], of: media, under: first) } == .conditionFailed)
        try await bench.send([4], of: media)
        #expect(try await bench.refusal { try await bench.put([5, 5], of: media) } == .conditionFailed)
        let content = try #require(try await bench.recorded(media.id)?.content)
        #expect(content.size == 1 && content.md5 == Hexadecimal.encode(Digest.hash([4], .md5)))
        #expect(try await bench.deliver().map(\.size) == [3, 1])
        #expect(try await bench.refresh(media) != nil)
        try await bench.library.delete(media.id, hasEvent: true)
        #expect(try await bench.refusal { try await bench.put([4], of: media) } == .conditionFailed)
        #expect(try await bench.keys().isEmpty)
    }

    @Test("only videos that are there are refreshed")
    func notRefreshed() async throws {
        let bench = try await ApsaraBench.telling()
        let image = try await bench.begin { $0.kind = .image }
        let deleted = try await bench.begin { $0.labels.referenceID = "film-1" }
        try await bench.library.delete(deleted.id, hasEvent: true)
        for names in [
            ["VideoId": image.id], ["VideoId": deleted.id], ["ReferenceId": "film-1"], ["ReferenceId": "film-2"],
            ["VideoId": "x"], ["VideoId": String(repeating: "0", count: 32)],
        ] {
            #expect(try await code { try await bench.call(.refreshUploadVideo, names) } == "InvalidVideo.NotFound")
        }
        #expect(try await code { try await bench.call(.refreshUploadVideo, [:]) } == "MissingParameter")
    }

    @Test("a call that names no application finds a reference id in one that its caller may use, the default one first")
    func referenceOfApplications() async throws {
        let bench = try await ApsaraBench.telling()
        var ids: [String: String] = [:]
        for application in ["app-1", ApsaraBench.application, "app-3"] {
            ids[application] = try await bench.begin { new in
                new.labels.referenceID = "film-3"
                new.application = application
            }.id
        }
        func found(_ application: String?, by prefix: String? = nil) async throws -> String? {
            var names = ["ReferenceId": "film-3"]
            names["AppId"] = application
            let limits = prefix.map { KeyLimits(buckets: [bench.place.bucket], prefixes: [$0]) } ?? KeyLimits()
            let caller = ApsaraCaller(identity: .key(ApsaraBench.key(limits)))
            return try? await bench.call(.refreshUploadVideo, names, by: caller).text("VideoId")
        }
        #expect(try await found(nil) == ids[ApsaraBench.application])
        #expect(try await found("app-1") == ids["app-1"])
        #expect(try await found("app-4") == nil)
        #expect(try await found(nil, by: "app-3/") == ids["app-3"])
        #expect(try await found("app-1", by: "app-3/") == nil)
    }

    // MARK: Limits

    @Test(
        "credentials have the least of the sizes that limit an upload",
        arguments: [
            (nil, nil, nil, nil), (100, nil, nil, 100), (nil, 50, nil, 50), (100, 50, nil, 50), (50, 100, nil, 50),
            (nil, nil, 70, 70), (100, nil, 70, 70), (60, nil, 70, 60), (nil, 80, 70, 70), (nil, 60, 70, 60),
        ] as [(Int64?, Int64?, Int64?, Int64?)]
    )
    func sizes(_ size: Int64?, _ most: Int64?, _ session: Int64?, _ expected: Int64?) async throws {
        let bench = try await ApsaraBench.telling()
        var caller = ApsaraBench.server
        if let session {
            let grant = Grant(
                id: "s",
                subject: "dora",
                maximumBytes: session,
                contentTypes: ["video/*"],
                expiresAt: .distantFuture
            )
            caller = ApsaraCaller(identity: .session(ObjectGrant(upload: grant, bucket: nil, keys: .all)))
        }
        if let size, let session, size > session {
            let refused = try await code { _ = try await bench.begin(by: caller) { $0.size = size } }
            #expect(refused == "InvalidParameter")
            #expect(try await bench.count(ApsaraMedia.recordKind) == 0)
            return
        }
        var new = ApsaraBench.video
        new.size = size
        new.maximumBytes = most
        if let size, let most, size > most {
            #expect(try await code { _ = try await bench.uploads.begin(new, by: caller) } == "InvalidParameter")
            return
        }
        let issued = try await bench.uploads.begin(new, by: caller)
        let grant = try bench.issuer.open(
            accessKeyID: issued.credentials.accessKeyID,
            token: issued.credentials.sessionToken,
            at: bench.clock.now
        ).grant.upload
        #expect(grant.maximumBytes == expected)
        #expect(grant.contentTypes == (session == nil ? [] : ["video/*"]))
        #expect(grant.subject == (session == nil ? nil : "dora") && grant.issuer == (session == nil ? "key_a" : nil))
        #expect(grant.metadata == ["mediaId": issued.media.id])
        // A refresh allows no more.
        let again = try #require(try await bench.refresh(issued.media, by: caller))
        #expect(
            try bench.issuer.open(
                accessKeyID: again.credentials.accessKeyID,
                token: again.credentials.sessionToken,
                at: bench.clock.now
            ).grant.upload.maximumBytes == expected
        )
    }

    @Test("a file that is larger than FileSize is refused")
    func larger() async throws {
        let bench = try await ApsaraBench.telling()
        let media = try await bench.begin { $0.size = 2 }
        let error = await #expect(throws: UploadError.self) { try await bench.put([1, 2, 3], of: media) }
        #expect(error?.code == .tooLarge(limit: 2))
        try await bench.put([1, 2], of: media)
    }

    private func bench(_ policy: (inout Policy) -> Void) async throws -> ApsaraBench {
        var limits = Policy()
        policy(&limits)
        return try ApsaraBench(
            limits: UploadLimits(maximumBytes: 1000, lifetime: nil, policies: [.subject: limits])
        )
    }

    private func refusal(_ bench: ApsaraBench, _ change: (inout ApsaraNewUpload) -> Void) async throws -> String? {
        try await code {
            _ = try await bench.begin { new in
                new.subject = "dora"
                new.labels.referenceID = "film-1"
                change(&new)
            }
        }
    }

    @Test("limits and quotas refuse before anything is recorded")
    func quotas() async throws {
        let cases: [((inout Policy) -> Void, (inout ApsaraNewUpload) -> Void, String)] = [
            ({ _ in }, { $0.size = 1001 }, "InvalidParameter"),
            ({ $0.uploadBytes = 10 }, { $0.size = 11 }, "InvalidParameter"),
            ({ $0.storedBytes = 10 }, { $0.size = 11 }, "OperationDenied"),
            ({ $0.openUploads = 0 }, { _ in }, "OperationDenied"),
            ({ $0.contentTypes = ["image/*"] }, { _ in }, "InvalidParameter"),
            ({ $0.extensions = ["mov"] }, { _ in }, "InvalidParameter"),
        ]
        for (index, (policy, change, expected)) in cases.enumerated() {
            let bench = try await bench(policy)
            #expect(try await refusal(bench, change) == expected, "\(index)")
            for kind in [ApsaraMedia.recordKind, ApsaraLibrary.openKind, ApsaraLibrary.referenceKind] {
                #expect(try await bench.count(kind) == 0, "\(index) \(kind)")
            }
        }
        let bench = try await bench { policy in
            policy.contentTypes = ["video/mp4"]
            policy.extensions = ["mp4"]
            policy.storedBytes = 10
        }
        #expect(try await refusal(bench) { $0.size = 10 } == nil)
    }

    @Test("a quota that is used up refuses a refresh, too")
    func refreshQuota() async throws {
        let bench = try await bench { $0.periodUploads = 1 }
        let media = try await bench.begin { $0.subject = "dora" }
        #expect(try await bench.refresh(media) != nil)
        try await bench.send(of: media)
        #expect(try await code { _ = try await bench.refresh(media) } == "OperationDenied")
    }

    @Test("a grant that fits into no token leaves no media")
    func longGrant() async throws {
        let bench = try await ApsaraBench.telling()
        let types = (0..<400).map { "video/x-very-long-type-\($0)" } + ["video/mp4"]
        let grant = Grant(id: "s", subject: nil, contentTypes: types, expiresAt: .distantFuture)
        let caller = ApsaraCaller(identity: .session(ObjectGrant(upload: grant, bucket: nil, keys: .all)))
        let refused = try await code { _ = try await bench.begin(by: caller) { $0.labels.referenceID = "film-1" } }
        #expect(refused == "InvalidParameter")
        #expect(try await bench.count(ApsaraMedia.recordKind) == 0)
        #expect(try await bench.count(ApsaraLibrary.referenceKind) == 0)
    }

    @Test("the bucket is made when it is needed, also by two at once")
    func bucket() async throws {
        let bench = try await ApsaraBench.telling()
        bench.state.plan.pause { await Task.yield() }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<5 { group.addTask { _ = try await bench.begin() } }
            try await group.waitForAll()
        }
        #expect(try await bench.services.objects.bucket("outin-sluice") != nil)
    }

    // MARK: What callers say

    @Test("a video has the labels of its call, and its title at least")
    func labels() async throws {
        let bench = try await ApsaraBench.telling()
        let made = try await bench.call(
            .createUploadVideo,
            [
                "Title": "Film", "FileName": "/films/film.MP4", "FileSize": "100", "Description": "d",
                "CoverURL": "https://c.example/c.png", "CateId": "-1", "Tags": "a,b", "TemplateGroupId": "t",
                "WorkflowId": "w", "StorageLocation": "s", "UserData": #"{"Extend":"x"}"#, "ReferenceId": "film-1",
                "AppId": "app-7", "Unknown": "x",
            ]
        )
        let media = try #require(try await bench.recorded(made.text("VideoId") ?? ""))
        var expected = ApsaraMedia.Labels(title: "Film", description: "d", coverURL: "https://c.example/c.png")
        expected.categoryIDs = [-1]
        expected.tags = ["a", "b"]
        expected.templateGroupID = "t"
        expected.workflowID = "w"
        expected.storageLocation = "s"
        expected.userData = #"{"Extend":"x"}"#
        expected.referenceID = "film-1"
        #expect(media.labels == expected && media.announced == 100 && media.application == "app-7")
        #expect(media.fileName == "film.MP4" && media.suffix == "mp4" && media.key == "app-7/sv/\(media.id).mp4")
        #expect(media.issuer == "key_a" && media.subject == nil)
    }

    @Test("a name of a kilobyte in Chinese is kept, and not part of the key")
    func longName() async throws {
        let bench = try await ApsaraBench.telling()
        let name = String(repeating: "影", count: 340) + ".mp4"
        let made = try await bench.call(.createUploadVideo, ["Title": "t", "FileName": "/a/b\\" + name])
        let media = try #require(try await bench.recorded(made.text("VideoId") ?? ""))
        #expect(media.fileName == name && media.key == "app-1000000/sv/\(media.id).mp4")
        try await bench.send(of: media)
        // An image is called as its file.
        let image = try await bench.call(.createUploadImage, ["ImageType": "default", "OriginalFileName": name])
        let title = try #require(try await bench.recorded(image.text("ImageId") ?? "")).labels.title
        #expect(title == String(repeating: "影", count: 128))
    }

    @Test(
        "a video without what it must have, or with what it must not, is refused",
        arguments: [
            (["Title": nil], "MissingParameter"), (["Title": ""], "MissingParameter"),
            (["FileName": nil], "MissingParameter"), (["FileName": "film"], "InvalidFileName.Extension"),
            (["FileName": "film."], "InvalidFileName.Extension"),
            (["FileName": "film.mp4/x"], "InvalidFileName.Extension"),
            (["FileName": "film.m/../p4"], "InvalidFileName.Extension"), (["FileName": "f\0.mp4"], "IllegalCharacters"),
            (["FileName": String(repeating: "a", count: 2045) + ".mp4"], "LengthExceededMax"),
            (["Title": String(repeating: "a", count: 129)], "LengthExceededMax"),
            (["Title": "\u{1}"], "IllegalCharacters"),
            (["Description": String(repeating: "a", count: 1025)], "LengthExceededMax"),
            (["CoverURL": String(repeating: "a", count: 1025)], "LengthExceededMax"),
            (["Tags": String(repeating: "a,", count: 17)], "TagsExceededMax"),
            (["CateId": "x"], "InvalidParameter"), (["CateIds": "1,2,3,4,5,6"], "InvalidParameter"),
            (["CateIds": "1,x"], "InvalidParameter"), (["FileSize": "-1"], "InvalidParameter"),
            (["FileSize": "1.5"], "InvalidParameter"), (["FileSize": "48800000000001"], "InvalidParameter"),
            (["UserData": "x"], "InvalidParameter"), (["ReferenceId": "short"], "InvalidParameter"),
            (["UserData": #"{"MessageCallback":{"CallbackURL":"http://other.org/"}}"#], "InvalidParameter"),
            (["UserData": #"{"MessageCallback":{"CallbackURL":"x"}}"#], "InvalidParameter"),
            (["UserData": "{" + String(repeating: " ", count: 4096) + "}"], "LengthExceededMax"),
            (["AppId": "app/1"], "InvalidAppId.NotFound"), (["AppId": "app-\0"], "InvalidAppId.NotFound"),
            (["WorkflowId": String(repeating: "a", count: 65)], "LengthExceededMax"),
        ] as [([String: String?], String)]
    )
    func wrongVideo(_ change: [String: String?], _ expected: String) async throws {
        let bench = try await ApsaraBench.telling()
        var parameters = Self.video
        for (name, value) in change { parameters[name] = value }
        #expect(try await code { try await bench.call(.createUploadVideo, parameters) } == expected)
        #expect(try await bench.count(ApsaraMedia.recordKind) == 0)
    }

    @Test(
        "an image has its extension from ImageExt, from its file, or is PNG",
        arguments: [
            ([:], "png"), (["ImageExt": "JPG"], "jpg"), (["OriginalFileName": "a.gif"], "gif"),
            (["OriginalFileName": "a.exe"], "png"), (["OriginalFileName": "a"], "png"),
            (["OriginalFileName": "a.gif", "ImageExt": "jpeg"], "jpeg"),
        ]
    )
    func images(_ change: [String: String], _ suffix: String) async throws {
        let bench = try await ApsaraBench.telling()
        let made = try await bench.call(.createUploadImage, ["ImageType": "cover"].merging(change) { $1 })
        let names = ["ImageId", "ImageURL", "FileURL", "UploadAddress", "UploadAuth"]
        #expect(made.members.map(\.name) == names)
        let media = try #require(try await bench.recorded(made.text("ImageId") ?? ""))
        #expect(media.kind == .image && media.category == "cover" && media.suffix == suffix)
        #expect(media.key == "app-1000000/image/\(media.id).\(suffix)")
        #expect(made.text("ImageURL") == "https://oss.example/outin-sluice/\(media.key)")
    }

    @Test(
        "attached media has its extension from MediaExt, or from its file",
        arguments: [
            (["MediaExt": "SRT"], "srt"), (["FileName": "/a/b.ass"], "ass"),
            (["MediaExt": "srt", "FileName": "b.ass"], "srt"),
        ]
    )
    func attached(_ change: [String: String], _ suffix: String) async throws {
        let bench = try await ApsaraBench.telling()
        let parameters = ["BusinessType": "subtitle", "CateIds": "1,2,3,4,5"].merging(change) { $1 }
        let made = try await bench.call(.createUploadAttachedMedia, parameters)
        #expect(made.members.map(\.name) == ["MediaId", "MediaURL", "FileURL", "UploadAddress", "UploadAuth"])
        let media = try #require(try await bench.recorded(made.text("MediaId") ?? ""))
        #expect(media.kind == .attached && media.category == "subtitle" && media.suffix == suffix)
        #expect(media.labels.categoryIDs == [1, 2, 3, 4, 5])
        #expect(media.key == "app-1000000/attached/\(media.id).\(suffix)")
    }

    @Test(
        "images and attached media with wrong types are refused",
        arguments: [
            (ApsaraAction.createUploadImage, [:], "MissingParameter"),
            (.createUploadImage, ["ImageType": "x"], "InvalidParameter"),
            (.createUploadImage, ["ImageType": "default", "ImageExt": "exe"], "InvalidParameter"),
            (.createUploadImage, ["ImageType": "default", "ImageExt": "../png"], "InvalidParameter"),
            (.createUploadAttachedMedia, ["MediaExt": "srt"], "MissingParameter"),
            (.createUploadAttachedMedia, ["BusinessType": "x", "MediaExt": "srt"], "InvalidParameter"),
            (.createUploadAttachedMedia, ["BusinessType": "subtitle"], "MissingParameter"),
            (.createUploadAttachedMedia, ["BusinessType": "subtitle", "FileName": "x"], "MissingParameter"),
            (.createUploadAttachedMedia, ["BusinessType": "subtitle", "MediaExt": "s/rt"], "InvalidParameter"),
        ]
    )
    func wrongKinds(_ action: ApsaraAction, _ parameters: [String: String], _ expected: String) async throws {
        let bench = try await ApsaraBench.telling()
        #expect(try await code { try await bench.call(action, parameters) } == expected)
    }

    @Test("applications are those of the setting, and the default one")
    func applications() async throws {
        var settings = AliyunVODSettings()
        settings.appIDs = ["app-1", "app-2"]
        let place = ApsaraPlace(settings)
        for (application, isThere) in [
            ("app-1000000", true), ("app-1", true), ("app-2", true), ("app-3", false), ("", false), ("app-1/", false),
        ] {
            #expect(place.has(application) == isThere)
            if !application.isEmpty, !application.contains("/") {
                #expect(ApsaraPlace(AliyunVODSettings()).has(application))
            }
        }
        let bench = try ApsaraBench(settings)
        let refused = try await code {
            try await bench.call(.createUploadVideo, Self.video.merging(["AppId": "app-3"]) { $1 })
        }
        #expect(refused == "InvalidAppId.NotFound")
    }

    @Test("an object belongs to the media whose id its key has")
    func keys() {
        let place = ApsaraPlace(AliyunVODSettings())
        let id = ApsaraMedia.newID(at: .now)
        for kind in [ApsaraMedia.Kind.video, .image, .attached] {
            let key = ApsaraPlace.key(kind, id, of: "app-1", suffix: "mp4")
            #expect(key.hasPrefix(ApsaraPlace.directory("app-1")))
            #expect(place.mediaID(of: ObjectName(bucket: place.bucket, key: key)) == id)
            #expect(place.mediaID(of: ObjectName(bucket: "x", key: key)) == nil)
        }
        for key in [
            "", "/", "//", "a/b/c", "\(id).mp4", "a/\(id).mp4", "a/b/c/\(id).mp4", "a/b/\(id.uppercased()).mp4",
        ] {
            #expect(place.mediaID(of: ObjectName(bucket: place.bucket, key: key)) == nil)
        }
    }
}
