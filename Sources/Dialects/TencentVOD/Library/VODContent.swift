internal import UploadCore
internal import UploadModel
internal import VODKit

/// What a record says of the files of its media.
struct VODContent: Sendable, Equatable {
    /// Bytes of the video, or of all files of a playlist ("MediaMetaData", VOD documentation).
    var size: Int64
    /// Hexadecimal MD5; `nil` if the video came in parts, or has several files.
    var md5: String?
    /// That of the video's object; for a playlist with the size, which changes with the other files.
    var id: String
}

extension VODLibrary {
    /// What is stored of a video.
    ///
    /// - Parameters:
    ///   - video: The object of the video.
    ///   - directory: Where the other files of a playlist lie; `nil` for a video of one file.
    ///   - cover: The key of the cover, which does not count.
    /// - Returns: The content; its cost grows with the number of files.
    /// - Throws: `UploadError`.
    func content(
        _ video: Media,
        with directory: ObjectName?,
        without cover: String?
    ) async throws(UploadError) -> VODContent {
        // Without a bound there is always one.
        try await content(video, with: directory, without: cover, upTo: .max)
            ?? VODContent(size: video.size, md5: video.md5, id: video.id.text)
    }

    /// The same, or `nil` if there are `most` files or more.
    private func content(
        _ video: Media,
        with directory: ObjectName?,
        without cover: String?,
        upTo most: Int
    ) async throws(UploadError) -> VODContent? {
        guard let directory else { return VODContent(size: video.size, md5: video.md5, id: video.id.text) }
        var size: Int64 = 0
        var count = 0
        var last: String?
        while true {
            let limit = min(most, 500)
            let query = ObjectQuery(bucket: directory.bucket, prefix: directory.key, after: last, limit: limit)
            let page = try await objects.objects(query)
            for object in page where object.key != cover {
                size += object.size
                count += 1
            }
            last = page.last?.key
            if page.count < limit {
                return VODContent(size: size, md5: count == 1 ? video.md5 : nil, id: "\(video.id.text)-\(size)")
            }
            if most < .max { return nil }
        }
    }

    /// The files of a playlist that each look at its media counts.
    ///
    /// What replaces one is followed at once; a look finds what a gateway that died, or a state that failed, has missed.
    static let countedFiles = 500

    /// Lets a record follow its files: those who may write to the bucket can replace them after the commit.
    ///
    /// - Parameters:
    ///   - found: Media that is not being deleted.
    ///   - events: Get an event of other content.
    ///   - isCertain: Whether to look at all files of a playlist that has many, too.
    /// - Returns: The media as it is now; `nil` if it is being deleted.
    /// - Throws: `UploadError`.
    func settled(
        _ found: CodedRecord<VODMedia>,
        telling events: VODEvents,
        isCertain: Bool = false
    ) async throws(UploadError) -> CodedRecord<VODMedia>? {
        var found = found
        while true {
            let media = found.content
            guard let object = try await objects.object(ObjectName(bucket: media.bucket, key: media.video.key)) else {
                return found
            }
            if media.segments == nil, media.contentID == object.id.text { return found }
            let cover = media.cover?.key
            let isSame = media.contentID?.hasPrefix("\(object.id.text)-") ?? true
            let most = isCertain || !isSame ? Int.max : Self.countedFiles
            guard let content = try await content(object, with: media.segments, without: cover, upTo: most) else {
                return found
            }
            if let id = media.contentID {
                if id == content.id { return found }
            } else if media.video.size == content.size, media.md5 == content.md5 {
                return found
            }
            var changed = media
            changed.video.size = content.size
            changed.md5 = content.md5
            changed.contentID = content.id
            changed.updatedAt = clock.now.unixSeconds
            let replaced = found.replaced(by: changed, until: nil)
            let owner = media.owner
            let event = events.recording(.uploaded, of: media.fileID, in: owner, content: content.id)
            if try await records.apply([.replace(replaced.record)] + event) {
                events.bell.ring()
                return replaced.next
            }
            guard let current = try await self.media(media.fileID, of: media.owner.application) else { return nil }
            found = current
        }
    }
}
