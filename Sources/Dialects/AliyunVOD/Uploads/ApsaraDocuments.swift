internal import Bytes
internal import CloudCalls
internal import Foundation
internal import ObjectGrants
internal import UploadCore
internal import UploadModel
internal import VODKit

/// The contents of responses, with the vendor's names.
struct ApsaraDocuments: Sendable {
    let place: ApsaraPlace
    /// `https://host[:port]` of the object endpoint, as the caller reaches it.
    let endpoint: String
    /// A link to the content of media that is valid for some seconds.
    let link: @Sendable (ApsaraMedia, _ seconds: Int64) -> String

    /// As the documentation writes times.
    static func time(_ date: Date) -> String { date.formatted(.iso8601) }

    static func time(_ seconds: Int64) -> String { time(Date(timeIntervalSince1970: Double(seconds))) }

    static func mediaType(_ kind: ApsaraMedia.Kind) -> String {
        switch kind {
        case .video: "video"
        case .image: "image"
        case .attached: "attached"
        }
    }

    /// The address without signature.
    func url(of media: ApsaraMedia) -> String { "\(endpoint)/\(media.bucket)/\(media.key)" }

    // MARK: Uploads

    /// The id of media under its name, and what an SDK needs to upload it.
    func begun(_ issued: ApsaraUploads.Issued) -> AliyunDocument {
        let media = issued.media
        var document = AliyunDocument()
        switch media.kind {
        case .video: document.add("VideoId", media.id)
        case .image:
            document.add("ImageId", media.id)
            document.add("ImageURL", url(of: media))
            document.add("FileURL", url(of: media))
        case .attached:
            document.add("MediaId", media.id)
            document.add("MediaURL", url(of: media))
            document.add("FileURL", url(of: media))
        }
        document.add("UploadAddress", Base64.encode(address(of: media).json))
        document.add("UploadAuth", Base64.encode(auth(issued).json))
        return document
    }

    private func address(of media: ApsaraMedia) -> AliyunDocument {
        AliyunDocument([
            ("Endpoint", .text(endpoint)), ("Bucket", .text(media.bucket)), ("FileName", .text(media.key)),
        ])
    }

    /// SDKs for browsers refuse it without `Expiration`, whatever that is; those for Android read `ExpireUTCTime`.
    private func auth(_ issued: ApsaraUploads.Issued) -> AliyunDocument {
        let credentials = issued.credentials
        return AliyunDocument([
            ("AccessKeyId", .text(credentials.accessKeyID)),
            ("AccessKeySecret", .text(credentials.secretAccessKey.text)),
            ("SecurityToken", .text(credentials.sessionToken)),
            ("ExpireUTCTime", .text(Self.time(credentials.expiresAt))), ("Expiration", .text(String(issued.seconds))),
            ("Region", .text(place.region)),
        ])
    }

    // MARK: Media

    /// What all descriptions of videos and images have in common.
    private func common(_ record: CodedRecord<ApsaraMedia>) -> AliyunDocument {
        let media = record.content
        var document = AliyunDocument([
            ("Title", .text(media.labels.title)), ("Description", .text(media.labels.description)),
            ("Tags", .text(media.labels.tags.joined(separator: ","))), ("Status", .text(media.status.rawValue)),
            ("CreationTime", .text(Self.time(record.record.createdAt))),
            ("ModificationTime", .text(Self.time(media.modifiedAt))), ("AppId", .text(media.application)),
            ("StorageLocation", .text(media.labels.storageLocation ?? media.bucket)),
        ])
        if let category = media.labels.categoryIDs.first { document.add("CateId", .integer(category)) }
        return document
    }

    func video(_ record: CodedRecord<ApsaraMedia>) -> AliyunDocument {
        let media = record.content
        var document = common(record)
        document.add("VideoId", media.id)
        document.add("Size", .integer(media.content?.size ?? media.announced ?? 0))
        document.add("CoverURL", media.labels.coverURL)
        document.add("RegionId", place.region)
        document.add("AuditStatus", "Normal")
        document.add("DownloadSwitch", "on")
        document.add("StorageClass", "Standard")
        document.add("TemplateGroupId", media.labels.templateGroupID)
        document.add("ReferenceId", media.labels.referenceID)
        document.add("UserData", media.labels.userData)
        return document
    }

    /// An image, with a link that is valid for some seconds.
    func image(_ record: CodedRecord<ApsaraMedia>, linkFor seconds: Int64) -> AliyunDocument {
        let media = record.content
        var document = common(record)
        document.add("ImageId", media.id)
        document.add("ImageType", media.category ?? "default")
        document.add("URL", link(media, seconds))
        document.add(
            "Mezzanine",
            .object(
                AliyunDocument([
                    ("OriginalFileName", .text(media.fileName)), ("FileURL", .text(url(of: media))),
                    ("FileSize", .text(String(media.content?.size ?? 0))),
                ])
            )
        )
        return document
    }

    private func attached(_ record: CodedRecord<ApsaraMedia>) -> AliyunDocument {
        let media = record.content
        var document = common(record)
        document.add("MediaId", media.id)
        document.add("BusinessType", media.category)
        document.add("URL", url(of: media))
        document.add(
            "Categories",
            .list(of: "Category", media.labels.categoryIDs.map { .object(AliyunDocument([("CateId", .integer($0))])) })
        )
        return document
    }

    /// One result of a search.
    func found(_ record: CodedRecord<ApsaraMedia>) -> AliyunDocument {
        let media = record.content
        var document = AliyunDocument([
            ("MediaId", .text(media.id)), ("CreationTime", .text(Self.time(record.record.createdAt))),
        ])
        switch media.kind {
        case .video where media.isAudio:
            var audio = video(record)
            audio.add("AudioId", media.id)
            document.add("MediaType", "audio")
            document.add("Audio", .object(audio))
        case .video:
            document.add("MediaType", "video")
            document.add("Video", .object(video(record)))
        case .image:
            document.add("MediaType", "image")
            document.add("Image", .object(image(record, linkFor: 3600)))
        case .attached:
            document.add("MediaType", "attached")
            document.add("AttachedMedia", .object(attached(record)))
        }
        return document
    }

    func mezzanine(_ record: CodedRecord<ApsaraMedia>, linkFor seconds: Int64) -> AliyunDocument {
        let media = record.content
        var document = AliyunDocument([
            ("VideoId", .text(media.id)), ("FileName", .text(media.fileName)),
            ("FileURL", .text(link(media, seconds))), ("Size", .integer(media.content?.size ?? 0)),
            ("Status", .text(media.status.rawValue)), ("OutputType", .text("oss")), ("StorageClass", .text("Standard")),
            ("CreationTime", .text(Self.time(record.record.createdAt))),
            ("PreprocessStatus", .text("UnPreprocess")),
        ])
        document.add("FileMD5", media.content?.md5)
        return document
    }

    /// The original as the only stream.
    func play(_ record: CodedRecord<ApsaraMedia>, linkFor seconds: Int64) -> AliyunDocument {
        let media = record.content
        let type = media.isAudio ? "audio" : "video"
        let created = Self.time(record.record.createdAt)
        let base = AliyunDocument([
            ("VideoId", .text(media.id)), ("Title", .text(media.labels.title)),
            ("Status", .text(media.status.rawValue)),
            ("CoverURL", .text(media.labels.coverURL)), ("MediaType", .text(type)), ("CreationTime", .text(created)),
            ("OutputType", .text("oss")), ("StorageClass", .text("Standard")),
        ])
        let stream = AliyunDocument([
            ("PlayURL", .text(link(media, seconds))), ("Format", .text(media.suffix)), ("Definition", .text("OD")),
            ("Size", .integer(media.content?.size ?? 0)), ("Encrypt", .integer(0)), ("StreamType", .text(type)),
            ("Status", .text("Normal")), ("Specification", .text("Original")), ("JobId", .text(media.id)),
            ("CreationTime", .text(created)), ("ModificationTime", .text(Self.time(media.modifiedAt))),
        ])
        return AliyunDocument([
            ("VideoBase", .object(base)), ("PlayInfoList", .named("PlayInfo", [.object(stream)])),
        ])
    }

    /// How far an upload is; `arrived` are bytes of parts, for media without content.
    func details(_ record: CodedRecord<ApsaraMedia>, arrived: Int64) -> AliyunDocument {
        let media = record.content
        let size = media.content?.size ?? media.announced ?? 0
        let uploaded = media.content?.size ?? max(arrived, media.progress?.uploadedBytes ?? 0)
        let estimate = size > 0 ? min(1, Double(uploaded) / Double(size)) : media.progress?.ratio ?? 0
        let ratio = media.content == nil ? estimate : 1
        var document = AliyunDocument([
            ("MediaId", .text(media.id)), ("Title", .text(media.labels.title)), ("FileSize", .integer(size)),
            ("UploadSize", .integer(uploaded)), ("UploadRatio", .number(ratio)),
            ("UploadStatus", .text(media.content == nil ? "Uploading" : "UploadSucc")),
            ("Status", .text(media.status.rawValue)),
            ("CreationTime", .text(Self.time(record.record.createdAt))),
            ("ModificationTime", .text(Self.time(media.modifiedAt))),
        ])
        if let content = media.content { document.add("CompletionTime", Self.time(content.storedAt / 1000)) }
        document.add("UploadSource", media.progress?.source)
        document.add("UploadIP", media.progress?.address)
        document.add("DeviceModel", media.progress?.deviceModel)
        return document
    }
}

extension ApsaraMedia {
    /// By the extension.
    var isAudio: Bool { MediaTypes.type(ofExtension: suffix)?.hasPrefix("audio/") ?? false }
}
