internal import Bytes
internal import Foundation
internal import HTTPWire
internal import UploadCore
internal import UploadModel
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
    /// `VimeoLibrary.add` counts it before.
    ///
    /// - Returns: Whether its id was free.
    func insert(_ attachment: VimeoAttachment) async throws(UploadError) -> Bool {
        let now = clock.now
        let record = CodedRecord(attachment.kind.recordKind, attachment.recordKey, attachment, at: now, until: nil)
        return try await records.insert(record.record, at: now)
    }

    /// Stores the bytes, once: the right to send them ends with the first that are complete.
    ///
    /// As many bytes again are a repeated request whose response was lost, and change nothing.
    ///
    /// - Throws: `VimeoFailure` 404 if it was removed meanwhile, 409 if it has other bytes; the errors of
    ///   `UploadService.append`.
    func put(_ source: any ByteSource, type: String, to found: CodedRecord<VimeoAttachment>, of video: VimeoVideo)
        async throws
    {
        let attachment = try await settled(found.content).attachment
        if attachment.uploadID != nil { return try await check(try await Self.count(source), repeats: attachment) }
        var values = ["vimeo_uri": attachment.uri(of: video), "filetype": type]
        values["filename"] = attachment.name.flatMap { MetadataText.isName($0) ? $0 : nil }
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
            let current = try await settle(found, with: upload.id.text)
            if current.uploadID != nil {
                await uploads.discard(upload.id, .open)
                return try await check(try await Self.count(source), repeats: current)
            }
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
        let kept = try await settle(found)
        if kept.uploadID == upload.id.text { return }
        // Another request was faster.
        try await check(try await uploads.recorded(upload.id).length ?? 0, repeats: kept)
    }

    /// - Throws: `VimeoFailure` 409 unless an attachment has as many bytes.
    private func check(_ count: Int64, repeats attachment: VimeoAttachment) async throws {
        if let id = attachment.uploadID, try await uploads.recorded(id)?.length == count { return }
        throw VimeoFailure(
            409,
            nil,
            "The link was used.",
            "Its bytes have come; for other bytes create another picture or text track."
        )
    }

    /// The number of bytes of a content, which are dropped.
    private static func count(_ source: any ByteSource) async throws(UploadError) -> Int64 {
        if let remaining = source.remaining { return remaining }
        var count: Int64 = 0
        do throws(SourceFailure) {
            while let piece = try await source.next(maximum: 1 << 16), count < mostDropped {
                count += Int64(piece.count)
            }
        } catch {
            throw UploadError(error)
        }
        return count
    }

    /// Bytes; a picture or a text track that is larger is no repeated one.
    private static let mostDropped: Int64 = 64 << 20

    /// The most uploads of an attachment at the same time.
    private static let mostComing = 8

    /// Records which upload has the bytes, ends those that came later, and forgets those that have ended.
    ///
    /// - Parameters:
    ///   - found: Read at some time.
    ///   - new: An upload whose bytes are about to come; not recorded if there are bytes.
    /// - Returns: What is recorded.
    /// - Throws: `VimeoFailure` 404 if it was removed meanwhile, 409 if too many come at once; `UploadError`.
    @discardableResult
    private func settle(_ found: CodedRecord<VimeoAttachment>, with new: String? = nil) async throws -> VimeoAttachment
    {
        while let current = try await one(found.content.kind, at: found.record.key) {
            var (changed, obsolete) = try await settled(current.content)
            if let new, changed.uploadID == nil {
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
            if changed == current.content { return changed }
            // Before they are forgotten.
            for id in obsolete { try await uploads.end(id) }
            if try await records.replace(current.replaced(by: changed, until: nil).record) { return changed }
        }
        throw VimeoFailure.notFound
    }

    /// An attachment with the first of its complete uploads, and those that were too late.
    func settled(_ recorded: VimeoAttachment) async throws(UploadError)
        -> (attachment: VimeoAttachment, obsolete: [String])
    {
        var attachment = recorded
        var obsolete: [String] = []
        attachment.coming = nil
        for text in recorded.coming ?? [] {
            guard let upload = try await uploads.recorded(text) else { continue }
            if upload.state == .completed {
                if attachment.uploadID == nil { attachment.uploadID = text } else { obsolete.append(text) }
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
