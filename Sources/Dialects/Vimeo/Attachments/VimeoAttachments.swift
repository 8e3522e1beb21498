internal import Bytes
internal import Digests
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
    let storage: any BlobStorage

    /// The most of a kind that a video can have.
    static let most = 100

    /// Those of a kind that a video has, oldest first, without those whose records cannot be read.
    func all(_ kind: VimeoAttachment.Kind, of video: VimeoVideo) async throws(UploadError) -> [VimeoAttachment] {
        var all: [VimeoAttachment] = []
        _ = try await records.each(kind.recordKind, prefix: VimeoAttachment.prefix(of: video.id, video.user)) {
            record throws(UploadError) in
            guard let attachment = try? CodedRecord<VimeoAttachment>(record).content,
                attachment.subject.isSameSubject(as: video.subject), attachment.isRemoved != true
            else { return }
            all.append(try await settled(attachment).attachment)
        }
        return all
    }

    /// - Returns: `nil` also if it belongs to another user.
    func one(_ kind: VimeoAttachment.Kind, _ id: Int64, of video: VimeoVideo) async throws(UploadError)
        -> CodedRecord<VimeoAttachment>?
    {
        let key = VimeoAttachment.prefix(of: video.id, video.user) + String(id)
        guard let found = try await one(kind, at: key), found.content.subject.isSameSubject(as: video.subject) else {
            return nil
        }
        return found
    }

    func one(_ kind: VimeoAttachment.Kind, at key: String) async throws(UploadError) -> CodedRecord<VimeoAttachment>? {
        guard let record = try await records.record(kind.recordKind, key) else { return nil }
        let found = try CodedRecord<VimeoAttachment>(record)
        return found.content.isRemoved == true ? nil : found
    }

    /// The change that records a new one, without bytes; refused if its id is taken.
    func insertion(of attachment: VimeoAttachment) -> DialectChange {
        let now = clock.now
        let record = CodedRecord(attachment.kind.recordKind, attachment.recordKey, attachment, at: now, until: nil)
        return .insert(record.record, at: now)
    }

    /// The number of bytes that are there.
    func count(of attachment: VimeoAttachment) async throws(UploadError) -> Int64 {
        guard let id = try await settled(attachment).attachment.uploadID else { return 0 }
        return try await uploads.recorded(id)?.length ?? 0
    }

    /// Changes what is said about one, whatever happens at the same time.
    ///
    /// - Returns: The changed one.
    /// - Throws: `VimeoError` 404 if it was removed meanwhile.
    func change(_ found: CodedRecord<VimeoAttachment>, _ change: (inout VimeoAttachment) -> Void)
        async throws(VimeoError)
        -> VimeoAttachment
    {
        while let current = try await core(await one(found.content.kind, at: found.record.key)) {
            var changed = current.content
            change(&changed)
            if current.has(changed) { return changed }
            if try await core(await records.replace(current.replaced(by: changed, until: nil).record)) {
                return changed
            }
        }
        throw VimeoError.refused(.notFound)
    }

    /// Stores the bytes, once: the right to send them ends with the first that are complete.
    ///
    /// The same bytes again are a repeated request whose response was lost, and change nothing.
    ///
    /// - Parameters:
    ///   - source: The bytes.
    ///   - total: How many they are, if their client says so.
    ///   - type: Their media type.
    ///   - found: The attachment.
    ///   - video: To which it belongs.
    /// - Throws: `VimeoError` 400 for nothing, 404 if it was removed meanwhile, 409 if it has other bytes; the errors
    ///   of `UploadService.append`.
    func put(
        _ source: any ByteSource,
        counting total: Int64? = nil,
        type: String,
        to found: CodedRecord<VimeoAttachment>,
        of video: VimeoVideo
    ) async throws(VimeoError) {
        let window = WindowSource(source, limit: total)
        let source = HashedSource(window)
        // Recorded before a repeated request is told that its bytes are kept.
        let attachment = try await settle(found)
        if attachment.uploadID != nil { return try await check(source, repeats: attachment) }
        let content = VimeoContent(source, from: 0, of: nil, isWhole: true)
        guard try await core(await content.begins(of: nil)) else {
            throw VimeoError(400, nil, "The content is empty.", "Send the bytes of the file.")
        }
        var values = ["vimeo_uri": attachment.uri(of: video), "filetype": type]
        values["filename"] = attachment.name.flatMap { MetadataText.isName($0) ? $0 : nil }
        var grant = Grant(
            id: attachment.principal,
            issuer: attachment.issuer,
            subject: attachment.subject,
            dialect: "vimeo",
            expiresAt: .distantFuture,
            storedBytes: video.total
        )
        attachment.limits?.apply(to: &grant)
        let new = NewUpload(
            dialect: "vimeo",
            length: nil,
            metadata: UploadMetadata(describing: values),
            completesWhenFull: false
        )
        let upload = try await core(await uploads.create(new, under: grant))
        do throws(VimeoError) {
            // Before the bytes, so that whoever removes it ends this upload, too.
            let current = try await settle(found, with: upload.id.text)
            if current.uploadID != nil {
                await uploads.discard(upload.id, .open)
                return try await check(source, repeats: current)
            }
            let stored = try await core(
                await uploads.append(
                    to: upload.id,
                    at: 0,
                    contentLength: content.source.remaining,
                    declaring: total,
                    finish: .explicit(isLast: true),
                    expecting: nil,
                    upTo: video.total,
                    from: content.source
                )
            )
            _ = try await core(await uploads.finished(stored))
        } catch {
            // It may be complete although the response was lost.
            guard case .core(let cause) = error else {
                await uploads.discard(upload.id, .open)
                throw error
            }
            await uploads.discard(upload.id, .open, after: cause)
            throw await quota.refusal(cause, of: video).map(VimeoError.refused) ?? error
        }
        let kept = try await settle(found)
        if kept.uploadID == upload.id.text { return }
        // Another request was faster.
        try await check(source, repeats: kept)
    }

    /// Checks the rest of a content, too.
    ///
    /// - Throws: `VimeoError` 409 unless an attachment has the same bytes.
    private func check(_ source: HashedSource, repeats attachment: VimeoAttachment) async throws(VimeoError) {
        if let id = attachment.uploadID.flatMap({ UploadID($0) }),
            let length = try await core(await uploads.recorded(id.text)?.length)
        {
            do throws(SourceFailure) {
                while source.count + (source.remaining ?? 0) <= length, try await source.next(maximum: 1 << 16) != nil {
                }
            } catch {
                throw .core(UploadError(error))
            }
            if source.count == length, source.remaining ?? 0 == 0,
                try await core(await storage.digests(of: id, by: [.sha256])[.sha256]) == source.digest
            {
                return
            }
        }
        throw VimeoError(
            409,
            nil,
            "The link was used.",
            "Its bytes have come; for other bytes create another picture or text track."
        )
    }

    /// The most uploads of an attachment at the same time.
    private static let mostComing = 8

    /// Records which upload has the bytes, ends those that came later, and forgets those that have ended.
    ///
    /// - Parameters:
    ///   - found: Read at some time.
    ///   - new: An upload whose bytes are about to come; not recorded if there are bytes.
    /// - Returns: What is recorded.
    /// - Throws: `VimeoError` 404 if it was removed meanwhile, 409 if too many come at once.
    @discardableResult
    private func settle(_ found: CodedRecord<VimeoAttachment>, with new: String? = nil) async throws(VimeoError)
        -> VimeoAttachment
    {
        while let current = try await core(await one(found.content.kind, at: found.record.key)) {
            var (changed, obsolete) = try await core(await settled(current.content))
            let isChoice = changed.uploadID != current.content.uploadID
            if isChoice {
                // Alone, before the others end: whoever has read the record before this may choose another one.
                let others = (current.content.coming ?? []).filter { $0 != changed.uploadID }
                changed.coming = others.isEmpty ? nil : others
                obsolete = []
            }
            if let new, changed.uploadID == nil {
                guard changed.coming?.count ?? 0 < Self.mostComing else {
                    throw VimeoError(
                        409,
                        nil,
                        "Too many requests send its bytes.",
                        "Wait for the end of the others; \(Self.mostComing) are allowed at the same time."
                    )
                }
                changed.coming = (changed.coming ?? []) + [new]
            }
            if current.has(changed) { return changed }
            // Before they are forgotten.
            for id in obsolete { try await core(await uploads.end(id)) }
            if try await core(await records.replace(current.replaced(by: changed, until: nil).record)), !isChoice {
                return changed
            }
        }
        throw VimeoError.refused(.notFound)
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
