internal import Bytes
internal import Foundation
internal import HTTPWire
internal import UploadCore
internal import UploadModel
internal import VODKit

/// Bytes that clients send to the links of videos and tickets.
extension VimeoUploads {
    /// What a PUT to a link did.
    enum Outcome: Equatable {
        /// All that the client sent is stored.
        case stored
        /// The answer to a probe, or to content that does not begin where the stored bytes end.
        case count(Int64)
    }

    /// Number of bytes that are there; does not disturb a client that sends more.
    func count(of entry: VimeoEntry) async throws(UploadError) -> Int64 {
        guard let upload = entry.upload else { return 0 }
        return try await looked(at: upload, of: entry.video).offset
    }

    /// An upload with its current offset.
    ///
    /// If it has all its bytes, and no client is about to send more, it is completed: the gateway may have died before.
    private func looked(at upload: Upload, of video: VimeoVideo) async throws(UploadError) -> Upload {
        if video.isTicket { return try await uploads.inspect(upload.id) }
        return try await uploads.inspectCompleting(upload.id)
    }

    /// A video as its polling client is to see it.
    func polled(_ entry: VimeoEntry) async throws(UploadError) -> VimeoEntry {
        guard let upload = entry.upload, upload.state == .open, upload.length != nil, !entry.video.isTicket else {
            return entry
        }
        do throws(UploadError) {
            guard try await looked(at: upload, of: entry.video).state == .completed else { return entry }
            return try await library.entry(at: entry.record.record.key) ?? entry
        } catch  where error.code == .notFound || error.code == .gone {
            return entry
        }
    }

    /// Stores content that was sent to the link of a ticket, or of approach `streaming` or `post`.
    ///
    /// Content from 0 begins anew once its first byte is there: another upload takes the place of the one before, whose
    /// writer loses it. Content from a position before the end repeats bytes that are there, which are passed over. If
    /// all bytes are there, only the same content is accepted.
    ///
    /// - Parameters:
    ///   - source: The content, with the length that its client announced, if any.
    ///   - start: The position of its first byte.
    ///   - total: Bytes of the whole file, if known.
    ///   - isWhole: Whether the content is the whole file.
    ///   - entry: The video or ticket.
    /// - Returns: `.count` without having read anything if `start` is after the stored bytes, or nothing was sent.
    /// - Throws: `VimeoError` `.lengthExceeded`, `.lengthConflict`; the errors of
    ///   `UploadService.append`.
    func put(
        _ source: any ByteSource,
        from start: Int64,
        of total: Int64?,
        isWhole: Bool = false,
        to entry: VimeoEntry
    ) async throws(VimeoError) -> Outcome {
        let content = VimeoContent(source, from: start, of: total, isWhole: isWhole)
        var entry = entry
        var attempts = 0
        while true {
            do throws(VimeoError) {
                return try await putOnce(content, to: entry)
            } catch {
                guard case .changed = error else { throw error }
                guard attempts < Self.mostAttempts else { throw VimeoError.refused(.busy) }
                // Nothing of the content was stored.
                attempts += 1
                try await Self.pause(.milliseconds(5 * attempts))
                guard let current = try await core(await library.entry(at: entry.record.record.key)) else {
                    throw VimeoError.refused(.notFound)
                }
                entry = current
            }
        }
    }

    /// Waits for another request that works on the same video.
    static func pause(_ duration: Duration) async throws(VimeoError) {
        guard (try? await Task.sleep(for: duration)) != nil else {
            throw .core(UploadError(.interrupted, "The request was stopped."))
        }
    }

    static let mostAttempts = 20

    private func putOnce(_ content: VimeoContent, to entry: VimeoEntry) async throws(VimeoError) -> Outcome {
        guard let known = entry.upload else {
            if content.start > 0 { return .count(0) }
            try await core(try content.check(against: entry.video.size))
            guard try await core(await content.begins(of: entry.video.size)) else { return .count(0) }
            return try await append(content, at: 0, try await beginAnew(entry), entry)
        }
        let seen = try await changing { () async throws(UploadError) in try await uploads.inspect(known.id) }
        guard seen.isAlive else { throw VimeoError.changed }
        if seen.state == .completed { return try await repeated(content, seen) }
        // Whoever cannot add anything does not end a request that does.
        if content.start > seen.offset, uploads.isReceiving(known.id) { return .count(seen.offset) }
        try await core(try content.check(against: entry.video.size))
        if content.start < (seen.length ?? .max), content.mayBeEmpty || content.start == 0 && seen.offset > 0 {
            guard try await core(await content.begins(of: entry.video.size)) else { return .count(seen.offset) }
        }
        let upload = try await changing { () async throws(UploadError) in
            try await uploads.status(of: known.id, Self.finish(entry.video))
        }
        if upload.state == .completed { return try await repeated(content, upload) }
        if content.start > upload.offset { return .count(upload.offset) }
        if content.start == 0, upload.offset > 0 {
            return try await append(content, at: 0, try await beginAnew(entry), entry)
        }
        return try await append(content, at: upload.offset, upload, entry)
    }

    private func changing(_ look: () async throws(UploadError) -> Upload) async throws(VimeoError) -> Upload {
        do throws(UploadError) {
            return try await look()
        } catch {
            throw error.code == .notFound || error.code == .gone ? .changed : .core(error)
        }
    }

    /// Takes content for an upload that is complete: the same again, after a response that was lost.
    ///
    /// - Throws: `VimeoError` 409 for other content, which has come too late; `.lengthExceeded`.
    private func repeated(_ content: VimeoContent, _ upload: Upload) async throws(VimeoError) -> Outcome {
        let length = upload.offset
        if content.start > length { return .count(length) }
        try await core(try content.check(against: length))
        guard content.source.remaining != 0 || content.start == length else { return .count(length) }
        let window = WindowSource(content.source, limit: length - content.start)
        var stored: any ByteSource = ArraySource([])
        if content.start < length {
            stored = try await core(await library.storage.bytes(of: upload.id, content.start..<length))
        }
        let count: Int64?
        do throws(SourceFailure) {
            try await window.checkEnd()
            count = try await window.countRepeating(stored)
        } catch {
            throw .core(window.isExceeded ? Self.excess(length) : UploadError(error))
        }
        if count == 0, content.start < length { return .count(length) }
        guard let count, !content.isWhole || count == length else {
            throw VimeoError(
                409,
                nil,
                "The upload is complete.",
                "It has other content than this; create another video or version for it."
            )
        }
        return .stored
    }

    static func excess(_ length: Int64) -> UploadError {
        UploadError(.lengthExceeded(length: length), "The file has \(length) bytes, and more were sent.")
    }

    private func append(
        _ content: VimeoContent,
        at offset: Int64,
        _ upload: Upload,
        _ entry: VimeoEntry
    ) async throws(VimeoError) -> Outcome {
        let (source, start, total) = (content.source, content.start, content.total)
        let known = upload.length ?? total
        let whole = known ?? source.remaining.map { start.adding($0) }
        let window = WindowSource(source, skipping: offset - start, limit: known.map { max(0, $0 - offset) })
        let isTicket = entry.video.isTicket
        do throws(UploadError) {
            do throws(SourceFailure) {
                try await window.checkEnd()
            } catch {
                throw UploadError(error)
            }
            let upload = try await uploads.append(
                to: upload.id,
                at: offset,
                contentLength: window.remaining,
                // A total that differs from what was announced is refused by the core.
                declaring: total ?? (upload.length == nil && !isTicket ? whole : nil),
                finish: isTicket
                    ? .explicit(isLast: false)
                    : whole == nil || content.isWhole ? .explicit(isLast: true) : .whenFull,
                expecting: nil,
                upTo: entry.video.total,
                from: window
            )
            if !isTicket { _ = try await uploads.finished(upload) }
            if entry.video.failure != nil { try await fail(entry, nil) }
            return .stored
        } catch {
            if window.isExceeded {
                try await drop(upload, of: entry)
                throw .core(Self.excess(known ?? 0))
            }
            switch error.code {
            case .quotaExceeded:
                guard let refusal = await library.quota.refusal(error, of: entry.video) else { throw .core(error) }
                try await core(await fail(entry, refusal.code == 3428 ? .total : .quota))
                throw .refused(refusal)
            case .contentTypeRefused, .rejected:
                try await core(await failIfEnded(entry, upload))
                throw .core(error)
            case .offsetMismatch, .notFound, .gone, .notOpen:
                // The writer before has stored more than was known, or another client has begun anew.
                if window.isUntouched { throw VimeoError.changed }
                if error.code == .notFound || error.code == .gone,
                    try await core(await library.entry(at: entry.record.record.key)) != nil
                {
                    throw VimeoError.refused(.busy)
                }
                throw .core(error)
            default: throw .core(error)
            }
        }
    }

    /// Forgets what was stored of content that had more bytes than the file: part of it must not count as the file.
    ///
    /// Its client may not read the answer, but polls (protocol notes §8.3).
    private func drop(_ upload: Upload, of entry: VimeoEntry) async throws(VimeoError) {
        guard let current = try await core(await library.entry(at: entry.record.record.key)),
            current.video.uploadID == upload.id.text
        else { return }
        do throws(VimeoError) {
            _ = try await beginAnew(current)
            try await core(await fail(entry, .uploading))
        } catch {
            // Unless another client has begun anew, or completed it.
            guard case .changed = error else { throw error }
        }
    }

    private static func finish(_ video: VimeoVideo) -> Finish { video.isTicket ? .explicit(isLast: false) : .whenFull }

    /// Gives a video a new upload, and ends the one before.
    ///
    /// The one before ends first, because a quota may not have room for both. Until the new one exists, the record has no
    /// upload: a record with an ended upload would count as a deleted video.
    ///
    /// - Throws: `VimeoError`, `.changed` if another client did that at the same time, or the one before was completed; `UploadError`.
    private func beginAnew(_ entry: VimeoEntry) async throws(VimeoError) -> Upload {
        let now = clock.now.unixSeconds
        let seen = entry.video
        let before = seen.uploadID ?? seen.replacedID
        let detached = try await core(
            await library.change(entry) { current in
                guard current.uploadID == seen.uploadID, current.replacedID == seen.replacedID else { return nil }
                var current = current
                current.uploadID = nil
                current.replacedID = before
                current.failure = nil
                current.modifiedAt = now
                return current
            }
        )
        guard let video = detached else { throw VimeoError.changed }
        if let before, let id = UploadID(before) {
            do throws(UploadError) {
                try await uploads.terminate(id, .open)
            } catch {
                switch error.code {
                case .notFound, .gone: break
                default:
                    // It is complete, and its client may have been told; or it could not be ended.
                    _ = try await core(
                        await library.change(entry) { current in
                            guard current.uploadID == nil, current.replacedID == before else { return nil }
                            var current = current
                            current.uploadID = before
                            current.replacedID = nil
                            return current
                        }
                    )
                    throw error.code == .notOpen ? .changed : .core(error)
                }
            }
        }
        var grant = Grant(
            id: video.principal,
            issuer: video.issuer,
            subject: video.subject,
            dialect: "vimeo",
            // What its creator was allowed still holds.
            maximumBytes: entry.upload?.maximumBytes,
            expiresAt: .distantFuture,
            storedBytes: video.total
        )
        video.limits?.apply(to: &grant)
        let metadata = entry.upload?.metadata ?? UploadMetadata(describing: video.metadata)
        let upload = try await core(await begin(video, metadata, under: grant))
        let attached = try await core(
            await library.change(entry) { current in
                guard current.uploadID == nil, current.replacedID == before else { return nil }
                var current = current
                current.uploadID = upload.id.text
                current.replacedID = nil
                return current
            }
        )
        guard attached != nil else {
            try? await uploads.end(upload.id.text)
            throw VimeoError.changed
        }
        return upload
    }

    /// Tells polling clients that the core has ended the upload.
    func failIfEnded(_ entry: VimeoEntry, _ upload: Upload) async throws(UploadError) {
        if let recorded = try await uploads.recorded(upload.id.text), recorded.isAlive { return }
        let now = clock.now.unixSeconds
        _ = try await library.change(entry) { video in
            guard video.uploadID == upload.id.text else { return nil }
            var video = video
            video.uploadID = nil
            video.failure = .uploading
            video.modifiedAt = now
            return video
        }
    }

    private func fail(_ entry: VimeoEntry, _ failure: VimeoVideo.Failure?) async throws(UploadError) {
        let now = clock.now.unixSeconds
        _ = try await library.change(entry) { video in
            if video.failure == failure { return nil }
            var video = video
            video.failure = failure
            video.modifiedAt = now
            return video
        }
    }
}
