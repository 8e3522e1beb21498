import CloudCalls
import Foundation
import GatewayKit
import ObjectStore
import SluiceTesting
import Testing
import UploadCore
import UploadModel

@testable import AliyunVOD
@testable import VODKit

@Suite("Actions of ApsaraVideo VOD", .timeLimit(.minutes(10)))
struct ApsaraActionsTests {
    private let unknown = String(repeating: "0", count: 32)

    private func refusal(
        _ action: ApsaraAction,
        _ parameters: [String: String],
        _ bench: ApsaraBench,
        by caller: ApsaraCaller = ApsaraBench.server
    ) async throws -> String? {
        try await code { try await bench.call(action, parameters, by: caller) }
    }

    // MARK: Reading

    @Test("GetVideoInfo tells what is known of a video, by its id or its reference id")
    func videoInfo() async throws {
        let bench = try await ApsaraBench.telling()
        let media = try await bench.begin { new in
            new.size = 100
            new.labels.description = "d"
            new.labels.categoryIDs = [5]
            new.labels.tags = ["a", "b"]
            new.labels.referenceID = "film-1"
            new.labels.userData = "{}"
            new.labels.coverURL = "c"
        }
        let began = ApsaraDocuments.time(bench.clock.now)
        for names in [["VideoId": media.id], ["ReferenceId": "film-1"]] {
            let video = try await bench.call(.getVideoInfo, names)
            for (name, text) in [
                ("VideoId", media.id), ("Title", "Film"), ("Status", "Uploading"), ("Size", "100"), ("CateId", "5"),
                ("Tags", "a,b"), ("Description", "d"), ("ReferenceId", "film-1"), ("UserData", "{}"), ("CoverURL", "c"),
                ("RegionId", "cn-shanghai"), ("AppId", "app-1000000"), ("StorageLocation", "outin-sluice"),
                ("CreationTime", began), ("ModificationTime", began),
            ] {
                #expect(video.text("Video", name) == text, "\(name)")
            }
        }
        bench.clock.advance(by: 60)
        try await bench.put(of: media)
        bench.clock.advance(by: 60)
        // The reader finds the object.
        let video = try await bench.call(.getVideoInfo, ["VideoId": media.id])
        #expect(video.text("Video", "Status") == "Normal" && video.text("Video", "Size") == "3")
        #expect(video.text("Video", "ModificationTime") == ApsaraDocuments.time(bench.clock.now - 60))
        #expect(video.text("Video", "CreationTime") == began)
    }

    @Test("several videos are told of, and which are not there")
    func videoInfos() async throws {
        let bench = try await ApsaraBench.telling()
        let first = try await bench.begin(reference: "film-1")
        let second = try await bench.begin()
        let image = try await bench.begin { $0.kind = .image }
        let ids = "\(second.id),\(image.id),x,\(first.id),\(second.id)"
        let found = try await bench.call(.getVideoInfos, ["VideoIds": ids])
        #expect(found.list("VideoList").map { $0.text("VideoId") } == [second.id, first.id])
        #expect(found.texts("NonExistVideoIds") == [image.id, "x"])
        let named = try await bench.call(.getVideoInfos, ["ReferenceIds": "film-1,film-2"])
        #expect(named.list("VideoList").map { $0.text("VideoId") } == [first.id])
        #expect(named.texts("NonExistReferenceIds") == ["film-2"])
    }

    @Test("GetUploadDetails tells what has arrived", arguments: [true, false])
    func details(isAnnounced: Bool) async throws {
        let bench = try await ApsaraBench.telling()
        let media = try await bench.begin { $0.size = isAnnounced ? 4 : nil }
        func details() async throws -> AliyunDocument {
            let found = try await bench.call(.getUploadDetails, ["MediaIds": "\(media.id),x", "MediaType": "video"])
            #expect(found.texts("NonExistMediaIds") == ["x"] && found.texts("ForbiddenMediaIds").isEmpty)
            return try #require(found.list("UploadDetails").first)
        }
        var found = try await details()
        #expect(found.text("UploadSize") == "0" && found.text("UploadRatio") == "0.0")
        #expect(found.text("FileSize") == (isAnnounced ? "4" : "0") && found.text("UploadStatus") == "Uploading")
        // The SDK reports, and an upload that was given up is still open.
        _ = try await bench.library.change(media.id) { media in
            media.progress = .init(uploadedBytes: 1, ratio: 0.25, deviceModel: "d", source: "s", address: "a")
        }
        found = try await details()
        #expect(found.text("UploadSize") == "1" && found.text("UploadRatio") == "0.25")
        #expect(found.text("DeviceModel") == "d" && found.text("UploadSource") == "s" && found.text("UploadIP") == "a")
        try await bench.putPart(1, [1], of: try await bench.beginParts(of: media))
        let upload = try await bench.beginParts(of: media)
        for number in 1...3 { try await bench.putPart(number, [1], of: upload) }
        found = try await details()
        #expect(found.text("UploadSize") == "3" && found.text("UploadRatio") == (isAnnounced ? "0.75" : "0.25"))
        try await bench.complete(upload, of: [[1], [1], [1]])
        found = try await details()
        #expect(found.text("UploadSize") == "3" && found.text("UploadRatio") == "1.0" && found.text("FileSize") == "3")
        #expect(found.text("UploadStatus") == "UploadSucc" && found.text("Status") == "Normal")
        #expect(found.text("CompletionTime") == ApsaraDocuments.time(bench.clock.now))
    }

    @Test(
        "the original is the only stream, with a link that expires",
        arguments: [
            (nil, 3600), ("1", 1), ("604800", 604_800), ("2592000", 604_800),
        ] as [(String?, Int)]
    )
    func play(_ timeout: String?, _ seconds: Int) async throws {
        let bench = try await ApsaraBench.telling()
        let media = try await bench.made()
        let link = "https://oss.example/\(media.key)?for=\(seconds)"
        var parameters = ["VideoId": media.id]
        parameters["AuthTimeout"] = timeout
        let found = try await bench.call(.getPlayInfo, parameters)
        #expect(found.text("VideoBase", "VideoId") == media.id && found.text("VideoBase", "MediaType") == "video")
        guard case .named("PlayInfo", let streams)? = found["PlayInfoList"], case .object(let stream)? = streams.first
        else {
            Issue.record("there is no stream")
            return
        }
        #expect(streams.count == 1 && stream.text("PlayURL") == link && stream.text("Size") == "3")
        #expect(stream.text("Format") == "mp4" && stream.text("Definition") == "OD")
        let mezzanine = try await bench.call(.getMezzanineInfo, parameters)
        #expect(mezzanine.text("Mezzanine", "FileURL") == link && mezzanine.text("Mezzanine", "Size") == "3")
        #expect(mezzanine.text("Mezzanine", "FileMD5") == "5289df737df57326fcdd22597afb1fac")
        #expect(mezzanine.text("Mezzanine", "FileName") == "v.mp4")
    }

    @Test(
        "streams that are not there are refused",
        arguments: [
            (["Formats": "mp4"], nil), (["Formats": "m3u8, MP4"], nil),
            (["Formats": "m3u8"], "InvalidVideo.NoneStream"),
            (["StreamType": "audio"], "InvalidVideo.NoneStream"), (["StreamType": "video"], nil),
            (["Definition": "HD"], "InvalidVideo.NoneStream"), (["Definition": "HD,OD"], nil),
            (["Definition": "AUTO"], nil),
            (["AuthTimeout": "0"], "InvalidParameter"), (["AuthTimeout": "2592001"], "InvalidParameter"),
            (["OutputType": "x"], "InvalidParameter"), (["OutputType": "cdn"], nil),
            (["VideoId": "x"], "InvalidVideo.NotFound"),
            (["VideoId": ""], "MissingParameter"),
        ] as [([String: String], String?)]
    )
    func streams(_ change: [String: String], _ expected: String?) async throws {
        let bench = try await ApsaraBench.telling()
        let media = try await bench.made()
        #expect(try await refusal(.getPlayInfo, ["VideoId": media.id].merging(change) { $1 }, bench) == expected)
    }

    @Test("a video that has not arrived is not played")
    func unfinished() async throws {
        let bench = try await ApsaraBench.telling()
        let media = try await bench.begin()
        #expect(try await refusal(.getPlayInfo, ["VideoId": media.id], bench) == "Forbidden.IllegalStatus")
        #expect(try await refusal(.getMezzanineInfo, ["VideoId": media.id], bench) == nil)
    }

    @Test("GetImageInfo tells what is known of an image")
    func image() async throws {
        let bench = try await ApsaraBench.telling()
        let media = try await bench.made { new in
            new.kind = .image
            new.category = "cover"
            new.suffix = "png"
            new.fileName = "a.png"
        }
        let found = try await bench.call(.getImageInfo, ["ImageId": media.id, "AuthTimeout": "60"])
        guard case .object(let image)? = found["ImageInfo"] else {
            Issue.record("there is no image")
            return
        }
        #expect(image.text("ImageId") == media.id && image.text("ImageType") == "cover")
        #expect(image.text("URL") == "https://oss.example/\(media.key)?for=60" && image.text("Status") == "Normal")
        #expect(image.text("Mezzanine", "FileSize") == "3" && image.text("Mezzanine", "OriginalFileName") == "a.png")
        #expect(try await refusal(.getImageInfo, ["ImageId": unknown], bench) == "InvalidImage.NotFound")
        #expect(try await refusal(.getImageInfo, [:], bench) == "MissingParameter")
        #expect(try await refusal(.getVideoInfo, ["VideoId": media.id], bench) == "InvalidVideo.NotFound")
    }

    @Test(
        "at most 20 ids are taken",
        arguments: [
            (ApsaraAction.getVideoInfos, "VideoIds", "VideoIdsExceededMax"),
            (.getVideoInfos, "ReferenceIds", "VideoIdsExceededMax"), (.deleteVideo, "VideoIds", "VideoIdsExceededMax"),
            (.deleteVideo, "ReferenceIds", "VideoIdsExceededMax"),
            (.getUploadDetails, "MediaIds", "LimitExceeded.MediaIds"),
            (.deleteImage, "ImageIds", "LimitExceeded.ImageIds"),
        ]
    )
    func tooMany(_ action: ApsaraAction, _ name: String, _ expected: String) async throws {
        let bench = try await ApsaraBench.telling()
        func refused(_ count: Int) async throws -> String? {
            let ids = (0..<count).map { "film-\($0)" }.joined(separator: ",")
            return try await refusal(action, [name: ids, "DeleteImageType": "ImageId"], bench)
        }
        #expect(try await refused(21) == expected)
        #expect(try await refused(20) != expected)
        #expect(try await refusal(action, ["DeleteImageType": "ImageId"], bench) == "MissingParameter")
    }

    // MARK: Changing

    @Test("UpdateVideoInfo changes what was sent, and nothing else")
    func update() async throws {
        let bench = try await ApsaraBench.telling()
        let media = try await bench.begin { new in
            new.labels.description = "d"
            new.labels.tags = ["a"]
            new.labels.categoryIDs = [1]
            new.labels.referenceID = "film-1"
        }
        bench.clock.advance(by: 5)
        func update(_ parameters: [String: String]) async throws -> ApsaraMedia.Labels? {
            try await bench.call(.updateVideoInfo, ["VideoId": media.id].merging(parameters) { $1 })
            return try await bench.recorded(media.id)?.labels
        }
        var expected = media.labels
        expected.title = "New"
        #expect(try await update(["Title": "New"]) == expected)
        #expect(try await bench.recorded(media.id)?.modifiedAt == media.modifiedAt + 5)
        // A title cannot be empty, other texts can.
        expected.description = ""
        expected.tags = []
        #expect(try await update(["Title": "", "Description": "", "Tags": ""]) == expected)
        expected.categoryIDs = [7]
        expected.coverURL = "c"
        expected.userData = "{}"
        #expect(try await update(["CateId": "7", "CoverURL": "c", "UserData": "{}", "FileName": "x"]) == expected)
        expected.referenceID = "film-2"
        #expect(try await update(["ReferenceId": "film-2"]) == expected)
        #expect(try await bench.holder(of: "film-2") == media.id)
        // The old one is free at once.
        _ = try await bench.begin(reference: "film-1")
        try await bench.call(.updateVideoInfo, ["ReferenceId": "film-2", "Title": "Newer"])
        expected.title = "Newer"
        #expect(try await bench.recorded(media.id)?.labels == expected)
    }

    @Test("wrong changes are refused, and change nothing")
    func wrongUpdates() async throws {
        let bench = try await ApsaraBench.telling()
        let media = try await bench.begin(reference: "film-1")
        _ = try await bench.begin(reference: "film-2")
        for (change, expected) in [
            (["Title": String(repeating: "a", count: 129)], "LengthExceededMax"),
            (["Tags": "\u{1}"], "IllegalCharacters"),
            (["UserData": "x"], "InvalidParameter"), (["ReferenceId": "film-2"], "InvalidReferenceId.Duplicated"),
            (["ReferenceId": "x"], "InvalidParameter"), (["VideoId": unknown], "InvalidVideo.NotFound"),
            (["VideoId": ""], "MissingParameter"),
        ] {
            let parameters = ["VideoId": media.id, "Title": "New"].merging(change) { $1 }
            #expect(try await refusal(.updateVideoInfo, parameters, bench) == expected)
        }
        #expect(try await bench.recorded(media.id) == media)
        #expect(try await bench.holder(of: "film-1") == media.id)
    }

    // MARK: Deleting

    @Test("DeleteVideo deletes by ids or reference ids, and tells which are not there")
    func deleteVideos() async throws {
        let bench = try await ApsaraBench.telling()
        let first = try await bench.made()
        let second = try await bench.made { $0.labels.referenceID = "film-1" }
        let image = try await bench.made { $0.kind = .image }
        let found = try await bench.call(.deleteVideo, ["VideoIds": "\(first.id),\(image.id),\(unknown)"])
        #expect(found.texts("NonExistVideoIds") == [image.id, unknown])
        #expect(try await bench.keys() == [second.key, image.key])
        let named = try await bench.call(.deleteVideo, ["ReferenceIds": "film-1,film-2"])
        #expect(named.texts("NonExistReferenceIds") == ["film-2"])
        #expect(try await bench.keys() == [image.key])
        let types = try await bench.deliver().map(\.type)
        #expect(types.count { $0 == "DeleteMediaComplete" } == 2)
        #expect(try await refusal(.deleteVideo, ["VideoIds": first.id], bench) == "InvalidVideo.NotFound")
        #expect(try await refusal(.deleteVideo, ["VideoIds": "\(first.id),\(second.id)"], bench) == nil)
    }

    @Test("DeleteImage deletes by ids or URLs")
    func deleteImages() async throws {
        let bench = try await ApsaraBench.telling()
        var images: [ApsaraMedia] = []
        for _ in 0..<2 { images.append(try await bench.made { $0.kind = .image }) }
        let video = try await bench.made()
        #expect(try await refusal(.deleteImage, ["ImageIds": images[0].id], bench) == "MissingParameter")
        let byID = ["DeleteImageType": "ImageId"]
        let found = try await bench.call(.deleteImage, byID.merging(["ImageIds": "\(images[0].id),x"]) { $1 })
        #expect(found.texts("NonExistImageIds") == ["x"])
        let url = "https://oss.example/b/\(images[1].key)?x=1"
        try await bench.call(.deleteImage, ["DeleteImageType": "ImageURL", "ImageURLs": url])
        #expect(try await bench.keys() == [video.key])
        for parameters in [["ImageIds": video.id], ["ImageIds": images[0].id], ["ImageIds": unknown]] {
            let refused = try await refusal(.deleteImage, byID.merging(parameters) { $1 }, bench)
            #expect(refused == "InvalidImage.NotFound")
        }
        // There are no snapshots to delete.
        #expect(try await refusal(.deleteImage, ["DeleteImageType": "VideoId", "VideoId": video.id], bench) == nil)
        #expect(try await refusal(.deleteImage, ["DeleteImageType": "x"], bench) == "InvalidParameter")
        #expect(try await bench.keys() == [video.key])
    }

    @Test("DeleteMultipartUpload ends what is unfinished, and leaves media")
    func deleteParts() async throws {
        let bench = try await ApsaraBench.telling()
        let media = try await bench.begin()
        let other = try await bench.begin()
        for _ in 0..<2 { _ = try await bench.beginParts(of: media) }
        _ = try await bench.beginParts(of: other)
        let parameters = ["MediaId": media.id, "MediaType": "video"]
        #expect(try await refusal(.deleteMultipartUpload, parameters, bench) == nil)
        #expect(try await bench.library.openUploads(of: media).isEmpty)
        #expect(try await bench.library.openUploads(of: other).count == 1)
        #expect(try await bench.isThereAndOpen(media.id))
        for (change, expected) in [
            ([:], "InvalidMultipartUpload.NotFound"), (["MediaId": unknown], "InvalidVideo.NotFound"),
            (["MediaId": ""], "MissingParameter"), (["MediaType": ""], "MissingParameter"),
            (["MediaType": "image"], "InvalidParameter"),
        ] {
            let refused = try await refusal(.deleteMultipartUpload, parameters.merging(change) { $1 }, bench)
            #expect(refused == expected)
        }
    }

    // MARK: Callbacks

    @Test("a callback is set, read without its key, and turned off")
    func callbacks() async throws {
        let bench = try ApsaraBench()
        let parameters = [
            "CallbackType": "HTTP", "CallbackURL": "https://app.example/x", "EventTypeList": "ALL, FileUploadComplete",
            "AuthSwitch": "on", "AuthKey": "test123", "AppId": "app-7",
        ]
        try await bench.call(.setMessageCallback, parameters)
        let set = try #require(try await bench.callbacks.callback(of: "app-7"))
        #expect(set.url == "https://app.example/x" && set.types == ["ALL", "FileUploadComplete"] && set.isSigned)
        #expect(bench.callbacks.open(set.key) == "test123")
        func read(_ application: String) async throws -> [String: String?] {
            let found = try await bench.call(.getMessageCallback, ["AppId": application])
            guard case .object(let callback)? = found["MessageCallback"] else { return [:] }
            #expect(!String(decoding: found.json, as: UTF8.self).contains("test123"))
            return Dictionary(uniqueKeysWithValues: callback.members.map { ($0.name, callback.text($0.name)) })
        }
        #expect(
            try await read("app-7") == [
                "AppId": "app-7", "CallbackType": "HTTP", "CallbackURL": "https://app.example/x",
                "EventTypeList": "ALL,FileUploadComplete", "AuthSwitch": "on", "AuthKey": "********",
            ]
        )
        #expect(try await read("app-1000000") == ["AppId": "app-1000000"])
        try await bench.call(.setMessageCallback, ["CallbackType": "HTTP", "AppId": "app-7"])
        #expect(try await bench.callbacks.callback(of: "app-7") == nil)
    }

    @Test(
        "wrong callbacks are refused, and change nothing",
        arguments: [
            (["CallbackType": "MNS"], "InvalidParameter"),
            (["CallbackType": "x"], "InvalidParameter"), (["CallbackURL": ""], "MissingParameter"),
            (["CallbackURL": "x"], "InvalidParameter"), (["CallbackURL": "https://other.org/x"], "InvalidParameter"),
            (["CallbackURL": "https://app.example/\(String(repeating: "x", count: 240))"], "LengthExceededMax"),
            (["EventTypeList": "A L"], "InvalidParameter"), (["EventTypeList": "ü"], "InvalidParameter"),
            (["AuthSwitch": "yes"], "InvalidParameter"), (["AuthSwitch": "on"], "MissingParameter"),
            (["AuthSwitch": "on", "AuthKey": String(repeating: "k", count: 33)], "LengthExceededMax"),
            (["AuthKey": "\u{1}"], "IllegalCharacters"), (["AppId": "a/b"], "InvalidAppId.NotFound"),
        ]
    )
    func wrongCallbacks(_ change: [String: String], _ expected: String) async throws {
        let bench = try ApsaraBench()
        let parameters = ["CallbackType": "HTTP", "CallbackURL": "https://app.example/x", "EventTypeList": "ALL"]
        #expect(try await refusal(.setMessageCallback, parameters.merging(change) { $1 }, bench) == expected)
        #expect(try await bench.count(ApsaraCallback.recordKind) == 0)
    }

    @Test("without callbacks none can be set, nor named by media")
    func noCallbacks() async throws {
        let bench = try ApsaraBench()
        let actions = ApsaraActions(
            uploads: bench.uploads,
            pulls: bench.pulls,
            callbacks: bench.callbacks,
            reader: ApsaraUploadReader(place: bench.place) { _ in .notAllowed },
            links: bench.actions.links
        )
        let userData = #"{"MessageCallback":{"CallbackURL":"https://app.example/x"}}"#
        for (action, parameters) in [
            (
                ApsaraAction.setMessageCallback,
                ["CallbackType": "HTTP", "CallbackURL": "https://app.example/x", "EventTypeList": "ALL"]
            ), (.createUploadVideo, ["Title": "t", "FileName": "t.mp4", "UserData": userData]),
        ] {
            let call = ApsaraActions.Call(
                order: try ApsaraBench.order(action, parameters, by: ApsaraBench.server),
                documents: ApsaraDocuments(place: bench.place, endpoint: "x") { _, _ in "" }
            )
            #expect(try await code { _ = try await actions.perform(call) } == "InvalidParameter")
        }
    }
}
