internal import Bytes
internal import Foundation
internal import HTTPWire
internal import UploadModel
internal import VODKit

/// Looks at videos at Vimeo until they are settled, and deletes those whose bytes never came.
struct VimeoWatch: Sendable {
    let videos: VimeoCloudVideos
    let upstream: VimeoUpstream
    let transfers: VimeoTransfers
    /// Seconds after which a video without its bytes is deleted.
    let lifetime: Int64
    let report: @Sendable (_ call: String, _ error: any Error) -> Void
    private static let longestPause: Int64 = 3600
    private static let mostAtOnce = 30

    /// Works until its task is cancelled.
    func run() async {
        while !Task.isCancelled {
            let start = ContinuousClock.now
            do throws(UploadError) {
                try await look()
            } catch {
                report("watch", error)
            }
            let pause = Polling.pause(after: .now - start, atLeast: .seconds(min(videos.interval, 10)))
            try? await Task.sleep(for: pause)
        }
    }

    private func look() async throws(UploadError) {
        let now = videos.clock.now.unixSeconds
        var left = Self.mostAtOnce
        _ = try await videos.records.each(VimeoCloudVideos.markKind) { record throws(UploadError) in
            let mark = try CodedRecord<VimeoCloudVideos.Mark>(record)
            guard left > 0, mark.content.dueAt <= now, !Task.isCancelled else { return }
            guard let found = try await videos.one(at: record.key) else {
                // A creation records the mark first.
                if now - record.createdAt.unixSeconds > 3600 {
                    _ = try await videos.records.removeRecord(VimeoCloudVideos.markKind, record.key)
                }
                return
            }
            // The older a video, the longer it takes.
            let age = now - found.record.createdAt.unixSeconds
            let next = VimeoCloudVideos.Mark(dueAt: now + min(Self.longestPause, max(videos.interval, age / 4)))
            // One of several nodes.
            guard try await videos.records.replace(mark.replaced(by: next, until: nil).record) else { return }
            left -= 1
            do {
                if try await look(at: found.content, age: age) {
                    _ = try await videos.records.removeRecord(VimeoCloudVideos.markKind, record.key)
                }
            } catch let failure as VimeoFailure {
                // Vimeo wants a pause.
                if failure.status == 429 { left = 0 }
            } catch {
                throw (error as? UploadError) ?? UploadError(.unavailable, "\(error)")
            }
        }
    }

    /// - Returns: Whether it need not be looked at any more.
    private func look(at video: VimeoCloudVideo, age: Int64) async throws -> Bool {
        let document: VimeoUpstream.Document?
        do throws(VimeoFailure) {
            document = try await upstream.document(.get, video.uri, fields: VimeoUpstream.videoFields)
        } catch {
            guard error.status == 404 else { throw error }
            try await videos.change(video.recordKey) { $0.isGone = true }
            return true
        }
        guard let document else { return false }
        let known = try await videos.change(video.recordKey) { $0.learn(document.members) }
        guard let known, known.status == "uploading", age > lifetime else { return known?.isSettled ?? true }
        // Its bytes may wait here for a Vimeo that cannot be reached.
        if let key = video.sourceKey, let transfer = try await transfers.one(key), transfer.content.endedAt == nil {
            return false
        }
        await upstream.delete(video.uri)
        try await videos.remove(known)
        return true
    }
}
