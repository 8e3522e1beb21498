internal import Bytes
internal import Foundation
internal import HTTPWire
internal import Pulls
internal import UploadCore
internal import UploadModel
internal import VODKit

/// Begins, goes on with and completes uploads of videos.
struct VimeoUploads: Sendable {
    /// What a client wants to upload.
    struct New: Sendable {
        var labels: VimeoVideo.Labels
        /// See `VimeoVideo.said`.
        var said: String?
        var approach: VimeoVideo.Approach
        /// Whether it was asked for as before 3.4.
        var isOld = false
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
    var uploads: UploadService { library.uploads }
    var clock: any WallClock { library.clock }

    /// Creates a video, or a ticket.
    ///
    /// - Throws: `VimeoError`.
    func create(_ new: New, by caller: VimeoCaller) async throws(VimeoError) -> VimeoEntry {
        let user = try caller.user()
        var video = VimeoVideo(
            id: 0,
            subject: user.subject,
            issuer: caller.grant.issuer,
            principal: caller.grant.id,
            labels: new.labels,
            said: new.said,
            approach: new.approach,
            size: new.size,
            redirectURL: new.redirectURL,
            isTicket: new.approach == .ticket,
            total: caller.grant.storedBytes,
            limits: VimeoLimits(caller.grant),
            replaces: new.replaces,
            modifiedAt: clock.now.unixSeconds
        )
        video.metadata["filename"] = new.fileName ?? new.labels.name.flatMap { MetadataText.isName($0) ? $0 : nil }
        video.metadata["filetype"] = new.contentType
        while true {
            video.id = VimeoVideo.newID(at: clock.now)
            video.metadata["vimeo_uri"] = video.uri
            if let link = new.link {
                if try await pull(&video, from: link, isOld: new.isOld, by: caller) { break }
                continue
            }
            let upload = try await core(
                await begin(video, UploadMetadata(describing: video.metadata), under: caller.grant)
            )
            video.uploadID = upload.id.text
            do throws(UploadError) {
                if try await library.insert(video) { break }
            } catch {
                // No client has its link.
                try? await uploads.end(upload.id.text)
                throw .core(error)
            }
            // Its user has created another one in this millisecond, which got the same number.
            try await core(await uploads.end(upload.id.text))
        }
        guard let entry = try await core(await library.entry(video.id, of: user)) else {
            throw VimeoError.refused(.notFound)
        }
        return entry
    }

    /// Begins an upload of the core.
    func begin(_ video: VimeoVideo, _ metadata: UploadMetadata, under grant: Grant) async throws(UploadError)
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

    /// Records a video, and begins an upload whose bytes the gateway fetches.
    ///
    /// In this order, because what is fetched would stay without a video if the gateway died in between.
    ///
    /// - Parameters:
    ///   - video: Gets the upload.
    ///   - link: Where the bytes are.
    ///   - isOld: Whether the members of the call have their names from before 3.4.
    ///   - caller: Whose video it is.
    /// - Returns: Whether the id of the video was free.
    /// - Throws: `VimeoError` 2204, 2230.
    private func pull(
        _ video: inout VimeoVideo,
        from link: String,
        isOld: Bool,
        by caller: VimeoCaller
    ) async throws(VimeoError) -> Bool {
        guard let starter, let pulls = starter.pulls else {
            let field = isOld ? "type" : "upload.approach"
            throw VimeoError.refused(.invalid(field, "pull is not available on this server", 2230))
        }
        // As at `/v1/media/pull`.
        guard !caller.isAppUser else { throw VimeoError.refused(.noPull) }
        let reach = starter.reach(ofUserOf: caller.keyUploads)
        if let problem = starter.problem(with: link, within: reach) {
            throw VimeoError.refused(.invalid(isOld ? "link" : "upload.link", problem))
        }
        var new = starter.upload(
            from: link,
            within: reach,
            metadata: video.metadata,
            storedBytes: caller.grant.storedBytes
        )
        new.keptFor = library.lifetime
        // The bytes are not sent by the client.
        var grant = caller.grant
        grant.dialect = nil
        let id = UploadID.generate(at: uploads.now)
        new.id = id
        video.uploadID = id.text
        guard try await core(await library.insert(video)) else { return false }
        do throws(UploadError) {
            _ = try await pulls.begin(new, under: grant)
        } catch {
            try await core(await library.forget(video))
            throw .core(error)
        }
        // Whoever looked at it meanwhile found no upload.
        let key = video.recordKey
        if let entry = try await core(await library.entry(at: key)), entry.video.uploadID == nil {
            _ = try await core(
                await library.change(entry) { video in
                    var video = video
                    video.uploadID = id.text
                    video.failure = nil
                    return video
                }
            )
        }
        return true
    }

    /// Begins another file of a video, by tus.
    ///
    /// - Returns: The video with the version, which is its last.
    /// - Throws: `VimeoError` 404 if the video was deleted.
    func addVersion(_ fileName: String, size: Int64, to entry: VimeoEntry, by caller: VimeoCaller)
        async throws(VimeoError)
        -> VimeoEntry
    {
        var video = entry.video
        video.size = size
        video.metadata["filename"] = fileName
        video.metadata["filetype"] = nil
        let upload = try await core(await begin(video, UploadMetadata(describing: video.metadata), under: caller.grant))
        do throws(VimeoError) {
            guard try await attach(upload, fileName, to: entry) != nil else { throw VimeoError.refused(.notFound) }
        } catch {
            try? await uploads.end(upload.id.text)
            throw error
        }
        guard var entry = try await core(await library.entry(video.id, of: video.user)),
            let own = entry.versions.lastIndex(where: { $0.upload.id == upload.id })
        else { throw VimeoError.refused(.notFound) }
        // Other requests may have added theirs since.
        entry.versions.removeSubrange((own + 1)...)
        return entry
    }

    /// The most files of a video besides the first one; every reader of the video looks for their uploads.
    static let mostVersions = 100

    /// Records an upload as the latest version of a video, once, and forgets versions whose uploads have ended.
    ///
    /// - Returns: The video; `nil` if it was deleted.
    /// - Throws: `VimeoError` 403 if it has too many versions.
    func attach(_ upload: Upload, _ fileName: String?, to entry: VimeoEntry) async throws(VimeoError) -> VimeoVideo? {
        let id = VimeoVideo.newID(at: clock.now)
        let now = clock.now.unixSeconds
        let known = entry.video.versions?.map(\.uploadID) ?? []
        let ended = Set(known).subtracting(entry.versions.map(\.version.uploadID))
        var isFull = false
        let changed = try await core(
            await library.change(entry) { video in
                var video = video
                var versions = (video.versions ?? []).filter { !ended.contains($0.uploadID) }
                if versions.contains(where: { $0.uploadID == upload.id.text }) { return video }
                isFull = versions.count >= Self.mostVersions
                if isFull { return nil }
                // Of two in one millisecond, both may have the same.
                var id = id
                while versions.contains(where: { $0.id == id }) { id += 1 }
                versions.append(VimeoVideo.Version(id: id, uploadID: upload.id.text, fileName: fileName))
                video.versions = versions
                video.modifiedAt = now
                return video
            }
        )
        if isFull {
            throw VimeoError(
                403,
                nil,
                "The video has too many files.",
                "\(Self.mostVersions) versions are allowed; upload the file as another video."
            )
        }
        return changed
    }
}
