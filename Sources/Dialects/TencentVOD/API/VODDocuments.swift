internal import CloudCalls
internal import Foundation
internal import HTTPWire
internal import ObjectGrants
internal import RESTKit
internal import UploadCore
internal import UploadModel
internal import VODKit

/// The responses of API 3.0, and the events, with the vendor's names.
struct VODDocuments: Sendable {
    private let place: VODPlace
    private let objectURL: ObjectURL

    init(place: VODPlace, objectURL: ObjectURL) {
        self.place = place
        self.objectURL = objectURL
    }

    // MARK: Uploads

    private struct Application: Encodable {
        let StorageBucket: String
        let StorageRegion: String
        let VodSessionKey: String
        let MediaStoragePath: String
        /// Empty without cover.
        let CoverStoragePath: String
        let TempCertificate: Certificate
        let RequestId: String
    }

    private struct Certificate: Encodable {
        let SecretId: String
        let SecretKey: String
        let Token: String
        let ExpiredTime: Int64
    }

    static func application(_ applied: VODUploads.Applied, _ requestID: String) -> Response {
        let (session, credentials) = (applied.session, applied.credentials)
        return TencentCalls.response(
            Application(
                // With the app id, unlike in the answers to upload SDKs.
                StorageBucket: session.bucket,
                StorageRegion: session.region,
                VodSessionKey: applied.sessionKey,
                MediaStoragePath: session.video.map { "/" + $0.key } ?? "",
                CoverStoragePath: session.cover.map { "/" + $0.key } ?? "",
                TempCertificate: Certificate(
                    SecretId: credentials.accessKeyID,
                    SecretKey: credentials.secretAccessKey.text,
                    Token: credentials.sessionToken,
                    ExpiredTime: credentials.expiresAt.unixSeconds
                ),
                RequestId: requestID
            )
        )
    }

    private struct Commitment: Encodable {
        let FileId: String
        let MediaUrl: String
        let CoverUrl: String
        let RequestId: String
    }

    func commitment(_ media: VODMedia, for request: Request, _ requestID: String) -> Response {
        let base = base(of: media, for: request)
        return TencentCalls.response(
            Commitment(
                FileId: media.fileID,
                MediaUrl: "\(base)/\(media.video.key)",
                CoverUrl: media.cover.map { "\(base)/\($0.key)" } ?? "",
                RequestId: requestID
            )
        )
    }

    private struct Manifest: Encodable {
        let MediaSegmentSet: [String]
        let RequestId: String
    }

    static func manifest(_ manifest: StreamingManifest, _ requestID: String) -> Response {
        TencentCalls.response(Manifest(MediaSegmentSet: manifest.files, RequestId: requestID))
    }

    private struct Nothing: Encodable {
        let RequestId: String
    }

    static func nothing(_ requestID: String) -> Response { TencentCalls.response(Nothing(RequestId: requestID)) }

    // MARK: Media

    private struct Information: Encodable {
        let FileId: String
        let BasicInfo: Basic?
        let MetaData: Data?
    }

    private struct Basic: Encodable {
        let Name: String
        let Description: String
        let CreateTime: String
        let UpdateTime: String
        /// In the year 9999: never.
        let ExpireTime = "9999-12-31T23:59:59Z"
        let ClassId: Int64
        let ClassName: String
        let ClassPath: String
        let CoverUrl: String
        let `Type`: String
        let MediaUrl: String
        let SourceInfo: Source
        let StorageRegion: String
        let StoragePath: String
        let TagSet: [String]
        let Vid = ""
        let Category: String
        let Status = "Normal"
        let StorageClass = "STANDARD"
    }

    private struct Source: Encodable {
        let SourceType: String
        let SourceContext: String
    }

    private struct Data: Encodable {
        let Size: Int64?
        let Container: String
        let Md5: String?
    }

    private struct Descriptions: Encodable {
        let MediaInfoSet: [Information]
        let NotExistFileIdSet: [String]
        let RequestId: String
    }

    private struct Findings: Encodable {
        let TotalCount: Int
        let MediaInfoSet: [Information]
        let RequestId: String
    }

    /// The response to `DescribeMediaInfos`; `filters` are the kinds of information that are wanted, none means all.
    func media(
        _ found: [CodedRecord<VODMedia>],
        missing: [String],
        _ filters: Set<String>,
        for request: Request,
        _ requestID: String
    ) -> Response {
        TencentCalls.response(
            Descriptions(
                MediaInfoSet: found.map { information($0, filters, for: request) },
                NotExistFileIdSet: missing,
                RequestId: requestID
            )
        )
    }

    /// The response to `SearchMedia`.
    func found(
        _ found: VODLibrary.Found,
        _ filters: Set<String>,
        for request: Request,
        _ requestID: String
    ) -> Response {
        TencentCalls.response(
            Findings(
                TotalCount: found.count,
                MediaInfoSet: found.media.map { information($0, filters, for: request) },
                RequestId: requestID
            )
        )
    }

    private func information(
        _ record: CodedRecord<VODMedia>,
        _ filters: Set<String>,
        for request: Request?
    ) -> Information {
        Information(
            FileId: record.content.fileID,
            BasicInfo: filters.isEmpty || filters.contains("basicInfo") ? basic(record, for: request) : nil,
            MetaData: filters.isEmpty || filters.contains("metaData") ? Self.data(record.content) : nil
        )
    }

    private func basic(_ record: CodedRecord<VODMedia>, for request: Request?) -> Basic {
        let media = record.content
        let base = base(of: media, for: request)
        let updated = media.updatedAt.map { Date(timeIntervalSince1970: Double($0)) } ?? record.record.createdAt
        return Basic(
            Name: media.name,
            Description: media.description,
            CreateTime: record.record.createdAt.formatted(.iso8601),
            UpdateTime: updated.formatted(.iso8601),
            ClassId: media.labels.classID ?? 0,
            ClassName: Self.className(media.labels.classID),
            ClassPath: Self.className(media.labels.classID),
            CoverUrl: media.cover.map { "\(base)/\($0.key)" } ?? "",
            Type: media.video.type,
            MediaUrl: "\(base)/\(media.video.key)",
            SourceInfo: Source(
                SourceType: media.source.rawValue,
                SourceContext: media.labels.sourceContext ?? ""
            ),
            StorageRegion: media.region,
            StoragePath: "/" + media.video.key,
            TagSet: media.tags,
            Category: media.category
        )
    }

    /// Classes have no names here but the one that always exists.
    private static func className(_ id: Int64?) -> String { id ?? 0 == 0 ? "Other" : "" }

    private static func data(_ media: VODMedia) -> Data {
        Data(Size: media.video.size, Container: media.video.type, Md5: media.md5)
    }

    /// The URL of the bucket, without a slash at its end; an event has no request.
    private func base(of media: VODMedia, for request: Request?) -> String {
        if let url = place.mediaURL { return url }
        if let request, let origin = try? objectURL.origin(for: request) { return "\(origin)/\(media.bucket)" }
        if let url = objectURL.configured { return "\(ObjectURL.origin(of: url, port: nil))/\(media.bucket)" }
        // The name by which upload SDKs reach the bucket.
        return "http://\(media.bucket).cos.\(media.region).myqcloud.com"
    }

    // MARK: Applications

    private struct Applications: Encodable {
        struct One: Encodable {
            let SubAppId: Int64
            let SubAppIdName: String
            let Name: String
            let Description = ""
            let Status = "On"
        }

        let SubAppIdInfoSet: [One]
        let TotalCount: Int
        let RequestId: String
    }

    static func applications(_ ids: [Int64], of count: Int, _ requestID: String) -> Response {
        TencentCalls.response(
            Applications(
                SubAppIdInfoSet: ids.map { .init(SubAppId: $0, SubAppIdName: String($0), Name: String($0)) },
                TotalCount: count,
                RequestId: requestID
            )
        )
    }

    // MARK: Events

    private struct Event: Encodable {
        /// `nil` for one that is posted.
        let EventHandle: String?
        let EventType: String
        let FileUploadEvent: Upload?
        let PullCompleteEvent: Task?
    }

    private struct Task: Encodable {
        let TaskId: String
        /// `PROCESSING` or `FINISH`.
        let Status: String
        /// 0, or why there is no media.
        let ErrCode: Int
        let Message: String
        let FileId: String
        let MediaBasicInfo: Basic?
        let MetaData: Data?
        let FileUrl: String
        let ProcedureTaskId = ""
        let ReviewAudioVideoTaskId = ""
        let SessionContext: String
        let SessionId: String
        /// Per cent.
        let Progress: Int
    }

    private struct TaskDetail: Encodable {
        let TaskType = "PullUpload"
        let Status: String
        let CreateTime: String
        let BeginProcessTime: String
        let FinishTime: String?
        let PullUploadTask: Task
        let RequestId: String
    }

    private struct TaskName: Encodable {
        let TaskId: String
        let RequestId: String
    }

    static func task(_ task: VODPull, _ requestID: String) -> Response {
        TencentCalls.response(TaskName(TaskId: task.taskID, RequestId: requestID))
    }

    /// The response to `DescribeTaskDetail`.
    func task(
        _ task: CodedRecord<VODPull>,
        _ media: CodedRecord<VODMedia>?,
        for request: Request,
        _ requestID: String
    ) -> Response {
        let detail = self.task(task.content, media, for: request)
        let began = task.record.createdAt.formatted(.iso8601)
        return TencentCalls.response(
            TaskDetail(
                Status: detail.Status,
                CreateTime: began,
                BeginProcessTime: began,
                FinishTime: task.content.finishedAt
                    .map { Date(timeIntervalSince1970: Double($0)).formatted(.iso8601) },
                PullUploadTask: detail,
                RequestId: requestID
            )
        )
    }

    private func task(_ task: VODPull, _ media: CodedRecord<VODMedia>?, for request: Request?) -> Task {
        Task(
            TaskId: task.taskID,
            Status: task.finishedAt == nil ? "PROCESSING" : "FINISH",
            ErrCode: task.failure?.code ?? 0,
            Message: task.failure?.message ?? "",
            FileId: media == nil ? "" : task.fileID,
            MediaBasicInfo: media.map { basic($0, for: request) },
            MetaData: media.map { Self.data($0.content) },
            FileUrl: task.url,
            SessionContext: task.labels.sessionContext ?? "",
            SessionId: task.sessionID ?? "",
            Progress: task.finishedAt == nil ? 0 : 100
        )
    }

    private struct Upload: Encodable {
        let FileId: String
        let MediaBasicInfo: Basic
        let ProcedureTaskId = ""
        let ReviewAudioVideoTaskId = ""
        let MetaData: Data
    }

    private struct Events: Encodable {
        let EventSet: [Event]
        let RequestId: String
    }

    /// The response to `PullEvents`.
    func events(_ claimed: [VODEvents.Claimed], for request: Request, _ requestID: String) -> Response {
        let events = claimed.map { event($0, handle: VODEvents.handle(of: $0), for: request) }
        return TencentCalls.response(Events(EventSet: events, RequestId: requestID))
    }

    /// The content of a post to the app's server.
    func post(_ claimed: VODEvents.Claimed) -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        // Texts, numbers and lists of them always encode.
        return Array((try? encoder.encode(event(claimed, handle: nil, for: nil))) ?? .init())
    }

    private func event(_ claimed: VODEvents.Claimed, handle: String?, for request: Request?) -> Event {
        let event = claimed.event
        let (media, task) = (claimed.details.media, claimed.details.task)
        return Event(
            EventHandle: handle,
            EventType: event.kind.rawValue,
            FileUploadEvent: task == nil
                ? media.map { media in
                    Upload(
                        FileId: event.fileID,
                        MediaBasicInfo: basic(media, for: request),
                        MetaData: Self.data(media.content)
                    )
                } : nil,
            PullCompleteEvent: task.map { self.task($0, media, for: request) }
        )
    }
}
