internal import Bytes
internal import CloudCalls
internal import Digests
internal import Foundation
internal import UploadCore
internal import UploadModel
internal import VODKit

/// Where the upload of a file stands, as an SDK for browsers reported it, for the same browser to continue there.
struct ApsaraCheckpoint: Sendable, Equatable, Codable {
    /// A file as an SDK knows it, in the browser that chose it.
    struct File: Sendable, Equatable, Codable {
        /// As the app names its account: the same for all its users.
        var user: String
        /// A random id that the browser keeps.
        ///
        /// Requests are not signed, so it is what keeps others from the progress, and from naming media of theirs to this
        /// browser.
        var client: String
        var name: String
        var size: Int64
        var createdAt: Int64
        var hash: String
    }

    static let recordKind = "aliyun checkpoint"
    private static let largestPoint = 64 << 10

    var file: File
    var media: String
    var upload: String
    var partSize: Int64?
    var partCount: Int64?
    var ratio: Double?
    /// JSON of the SDK.
    var point: String

    /// - Returns: `nil` if the report lacks what would be needed to continue.
    init?(_ report: ApsaraParameters) {
        guard let media = report["VideoId"] ?? report["MediaId"], let upload = report["UploadId"],
            let point = report["UploadPoint"], point.utf8.count <= Self.largestPoint, let user = report["UserId"],
            let client = report["ClientId"], let name = report["FileName"], let hash = report["FileHash"],
            let size = report["FileSize"].flatMap({ Int64($0) }),
            let createdAt = report["FileCreateTime"].flatMap({ Int64($0) }),
            [upload, user, client, name, hash].allSatisfy({ $0.utf8.count <= 1024 })
        else { return nil }
        file = File(user: user, client: client, name: name, size: size, createdAt: createdAt, hash: hash)
        self.media = media
        self.upload = upload
        self.point = point
        partSize = report["PartSize"].flatMap { Int64($0) }
        partCount = report["DonePartsCount"].flatMap { Int64($0) }
        ratio = report["UploadRatio"].flatMap { Double($0) }.flatMap { (0...1).contains($0) ? $0 : nil }
    }

    var document: AliyunDocument {
        var document = AliyunDocument([
            ("VideoId", .text(media)), ("UploadId", .text(upload)), ("ClientId", .text(file.client)),
            ("FileName", .text(file.name)), ("FileSize", .integer(file.size)),
            ("FileCreateTime", .integer(file.createdAt)), ("FileHash", .text(file.hash)), ("UploadPoint", .text(point)),
        ])
        if let partSize { document.members.append(("PartSize", .integer(partSize))) }
        if let partCount { document.members.append(("DonePartsCount", .integer(partCount))) }
        if let ratio { document.members.append(("UploadRatio", .number(ratio))) }
        return document
    }
}

extension ApsaraCheckpoint.File {
    /// The key of its record.
    var key: String {
        var bytes: [UInt8] = []
        for text in [user, client, name, String(size), String(createdAt), hash] {
            bytes += Array("\(text.utf8.count):\(text)".utf8)
        }
        return Hexadecimal.encode(Digest.hash(bytes, .sha256))
    }

    /// The files that `GetUploadProgress` asks for.
    ///
    /// - Returns: None without a client's id, which keeps them from others.
    static func list(_ parameters: ApsaraParameters) throws(ApsaraError) -> [Self] {
        guard let text = parameters["UploadInfoList"], let user = parameters["UserId"],
            let client = parameters["ClientId"]
        else { return [] }
        let json = Array(text.utf8)
        let wrong = ApsaraError.invalid("UploadInfoList", "must be a JSON list of at most 20 files")
        guard JSONLimits().excess(in: json) == nil, case .array(let asked)? = JSONValue(json: json), asked.count <= 20,
            JSONNames.areUnique(in: json)
        else { throw wrong }
        var files: [Self] = []
        for file in asked {
            guard let members = file.members, case .string(let name)? = members["FileName"],
                case .integer(let size)? = members["FileSize"], case .string(let hash)? = members["FileHash"]
            else { throw wrong }
            var createdAt: Int64 = 0
            switch members["FileCreateTime"] {
            case nil, .null?: break
            case .integer(let time)?: createdAt = time
            default: throw wrong
            }
            files.append(Self(user: user, client: client, name: name, size: size, createdAt: createdAt, hash: hash))
        }
        return files
    }
}

extension ApsaraLibrary {
    /// Keeps the checkpoint of media whose content may arrive: one for each, so that reports cannot fill the state.
    ///
    /// - Parameters:
    ///   - checkpoint: Reported for the media.
    ///   - media: The media, with the key of its last checkpoint.
    /// - Throws: `UploadError`.
    func keep(_ checkpoint: ApsaraCheckpoint, of media: ApsaraMedia) async throws(UploadError) {
        let now = clock.now
        let key = checkpoint.file.key
        let end = Date(timeIntervalSince1970: Double(media.openUntil + place.uploadSeconds))
        if media.progress?.checkpoint != key {
            let changed = try await change(media.id) { media in
                var progress = media.progress ?? ApsaraMedia.Progress()
                progress.checkpoint = key
                media.progress = progress
            }
            guard changed != nil else { return }
            if let last = media.progress?.checkpoint, try await self.checkpoint(last)?.content.media == media.id {
                _ = try await records.removeRecord(ApsaraCheckpoint.recordKind, last)
            }
        }
        let new = CodedRecord(ApsaraCheckpoint.recordKind, key, checkpoint, at: now, until: end)
        if try await records.insert(new.record, at: now) { return }
        guard let found = try await self.checkpoint(key), !found.has(checkpoint) else { return }
        // If another report came meanwhile, that one is as new.
        _ = try await records.replace(found.replaced(by: checkpoint, until: end).record)
    }

    private func checkpoint(_ key: String) async throws(UploadError) -> CodedRecord<ApsaraCheckpoint>? {
        guard let record = try await records.record(ApsaraCheckpoint.recordKind, key) else { return nil }
        return try CodedRecord<ApsaraCheckpoint>(record)
    }

    /// The checkpoint of a file, if its upload is still open.
    func checkpoint(of file: ApsaraCheckpoint.File) async throws(UploadError) -> ApsaraCheckpoint? {
        guard let found = try await checkpoint(file.key)?.content, found.file == file,
            let media = try await media(found.media)?.content, media.content == nil,
            try await openUploads(of: media).contains(where: { $0.id.text == found.upload })
        else { return nil }
        return found
    }
}
