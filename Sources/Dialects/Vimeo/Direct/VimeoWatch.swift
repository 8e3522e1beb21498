internal import Bytes
internal import Foundation
internal import HTTPWire
internal import UploadModel
internal import VODKit

/// Looks at videos at Vimeo until they are settled, and deletes those whose bytes never came.
struct VimeoWatch: Sendable {
    let videos: VimeoCloudVideos
    /// Asks Vimeo for a video.
    let document: @Sendable (_ uri: String) async throws(VimeoError) -> VimeoUpstream.Document?
    /// Deletes a video at Vimeo.
    let delete: @Sendable (_ uri: String) async -> Void
    /// Seconds after which a video without its bytes is deleted.
    let lifetime: Int64
    private static let longestPause: Int64 = 3600
    private static let mostAtOnce = 30

    /// Between two looks.
    var pause: Duration { .seconds(min(videos.interval, 10)) }

    /// Looks at those that are due, the longest due first: otherwise the first of them would be due again before the last
    /// had their turn.
    ///
    /// - Returns: Whether any is watched.
    /// - Throws: `UploadError`; the next call continues.
    @discardableResult
    func look(_ failing: FailingRecords = FailingRecords()) async throws(UploadError) -> Bool {
        let now = videos.clock.now.unixSeconds
        var due: [CodedRecord<VimeoCloudVideos.Mark>] = []
        var failure: UploadError?
        var hasAny = false
        do throws(UploadError) {
            hasAny = try await videos.records.each(VimeoCloudVideos.markKind) { record throws(UploadError) in
                guard failing.isDue(record) else { return }
                do throws(UploadError) {
                    let mark = try CodedRecord<VimeoCloudVideos.Mark>(record)
                    if mark.content.dueAt <= now { due.append(mark) }
                } catch {
                    failing.note(record)
                    throw error
                }
                if due.count >= 10 * Self.mostAtOnce { due = Self.first(of: due) }
            }
        } catch {
            failure = error
        }
        var wantsPause = false
        for mark in Self.first(of: due) where !wantsPause && !Task.isCancelled {
            let failed = await failing.attempt(mark.record) { _ throws(UploadError) in
                wantsPause = try await look(at: mark, now)
            }
            failure = failure ?? failed
        }
        if let failure { throw failure }
        return hasAny
    }

    private static func first(of due: [CodedRecord<VimeoCloudVideos.Mark>]) -> [CodedRecord<VimeoCloudVideos.Mark>] {
        Array(due.sorted { $0.content.dueAt < $1.content.dueAt }.prefix(mostAtOnce))
    }

    /// - Returns: Whether Vimeo wants a pause.
    private func look(
        at mark: CodedRecord<VimeoCloudVideos.Mark>,
        _ now: Int64
    ) async throws(UploadError) -> Bool {
        let records = videos.records
        let key = mark.record.key
        guard let found = try await videos.one(at: key) else {
            // A creation records the mark first.
            if now - mark.record.createdAt.unixSeconds > 3600 {
                _ = try await records.removeRecord(VimeoCloudVideos.markKind, key)
            } else {
                let next = VimeoCloudVideos.Mark(dueAt: now + videos.interval)
                _ = try await records.replace(mark.replaced(by: next, until: nil).record)
            }
            return false
        }
        // The older a video, the longer it takes.
        let age = now - found.record.createdAt.unixSeconds
        let next = VimeoCloudVideos.Mark(dueAt: now + min(Self.longestPause, max(videos.interval, age / 4)))
        // One of several nodes.
        guard try await records.replace(mark.replaced(by: next, until: nil).record) else { return false }
        do throws(VimeoError) {
            guard try await look(at: found.content, age: age) else { return false }
        } catch {
            guard case .core(let cause) = error else { return error.failure.status == 429 }
            throw cause
        }
        _ = try await records.removeRecord(VimeoCloudVideos.markKind, key)
        return false
    }

    /// - Returns: Whether it need not be looked at any more.
    private func look(at video: VimeoCloudVideo, age: Int64) async throws(VimeoError) -> Bool {
        let document: VimeoUpstream.Document?
        do throws(VimeoError) {
            document = try await self.document(video.uri)
        } catch {
            guard error.failure.status == 404 else { throw error }
            _ = try await core(await videos.change(video.recordKey) { $0.isGone = true })
            return true
        }
        guard let document else { return false }
        let known = try await core(await videos.change(video.recordKey) { $0.learn(document.members) })
        guard let known, known.status == "uploading", age > lifetime else { return known?.isSettled ?? true }
        // Its bytes may wait here for a Vimeo that cannot be reached.
        if let key = video.sourceKey,
            let record = try await core(await videos.records.record(VimeoTransfer.recordKind, key)),
            try await core(try CodedRecord<VimeoTransfer>(record)).content.endedAt == nil
        {
            return false
        }
        await delete(video.uri)
        try await core(await videos.remove(known))
        return true
    }
}
