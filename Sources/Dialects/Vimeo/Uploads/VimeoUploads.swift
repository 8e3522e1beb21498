internal import Bytes
internal import Foundation
internal import HTTPWire
internal import Pulls
internal import UploadCore
internal import VODKit

/// Begins, goes on with and completes uploads of videos.
struct VimeoUploads: Sendable {
    /// What a client wants to upload.
    struct New: Sendable {
        var labels: VimeoVideo.Labels
        var approach: VimeoVideo.Approach
        /// Bytes; `nil` if the client does not say.
        var size: Int64?
        /// Of the file, not of the video.
        var fileName: String?
        var contentType: String?
        var redirectURL: String?
        /// The video whose file a ticket replaces.
        var replaces: Int64?
        /// From where the bytes are fetched.
        var link: String?
    }

    let library: VimeoLibrary
    /// `nil` if nothing can be fetched.
    var starter: PullStarter?
    private var uploads: UploadService { library.uploads }
    private var clock: any WallClock { library.clock }

    /// Creates a video, or a ticket.
    ///
    /// - Throws: `VimeoFailure`; `UploadError`.
    func create(_ new: New, by caller: VimeoCaller) async throws -> VimeoEntry {
        let user = try caller.user()
        var video = VimeoVideo(
            id: 0,
            subject: user.subject,
            issuer: caller.grant.issuer,
            principal: caller.grant.id,
            labels: new.labels,
            approach: new.approach,
            size: new.size,
            redirectURL: new.redirectURL,
            isTicket: new.approach == .ticket,
            total: caller.grant.storedBytes,
            replaces: new.replaces,
            modifiedAt: clock.now.unixSeconds
        )
        video.metadata["filename"] = new.fileName ?? new.labels.name
        video.metadata["filetype"] = new.contentType
        while true {
            video.id = VimeoVideo.newID(at: clock.now)
            video.metadata["vimeo_uri"] = video.uri
            let upload =
                if let link = new.link {
                    try await pull(video, from: link, under: caller.grant)
                } else {
                    try await begin(video, UploadMetadata(describing: video.metadata), under: caller.grant)
                }
            video.uploadID = upload.id.text
            do throws(UploadError) {
                if try await library.insert(video) { break }
            } catch {
                // No client has its link.
                try? await uploads.end(upload.id.text)
                throw error
            }
            // Its user has created another one in this millisecond, which got the same number.
            try await uploads.end(upload.id.text)
        }
        guard let entry = try await library.entry(video.id, of: user) else { throw VimeoFailure.notFound }
        return entry
    }

    /// Begins an upload of the core.
    private func begin(_ video: VimeoVideo, _ metadata: UploadMetadata, under grant: Grant) async throws(UploadError)
        -> Upload
    {
        var new = NewUpload(
            dialect: "vimeo",
            length: video.size,
            metadata: metadata,
            // A ticket is completed by a call of its own.
            completesWhenFull: !video.isTicket
        )
        new.keptFor = library.lifetime
        return try await uploads.create(new, under: grant)
    }

    /// Begins an upload whose bytes the gateway fetches.
    private func pull(_ video: VimeoVideo, from link: String, under grant: Grant) async throws -> Upload {
        guard let starter, let pulls = starter.pulls else {
            throw VimeoFailure.invalid("upload.approach", "pull is not available on this server", 2230)
        }
        if let problem = starter.problem(with: link) { throw VimeoFailure.invalid("upload.link", problem) }
        var new = starter.upload(from: link, metadata: video.metadata)
        new.keptFor = library.lifetime
        // The bytes are not sent by the client.
        var grant = grant
        grant.dialect = nil
        return try await pulls.begin(new, under: grant)
    }

    /// Begins another file of a video, by tus.
    ///
    /// - Returns: The video with the version, which is its last.
    /// - Throws: `VimeoFailure` 404 if the video was deleted; `UploadError`.
    func addVersion(_ fileName: String, size: Int64, to entry: VimeoEntry, by caller: VimeoCaller) async throws
        -> VimeoEntry
    {
        var video = entry.video
        video.size = size
        video.metadata["filename"] = fileName
        video.metadata["filetype"] = nil
        let upload = try await begin(video, UploadMetadata(describing: video.metadata), under: caller.grant)
        do {
            guard try await attach(upload, fileName, to: entry) != nil else { throw VimeoFailure.notFound }
        } catch {
            try? await uploads.end(upload.id.text)
            throw error
        }
        guard let entry = try await library.entry(video.id, of: video.user) else { throw VimeoFailure.notFound }
        return entry
    }

    /// The most files of a video besides the first one; every reader of the video looks for their uploads.
    static let mostVersions = 100

    /// Records an upload as the latest version of a video, once, and forgets versions whose uploads have ended.
    ///
    /// - Returns: The video; `nil` if it was deleted.
    /// - Throws: `VimeoFailure` 403 if it has too many versions; `UploadError`.
    private func attach(_ upload: Upload, _ fileName: String?, to entry: VimeoEntry) async throws -> VimeoVideo? {
        let id = VimeoVideo.newID(at: clock.now)
        let now = clock.now.unixSeconds
        let ended = Set(entry.video.versions?.map(\.id) ?? []).subtracting(entry.versions.map(\.version.id))
        var isFull = false
        let changed = try await library.change(entry) { video in
            var video = video
            var versions = (video.versions ?? []).filter { !ended.contains($0.id) }
            if versions.contains(where: { $0.uploadID == upload.id.text }) { return video }
            isFull = versions.count >= Self.mostVersions
            if isFull { return nil }
            versions.append(VimeoVideo.Version(id: id, uploadID: upload.id.text, fileName: fileName))
            video.versions = versions
            video.modifiedAt = now
            return video
        }
        if isFull {
            throw VimeoFailure(
                403,
                nil,
                "The video has too many files.",
                "\(Self.mostVersions) versions are allowed; upload the file as another video."
            )
        }
        return changed
    }

    // MARK: Bytes

    /// What a PUT to a link did.
    enum Outcome: Equatable {
        /// All that the client sent is stored.
        case stored
        /// The answer to a probe, or to content that does not begin where the stored bytes end.
        case count(Int64)
    }

    /// Number of bytes that are durable.
    func count(of entry: VimeoEntry) async throws(UploadError) -> Int64 {
        guard let upload = entry.upload else { return 0 }
        return try await uploads.status(of: upload.id, Self.finish(entry.video)).offset
    }

    /// Stores content that was sent to the link of a ticket, or of approach `streaming` or `post`.
    ///
    /// Content from 0 begins anew: another upload takes the place of the one before, whose writer loses it. Content
    /// from a position before the end repeats bytes that are there, which are passed over.
    ///
    /// - Parameters:
    ///   - source: The content, with the length that its client announced, if any.
    ///   - start: The position of its first byte.
    ///   - total: Bytes of the whole file, if known.
    ///   - entry: The video or ticket.
    /// - Returns: `.count` without having read anything if `start` is after the stored bytes.
    /// - Throws: `VimeoFailure`; the errors of `UploadService.append`.
    func put(_ source: any ByteSource, from start: Int64, of total: Int64?, to entry: VimeoEntry) async throws
        -> Outcome
    {
        let offset = try await count(of: entry)
        if start > offset { return .count(offset) }
        // Complete: the same content again, after a response that was lost.
        if let upload = entry.upload, upload.state == .completed { return .stored }
        guard let upload = entry.upload, start > 0 || offset == 0 else {
            return try await append(source, from: 0, at: 0, of: total, try await beginAnew(entry), entry)
        }
        return try await append(source, from: start, at: offset, of: total, upload, entry)
    }

    private func append(
        _ source: any ByteSource,
        from start: Int64,
        at offset: Int64,
        of total: Int64?,
        _ upload: Upload,
        _ entry: VimeoEntry
    ) async throws -> Outcome {
        let whole = upload.length ?? total ?? source.remaining.map { start + $0 }
        let window = WindowSource(source, skipping: offset - start, limit: whole.map { $0 - offset } ?? .max)
        let isTicket = entry.video.isTicket
        do throws(UploadError) {
            let upload = try await uploads.append(
                to: upload.id,
                at: offset,
                contentLength: window.remaining,
                // A total that differs from what was announced is refused by the core.
                declaring: total ?? (upload.length == nil && !isTicket ? whole : nil),
                finish: isTicket ? .explicit(isLast: false) : whole == nil ? .explicit(isLast: true) : .whenFull,
                expecting: nil,
                from: window
            )
            if !isTicket { _ = try await uploads.finished(upload) }
            return .stored
        } catch {
            if case .quotaExceeded = error.code { try await fail(entry, .quota) }
            throw error
        }
    }

    private static func finish(_ video: VimeoVideo) -> Finish { video.isTicket ? .explicit(isLast: false) : .whenFull }

    /// Gives a video a new upload, and ends the one before.
    ///
    /// The one before ends first, because a quota may not have room for both. Until the new one exists, the record has no
    /// upload: a record with an ended upload would count as a deleted video.
    ///
    /// - Throws: `VimeoFailure` 409 if another client did that at the same time; 404 if the video was deleted.
    private func beginAnew(_ entry: VimeoEntry) async throws -> Upload {
        let now = clock.now.unixSeconds
        let before = entry.video.uploadID
        let detached = try await library.change(entry) { current in
            guard current.uploadID == before else { return nil }
            var current = current
            current.uploadID = nil
            current.failure = nil
            current.modifiedAt = now
            return current
        }
        guard let video = detached else { throw VimeoFailure.busy }
        if let before { try await uploads.end(before) }
        let grant = Grant(
            id: video.principal,
            issuer: video.issuer,
            subject: video.subject,
            dialect: "vimeo",
            // What its creator was allowed still holds.
            maximumBytes: entry.upload?.maximumBytes,
            expiresAt: .distantFuture,
            storedBytes: video.total
        )
        let metadata = entry.upload?.metadata ?? UploadMetadata(describing: video.metadata)
        let upload = try await begin(video, metadata, under: grant)
        let attached = try await library.change(entry) { current in
            guard current.uploadID == nil else { return nil }
            var current = current
            current.uploadID = upload.id.text
            return current
        }
        guard attached != nil else {
            try? await uploads.end(upload.id.text)
            throw VimeoFailure.busy
        }
        return upload
    }

    private func fail(_ entry: VimeoEntry, _ failure: VimeoVideo.Failure) async throws(UploadError) {
        _ = try await library.change(entry) { video in
            var video = video
            video.failure = failure
            return video
        }
    }

    // MARK: Tickets

    /// Makes a video of a ticket.
    ///
    /// - Returns: The video; also if it was completed before.
    /// - Throws: `VimeoFailure` 4011 if bytes are missing; `UploadError`.
    func complete(_ entry: VimeoEntry) async throws -> VimeoVideo {
        guard entry.video.isTicket else { return entry.video }
        guard let upload = entry.upload else { throw Self.incomplete(0, entry.video.size ?? 1) }
        if upload.state == .open {
            let upload = try await uploads.status(of: upload.id, .explicit(isLast: false))
            let missing = (upload.length ?? max(1, upload.offset)) - upload.offset
            guard missing == 0 else { throw Self.incomplete(upload.offset, missing) }
            let completed = try await uploads.append(
                to: upload.id,
                at: upload.offset,
                contentLength: 0,
                finish: .explicit(isLast: true),
                expecting: nil,
                from: ArraySource([])
            )
            _ = try await uploads.finished(completed)
        }
        if let replaced = entry.video.replaces { return try await replace(replaced, by: entry, upload) }
        let now = clock.now.unixSeconds
        let changed = try await library.change(entry) { video in
            var video = video
            video.isTicket = false
            video.modifiedAt = now
            return video
        }
        guard let changed else { throw VimeoFailure.notFound }
        return changed
    }

    /// Gives a video the file of a ticket, which stays so that its client can ask again.
    private func replace(_ id: Int64, by ticket: VimeoEntry, _ upload: Upload) async throws -> VimeoVideo {
        guard let entry = try await library.entry(id, of: ticket.video.user), !entry.video.isTicket,
            let video = try await attach(upload, ticket.video.metadata["filename"], to: entry)
        else { throw VimeoFailure(404, 5012, "The video to replace could not be found.") }
        return video
    }

    private static func incomplete(_ stored: Int64, _ missing: Int64) -> VimeoFailure {
        VimeoFailure(
            400,
            4011,
            "The upload is not complete.",
            "\(stored) bytes have arrived, and \(missing) are missing; send them, then complete again."
        )
    }
}
