import CloudCalls
import Foundation
import HTTPWire
import ObjectGateway
import SluiceTesting
import Synchronization
import Testing
import UploadCore
import UploadModel

@testable import AliyunVOD
@testable import VODKit

@Suite("Calls of ApsaraVideo VOD that the cloud performs", .timeLimit(.minutes(10)))
struct ApsaraBrokerTests {
    /// A cloud that gives each media an id, and says yes to everything.
    private final class Cloud: Sendable {
        private struct State {
            var calls: [(String, [String: String])] = []
            /// In whose turn they came.
            var users: [String?] = []
            var failure: CloudForwarder.Failure?
            var status = 200
        }

        private let state = Mutex(State())

        var calls: [(action: String, parameters: [String: String])] { state.withLock { $0.calls.map { ($0.0, $0.1) } } }

        var users: [String?] { state.withLock { $0.users } }

        func fail() { state.withLock { $0.failure = CloudForwarder.Failure("away") } }

        func answer(with status: Int) { state.withLock { $0.status = status } }

        func perform(
            _ action: String,
            _ parameters: [(name: String, value: String)],
            for subject: String?
        ) throws(CloudForwarder.Failure) -> CloudForwarder.Reply {
            let (number, failure, status) = state.withLock { state in
                state.users.append(subject)
                state.calls.append((action, Dictionary(uniqueKeysWithValues: parameters.map { ($0.name, $0.value) })))
                return (state.calls.count, state.failure, state.status)
            }
            if let failure { throw failure }
            return CloudForwarder.Reply(status: status, content: Array(#"{"VideoId":"cloud\#(number)"}"#.utf8))
        }
    }

    private struct Bench {
        let base: ApsaraBench
        let cloud = Cloud()
        let broker: ApsaraBroker

        init() throws {
            base = try ApsaraBench()
            broker = ApsaraBroker(
                place: base.place,
                cloud: { [cloud] (action, parameters, _, subject) async throws(CloudForwarder.Failure) in
                    try cloud.perform(action, parameters, for: subject)
                },
                reader: ApsaraUploadReader(place: base.place) { _ in nil },
                workflows: ["flow-1", "VOD_NO_TRANSCODE"],
                records: base.state,
                uploads: base.services.uploads,
                clock: base.clock
            )
        }

        func call(
            _ action: ApsaraAction,
            _ parameters: [String: String],
            by caller: ApsaraCaller
        ) async throws -> String? {
            let head = RequestHead(method: .get, target: try RequestTarget(parsing: "/", method: .get), fields: [:])
            let request = Request(head: head, body: NoBody(), id: "r", peerAddress: "::1", isEncrypted: false) { _ in }
            return try await code {
                _ = try await broker.perform(try ApsaraBench.order(action, parameters, by: caller), for: request)
            }
        }

        /// The id of new media.
        func begin(by caller: ApsaraCaller) async throws -> String {
            let refused = try await call(.createUploadVideo, ["Title": "t", "FileName": "t.mp4"], by: caller)
            #expect(refused == nil)
            return "cloud\(cloud.calls.count)"
        }
    }

    private static func user(_ name: String) -> ApsaraCaller {
        ApsaraCaller(identity: .key(ApsaraBench.key(KeyLimits(subjects: [name]))))
    }

    @Test("a caller with limits reaches media of its users only, by whichever parameter it is named")
    func owners() async throws {
        let bench = try Bench()
        let (dora, eve) = (Self.user("dora"), Self.user("eve"))
        let own = try await bench.begin(by: dora)
        let foreign = try await bench.begin(by: eve)
        let unknown = "cloud99"
        let count = bench.cloud.calls.count
        for id in [foreign, unknown] {
            let calls: [(ApsaraAction, [String: String])] = [
                (.getVideoInfo, ["VideoId": id]), (.refreshUploadVideo, ["VideoId": id]),
                (.updateVideoInfo, ["VideoId": id, "Title": "x"]), (.getPlayInfo, ["VideoId": id]),
                (.getMezzanineInfo, ["VideoId": id]), (.getUploadDetails, ["MediaIds": "\(own),\(id)"]),
                (.getVideoInfos, ["VideoIds": "\(own),\(id)"]), (.deleteVideo, ["VideoIds": "\(own), \(id)"]),
                (.deleteMultipartUpload, ["MediaId": id]), (.getImageInfo, ["ImageId": id]),
                (.deleteImage, ["DeleteImageType": "ImageId", "ImageIds": id]),
                (.deleteImage, ["DeleteImageType": "VideoId", "VideoId": id]),
                (.deleteImage, ["DeleteImageType": "VideoId", "VideoId": id, "ImageIds": own]),
                (.deleteImage, ["DeleteImageType": "ImageURL", "ImageURLs": id, "ImageIds": own]),
                (.deleteVideo, ["VideoIds": own, "ReferenceIds": "film-1"]),
                (.getVideoInfo, ["VideoId": own, "ReferenceId": "film-1"]), (.deleteVideo, ["ReferenceIds": "film-1"]),
            ]
            for (action, parameters) in calls {
                #expect(try await bench.call(action, parameters, by: dora) != nil, "\(action) \(parameters)")
            }
        }
        for action in [ApsaraAction.searchMedia, .setMessageCallback, .getMessageCallback, .uploadMediaByURL] {
            #expect(try await bench.call(action, [:], by: dora) == "Forbidden")
        }
        #expect(bench.cloud.calls.count == count)
        #expect(try await bench.call(.getVideoInfo, ["VideoId": own], by: dora) == nil)
        #expect(try await bench.call(.updateVideoInfo, ["VideoId": own, "ReferenceId": "film-1"], by: dora) == nil)
        #expect(try await bench.call(.deleteVideo, ["VideoIds": own], by: dora) == nil)
        // A key without limits acts for the account.
        for parameters in [["VideoIds": "\(foreign),\(unknown)"], ["ReferenceIds": "film-1"]] {
            #expect(try await bench.call(.deleteVideo, parameters, by: ApsaraBench.server) == nil)
        }
        #expect(bench.cloud.calls.count == count + 5)
    }

    @Test("the cloud hears from a caller with limits only what concerns media of its users")
    func forwarded() async throws {
        let bench = try Bench()
        let (dora, eve) = (Self.user("dora"), Self.user("eve"))
        let (own, foreign) = (try await bench.begin(by: dora), try await bench.begin(by: eve))
        func sent(_ action: ApsaraAction, _ parameters: [String: String]) async throws -> [String: String] {
            let refused = try await bench.call(action, parameters, by: dora)
            #expect(refused == nil, "\(action)")
            return bench.cloud.calls.last?.parameters ?? [:]
        }
        let more = [
            "OwnerAccount": "a", "ResourceOwnerId": "1", "videoId": foreign, "VideoIds.1": foreign, "videoid ": foreign,
            "Unknown": "1",
        ]
        let video = ["Title": "t", "FileName": "t.mp4", "Tags": "a", "AppId": "app-1000000"]
        #expect(try await sent(.createUploadVideo, video.merging(more) { $1 }) == video)
        #expect(try await sent(.getVideoInfo, more.merging(["VideoId": own]) { $1 }) == ["VideoId": own])
        #expect(try await sent(.getVideoInfos, more.merging(["VideoIds": own]) { $1 }) == ["VideoIds": own])
        let deletion = ["MediaId": own, "MediaType": "video", "VideoId": foreign]
        #expect(try await sent(.deleteMultipartUpload, deletion) == ["MediaId": own, "MediaType": "video"])
        let attached = ["BusinessType": "subtitle", "MediaExt": "srt", "MediaIds": own]
        #expect(try await sent(.createUploadAttachedMedia, attached) == attached)
        let count = bench.cloud.calls.count
        let others = attached.merging(["MediaIds": "\(own),\(foreign)"]) { $1 }
        #expect(try await bench.call(.createUploadAttachedMedia, others, by: dora) == "InvalidMedia.NotFound")
        let called = ["UserData": #"{"MessageCallback":{"CallbackURL":"http://other.example/","CallbackType":"http"}}"#]
        for (action, parameters) in [(ApsaraAction.createUploadVideo, video), (.updateVideoInfo, ["VideoId": own])] {
            let refused = try await bench.call(action, parameters.merging(called) { $1 }, by: dora)
            #expect(refused == "InvalidParameter", "\(action)")
        }
        for change in [
            ["UserData": #"{"messageCallback":{"CallbackURL":"http://other.example/"}}"#],
            ["UserData": #"{"message_callback":{"CallbackURL":"http://other.example/"}}"#],
            ["UserData": #"{"Extend":"1","MessageCallback ":{}}"#], ["UserData": "[]"], ["UserData": "text"],
            ["StorageLocation": "other.oss-cn-shanghai.aliyuncs.com"],
        ] {
            let refused = try await bench.call(.createUploadVideo, video.merging(change) { $1 }, by: dora)
            #expect(refused == "InvalidParameter", "\(change)")
        }
        #expect(bench.cloud.calls.count == count)
        let extended = video.merging(["UserData": #"{"Extend":{"order":7}}"#, "CateId": "7"]) { $1 }
        #expect(try await sent(.createUploadVideo, extended) == extended)
        // A key without limits acts for the account.
        let all = video.merging(called) { $1 }.merging(["Unknown": "1", "OwnerAccount": "a"]) { $1 }
        #expect(try await bench.call(.createUploadVideo, all, by: ApsaraBench.server) == nil)
        #expect(bench.cloud.calls.last?.parameters == all)
    }

    @Test("a call is in the turn of its user")
    func users() async throws {
        let bench = try Bench()
        let id = try await bench.begin(by: Self.user("dora"))
        #expect(try await bench.call(.getVideoInfo, ["VideoId": id], by: Self.user("dora")) == nil)
        // A key without limits acts for the app.
        #expect(try await bench.call(.getVideoInfo, ["VideoId": id], by: ApsaraBench.server) == nil)
        #expect(bench.cloud.users == ["dora", "dora", nil])
    }

    @Test("a caller with limits chooses only workflows and template groups of the settings")
    func workflows() async throws {
        let bench = try Bench()
        let dora = Self.user("dora")
        let kinds: [(ApsaraAction, [String: String])] = [
            (.createUploadVideo, ["Title": "t", "FileName": "t.mp4"]), (.createUploadImage, ["ImageType": "default"]),
            (.createUploadAttachedMedia, ["BusinessType": "subtitle", "MediaExt": "srt"]),
        ]
        for (action, parameters) in kinds {
            for name in ["WorkflowId", "TemplateGroupId"] {
                for (id, isAllowed) in [("flow-1", true), ("VOD_NO_TRANSCODE", true), ("flow-2", false), ("", true)] {
                    let chosen = parameters.merging([name: id]) { $1 }
                    let count = bench.cloud.calls.count
                    let refused = try await bench.call(action, chosen, by: dora)
                    #expect(refused == (isAllowed ? nil : "InvalidParameter"), "\(action) \(name) \(id)")
                    #expect(bench.cloud.calls.count == count + (isAllowed ? 1 : 0))
                    if isAllowed { #expect(bench.cloud.calls.last?.parameters == chosen) }
                    // A key without limits acts for the account.
                    #expect(try await bench.call(action, chosen, by: ApsaraBench.server) == nil)
                    #expect(bench.cloud.calls.last?.parameters == chosen)
                }
            }
        }
    }

    @Test("links of the cloud end with the key that asks for them", arguments: [nil, 1000.5] as [TimeInterval?])
    func links(_ left: TimeInterval?) async throws {
        let bench = try Bench()
        let id = try await bench.begin(by: ApsaraBench.server)
        var key = ApsaraBench.key(KeyLimits())
        key.expiresAt = left.map { bench.base.clock.now.addingTimeInterval($0) }
        let caller = ApsaraCaller(identity: .key(key))
        func timeout(_ action: ApsaraAction, _ parameters: [String: String]) async throws -> String? {
            let refused = try await bench.call(action, parameters, by: caller)
            #expect(refused == nil)
            return bench.cloud.calls.last?.parameters["AuthTimeout"]
        }
        for (action, name) in [
            (ApsaraAction.getPlayInfo, "VideoId"), (.getMezzanineInfo, "VideoId"), (.getImageInfo, "ImageId"),
        ] {
            #expect(try await timeout(action, [name: id]) == left.map { _ in "1000" })
            #expect(try await timeout(action, [name: id, "AuthTimeout": "7200"]) == (left == nil ? "7200" : "1000"))
            #expect(try await timeout(action, [name: id, "AuthTimeout": "60"]) == "60")
            let count = bench.cloud.calls.count
            for wrong in ["0", "x", "99999999"] {
                #expect(try await bench.call(action, [name: id, "AuthTimeout": wrong], by: caller) != nil)
            }
            #expect(bench.cloud.calls.count == count)
        }
        #expect(try await timeout(.getVideoInfo, ["VideoId": id]) == nil)
    }

    @Test("an upload counts in the period of its user only if the cloud accepts it")
    func period() async throws {
        let bench = try Bench()
        let dora = Self.user("dora")
        func used() async throws -> [Int64] {
            let usage = try await bench.base.state.accounts([Account(.subject, "dora")]).values.first?.usage
            return [usage?.periodUploads ?? 0, usage?.periodBytes ?? 0, usage?.openUploads ?? 0]
        }
        let parameters = ["Title": "t", "FileName": "t.mp4", "FileSize": "7"]
        #expect(try await bench.call(.createUploadVideo, parameters, by: dora) == nil)
        #expect(try await used() == [1, 7, 0])
        bench.cloud.answer(with: 400)
        #expect(try await bench.call(.createUploadVideo, parameters, by: dora) == nil)
        bench.cloud.fail()
        #expect(try await bench.call(.createUploadVideo, parameters, by: dora) == "ServiceUnAvailable")
        #expect(try await used() == [1, 7, 0])
        // What cannot be taken back counts; the caller gets the cloud's error all the same.
        bench.base.state.plan.fail(.charge, onCall: 2)
        #expect(try await bench.call(.createUploadVideo, parameters, by: dora) == "ServiceUnAvailable")
        #expect(try await used() == [2, 14, 0])
    }

    @Test("what is passed on has neither the caller's key nor its signature")
    func parameters() async throws {
        let bench = try Bench()
        let sent = [
            "Title": "t", "FileName": "t.mp4", "AccessKeyId": "x", "Signature": "x", "SecurityToken": "x",
            "Action": "DeleteVideo", "Version": "x", "Unknown": "x",
        ]
        #expect(try await bench.call(.createUploadVideo, sent, by: ApsaraBench.server) == nil)
        let call = try #require(bench.cloud.calls.first)
        #expect(call.action == "CreateUploadVideo")
        #expect(call.parameters == ["Title": "t", "FileName": "t.mp4", "Unknown": "x"])
    }

    @Test("limits refuse before the cloud is called, and a cloud that is away leaves nothing")
    func refusals() async throws {
        let bench = try Bench()
        let video = ["Title": "t", "FileName": "t.mp4"]
        for (change, expected) in [
            (["FileSize": "1001"], "InvalidParameter"), (["FileName": "t"], "InvalidFileName.Extension"),
            (["AppId": "a/b"], "InvalidAppId.NotFound"),
        ] {
            let parameters = video.merging(change) { $1 }
            #expect(try await bench.call(.createUploadVideo, parameters, by: ApsaraBench.server) == expected)
        }
        #expect(bench.cloud.calls.isEmpty)
        bench.cloud.fail()
        #expect(try await bench.call(.createUploadVideo, video, by: ApsaraBench.server) == "ServiceUnAvailable")
        #expect(try await bench.base.count(ApsaraCloudMedia.recordKind) == 0)
    }
}
