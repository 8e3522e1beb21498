internal import Bytes
internal import Foundation
internal import HTTPWire
internal import UploadCore
internal import VODKit

/// The pictures and text tracks of videos: records, each with an upload once its bytes are there.
struct VimeoAttachments: Sendable {
    let records: any DialectRecords
    let uploads: UploadService
    let clock: any WallClock
    let quota: QuotaService

    /// The most of a kind that a video can have.
    static let most = 100

    /// Those of a kind that a video has, oldest first.
    func all(_ kind: VimeoAttachment.Kind, of video: VimeoVideo) async throws(UploadError) -> [VimeoAttachment] {
        var all: [VimeoAttachment] = []
        _ = try await records.each(kind.recordKind, prefix: VimeoAttachment.prefix(of: video.id, video.user)) {
            record throws(UploadError) in
            let attachment = try CodedRecord<VimeoAttachment>(record).content
            guard attachment.subject == video.subject, attachment.isRemoved != true else { return }
            all.append(try await settled(attachment).attachment)
        }
        return all
    }

    /// - Returns: `nil` also if it belongs to another user.
    func one(_ kind: VimeoAttachment.Kind, _ id: Int64, of video: VimeoVideo) async throws(UploadError)
        -> CodedRecord<VimeoAttachment>?
    {
        let key = VimeoAttachment.prefix(of: video.id, video.user) + String(id)
        guard let found = try await one(kind, at: key), found.content.subject == video.subject else { return nil }
        return found
    }

    func one(_ kind: VimeoAttachment.Kind, at key: String) async throws(UploadError) -> CodedRecord<VimeoAttachment>? {
        guard let record = try await records.record(kind.recordKind, key) else { return nil }
        let found = try CodedRecord<VimeoAttachment>(record)
        return found.content.isRemoved == true ? nil : found
    }

    /// Records a new one, without bytes.
    ///
    /// - Returns: Whether its id was free.
    /// - Throws: `VimeoFailure` if the video has too many; `UploadError`.
    func insert(_ attachment: VimeoAttachment, of video: VimeoVideo) async throws -> Bool {
        guard try await all(attachment.kind, of: video).count < Self.most else {
            throw VimeoFailure(
                403,
                nil,
                "The video has too many of them.",
                "Delete some first; \(Self.most) are allowed."
            )
        }
        let now = clock.now
        let record = CodedRecord(attachment.kind.recordKind, attachment.recordKey, attachment, at: now, until: nil)
        return try await records.insert(record.record, at: now)
    }

    /// Stores bytes, in the place of those before.
    ///
    /// - Throws: `VimeoFailure` 404 if it was removed meanwhile; the errors of `UploadService.append`.
    func put(_ source: any ByteSource, type: String, to found: CodedRecord<VimeoAttachment>, of video: VimeoVideo)
        async throws
    {
        let attachment = found.content
        var values = ["vimeo_uri": attachment.uri(of: video), "filetype": type]
        values["filename"] = attachment.name
        let grant = Grant(
            id: attachment.principal,
            issuer: attachment.issuer,
            subject: attachment.subject,
            dialect: "vimeo",
            expiresAt: .distantFuture,
            storedBytes: video.total
        )
        let new = NewUpload(
            dialect: "vimeo",
            length: nil,
            metadata: UploadMetadata(describing: values),
            completesWhenFull: false
        )
        let upload = try await uploads.create(new, under: grant)
        do {
            // Before the bytes, so that whoever removes it ends this upload, too.
            try await settle(found, with: upload.id.text)
            let stored = try await uploads.append(
                to: upload.id,
                at: 0,
                contentLength: source.remaining,
                finish: .explicit(isLast: true),
                expecting: nil,
                upTo: video.total,
                from: source
            )
            _ = try await uploads.finished(stored)
        } catch {
            // It may be complete although the response was lost.
            await uploads.discard(upload.id, .open)
            throw await quota.refusal(error, of: video) ?? error
        }
        try await settle(found)
    }

    /// The most uploads of an attachment at the same time.
    private static let mostComing = 8

    /// Records which upload has the bytes, ends those before, and forgets those that have ended.
    ///
    /// - Parameters:
    ///   - found: Read at some time.
    ///   - new: An upload whose bytes are about to come.
    /// - Throws: `VimeoFailure` 404 if it was removed meanwhile, 409 if too many come at once; `UploadError`.
    private func settle(_ found: CodedRecord<VimeoAttachment>, with new: String? = nil) async throws {
        while let current = try await one(found.content.kind, at: found.record.key) {
            var (changed, obsolete) = try await settled(current.content)
            if let new {
                guard changed.coming?.count ?? 0 < Self.mostComing else {
                    throw VimeoFailure(
                        409,
                        nil,
                        "Too many requests send its bytes.",
                        "Wait for the end of the others; \(Self.mostComing) are allowed at the same time."
                    )
                }
                changed.coming = (changed.coming ?? []) + [new]
            }
            if changed == current.content { return }
            // Before they are forgotten.
            for id in obsolete { try await uploads.end(id) }
            if try await records.replace(current.replaced(by: changed, until: nil).record) { return }
        }
        throw VimeoFailure.notFound
    }

    /// An attachment with the last of its complete uploads, and the uploads whose place it took.
    func settled(_ recorded: VimeoAttachment) async throws(UploadError)
        -> (attachment: VimeoAttachment, obsolete: [String])
    {
        var attachment = recorded
        var obsolete: [String] = []
        attachment.coming = nil
        for text in recorded.coming ?? [] {
            guard let upload = try await uploads.recorded(text) else { continue }
            if upload.state == .completed {
                if let before = attachment.uploadID { obsolete.append(before) }
                attachment.uploadID = text
            } else if upload.isAlive {
                attachment.coming = (attachment.coming ?? []) + [text]
            }
        }
        return (attachment, obsolete)
    }

    /// Removes one with its bytes.
    ///
    /// - Returns: Whether it was there.
    func remove(_ found: CodedRecord<VimeoAttachment>) async throws(UploadError) -> Bool {
        var current = found
        while true {
            var changed = current.content
            changed.isRemoved = true
            if try await records.replace(current.replaced(by: changed, until: nil).record) { break }
            guard let record = try await records.record(found.content.kind.recordKind, found.record.key) else {
                return false
            }
            current = try CodedRecord<VimeoAttachment>(record)
        }
        let all = (current.content.uploadID.map { [$0] } ?? []) + (current.content.coming ?? [])
        for id in all { try await uploads.end(id) }
        return try await records.removeRecord(found.content.kind.recordKind, found.record.key)
    }

    /// Removes all of a video, also those whose removal was interrupted.
    func removeAll(of video: VimeoVideo) async throws(UploadError) {
        for kind in VimeoAttachment.Kind.allCases {
            _ = try await records.each(kind.recordKind, prefix: VimeoAttachment.prefix(of: video.id, video.user)) {
                record throws(UploadError) in
                _ = try await remove(try CodedRecord<VimeoAttachment>(record))
            }
        }
    }
}
