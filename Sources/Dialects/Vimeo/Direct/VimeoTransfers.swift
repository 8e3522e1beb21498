internal import Bytes
internal import Foundation
internal import ObjectGateway
internal import Synchronization
internal import UploadCore
internal import UploadModel
internal import VODKit

/// Sends bytes on to Vimeo, on whichever node finds them first.
final class VimeoTransfers: Sendable {
    enum Outcome: String { case sent, failed, gone }

    /// Bytes of one PATCH: Vimeo loses those of an unfinished one (protocol notes §11, 9).
    private static let chunkBytes: Int64 = 256 << 20
    private static let concurrency = 4
    /// Seconds.
    private static let claimLifetime: Int64 = 30
    private static let longestWait: Int64 = 600

    let library: VimeoLibrary
    let videos: VimeoCloudVideos
    let storage: any BlobStorage
    let upstream: VimeoUpstream
    /// Whether other processes have the same state: otherwise their claims have ended with them.
    let isShared: Bool
    private let failing: FailingRecords
    let count: @Sendable (Outcome) -> Void
    private let report: @Sendable (_ call: String, _ message: String) -> Void
    private let bell = EventBell()
    private let claim = UUID().uuidString
    private let work = VimeoTransferQueue(places: concurrency)
    private var records: any DialectRecords { library.records }
    private var clock: any WallClock { library.clock }

    init(
        library: VimeoLibrary,
        videos: VimeoCloudVideos,
        storage: any BlobStorage,
        upstream: VimeoUpstream,
        isShared: Bool,
        failing: FailingRecords,
        count: @escaping @Sendable (Outcome) -> Void,
        report: @escaping @Sendable (_ call: String, _ message: String) -> Void
    ) {
        self.library = library
        self.videos = videos
        self.storage = storage
        self.upstream = upstream
        self.isShared = isShared
        self.failing = failing
        self.count = count
        self.report = report
    }

    // MARK: Records

    func one(_ key: String) async throws(UploadError) -> CodedRecord<VimeoTransfer>? {
        guard let record = try await records.record(VimeoTransfer.recordKind, key) else { return nil }
        return try CodedRecord<VimeoTransfer>(record)
    }

    /// Records a transfer.
    ///
    /// - Returns: Whether there was none of this local video.
    func insert(_ transfer: VimeoTransfer) async throws(UploadError) -> Bool {
        let now = clock.now
        let record = CodedRecord(VimeoTransfer.recordKind, transfer.recordKey, transfer, at: now, until: nil)
        return try await records.insert(record.record, at: now)
    }

    /// Records the video at Vimeo, and that its ticket is used: a process that ended may have left that out.
    func adopt(_ transfer: VimeoTransfer) async throws(UploadError) {
        if transfer.endedAt == nil, let entry = try await library.entry(at: transfer.recordKey), entry.video.isTicket {
            _ = try await library.change(entry) { video in
                var video = video
                video.isTicket = false
                return video
            }
        }
        if transfer.isVersion { return }
        var video = VimeoCloudVideo(
            id: transfer.video,
            subject: transfer.subject,
            issuer: transfer.issuer,
            principal: transfer.principal,
            approach: transfer.approach,
            source: transfer.source,
            document: transfer.document,
            status: "uploading"
        )
        video.learn(video.members)
        try await videos.insert(video)
    }

    func remove(_ key: String) async throws(UploadError) {
        _ = try await records.removeRecord(VimeoTransfer.recordKind, key)
    }

    /// Removes what is on its way to a video, with its bytes.
    func removeAll(to video: VimeoCloudVideo) async throws(UploadError) {
        _ = try await records.each(VimeoTransfer.recordKind, prefix: video.user.prefix + "/") {
            record throws(UploadError) in
            let transfer = try CodedRecord<VimeoTransfer>(record).content
            if transfer.video == video.id, transfer.subject.isSameSubject(as: video.subject) {
                try await forget(transfer)
            }
        }
    }

    private static let lockKind = "vimeo completing"

    /// Reserves the completion of a ticket for the caller, for a minute.
    func lock(_ key: String) async throws(UploadError) -> Bool {
        let now = clock.now
        let end = now.addingTimeInterval(60)
        let lock = DialectRecord(kind: Self.lockKind, key: key, text: "{}", createdAt: now, expiresAt: end)
        return try await records.insert(lock, at: now)
    }

    func unlock(_ key: String) async {
        // Otherwise it expires.
        _ = try? await records.removeRecord(Self.lockKind, key)
    }

    private func change(_ key: String, _ change: (inout VimeoTransfer) -> Bool) async throws(UploadError)
        -> VimeoTransfer?
    {
        while let found = try await one(key) {
            var transfer = found.content
            guard change(&transfer) else { return nil }
            if found.has(transfer) { return transfer }
            // One that is over is kept while its client may ask again.
            let end = transfer.endedAt.flatMap { transfer.hasFailed == true ? nil : $0 }.map {
                Date(timeIntervalSince1970: Double($0) + library.lifetime)
            }
            if try await records.replace(found.replaced(by: transfer, until: end).record) { return transfer }
        }
        return nil
    }

    // MARK: Working

    /// All bytes of a local video have arrived.
    func arrived(_ key: String) {
        work.add(key)
        bell.ring()
    }

    /// Works until its task is cancelled.
    func run() async {
        await withDiscardingTaskGroup { group in
            var nextLook = ContinuousClock.now
            while !Task.isCancelled {
                let rings = bell.count
                if ContinuousClock.now >= nextLook {
                    let start = ContinuousClock.now
                    await look()
                    nextLook = .now + Polling.pause(after: .now - start, atLeast: .seconds(3))
                }
                while let key = work.take() {
                    group.addTask { [self] in
                        let failure = await failing.attempt("vimeo sending", key) { () throws(UploadError) in
                            try await perform(key)
                        }
                        if let failure { report("transfer", failure.message) }
                        work.end(key)
                        bell.ring()
                    }
                }
                await bell.wait(after: rings, timeout: max(.milliseconds(100), nextLook - .now))
            }
        }
    }

    /// Finds transfers that are due, also those that another process has left.
    private func look() async {
        let now = clock.now.unixSeconds
        do throws(UploadError) {
            _ = try await records.each(VimeoTransfer.recordKind, failing: failing) { record throws(UploadError) in
                let transfer = try CodedRecord<VimeoTransfer>(record).content
                if let end = transfer.endedAt {
                    // Its bytes were kept for a while.
                    if transfer.hasFailed == true, end + Int64(library.lifetime) < now { try await forget(transfer) }
                } else if isDue(transfer, now) {
                    work.add(record.key)
                }
            }
        } catch {
            report("transfers", error.message)
        }
    }

    private func isDue(_ transfer: VimeoTransfer, _ now: Int64) -> Bool {
        guard transfer.endedAt == nil, transfer.dueAt <= now else { return false }
        return !isShared || transfer.claim == claim || transfer.claimedUntil ?? 0 <= now
    }

    private func forget(_ transfer: VimeoTransfer) async throws(UploadError) {
        if let entry = try await library.entry(at: transfer.recordKey) { _ = try await library.delete(entry) }
        try await remove(transfer.recordKey)
    }

    private func perform(_ key: String) async throws(UploadError) {
        // Its bytes are still coming.
        if let entry = try await library.entry(at: key), entry.upload?.state != .completed { return }
        let now = clock.now.unixSeconds
        let claimed = try await change(key) { transfer in
            guard isDue(transfer, now) else { return false }
            transfer.claim = claim
            transfer.claimedUntil = now + Self.claimLifetime
            return true
        }
        guard let transfer = claimed else { return }
        do throws(VimeoError) {
            try await send(transfer)
        } catch {
            let failures = transfer.failures + 1
            // Another process may go on at once if this one is stopping.
            let wait = Task.isCancelled ? 0 : min(Self.longestWait, 1 << Int64(min(failures, 20)))
            let recorded = Task { [self] in
                try await change(key) { transfer in
                    guard transfer.claim == claim, transfer.endedAt == nil else { return false }
                    transfer.claim = nil
                    transfer.claimedUntil = nil
                    transfer.failures = failures
                    transfer.dueAt = clock.now.unixSeconds + wait
                    return true
                }
            }
            _ = try? await recorded.value
            if !Task.isCancelled { report("transfer", error.message) }
        }
    }

    /// Sends all bytes that Vimeo does not have yet.
    ///
    /// - Throws: `VimeoError`: another attempt may succeed.
    private func send(_ transfer: VimeoTransfer) async throws(VimeoError) {
        try await core(await adopt(transfer))
        guard let entry = try await core(await library.entry(at: transfer.recordKey)), let upload = entry.upload else {
            return try await core(await giveUp(transfer))
        }
        guard upload.state == .completed else { return try await core(await release(transfer)) }
        let size = upload.offset
        let renewal = Renewal()
        while true {
            guard let offset = try await cloud(await upstream.cloud.offset(at: transfer.link)) else {
                return try await core(await end(transfer, .gone))
            }
            // Bytes that are not ours: ours must not be given up for them.
            guard offset <= size else { throw Self.wrongOffset }
            guard offset < size else { break }
            let end = min(size, offset + Self.chunkBytes)
            let source = try await core(await storage.bytes(of: upload.id, offset..<end))
            let stored = try await cloud(
                await upstream.cloud.send(source, length: end - offset, at: offset, to: transfer.link) {
                    await stillOurs(transfer, renewal)
                }
            )
            guard let stored else { return try await core(await self.end(transfer, .gone)) }
            // Otherwise the same bytes would be sent again and again without a pause.
            guard stored > offset else { throw Self.wrongOffset }
            guard try await core(await renew(transfer)) else { return }
        }
        try await core(await end(transfer, .sent))
    }

    private static let wrongOffset = VimeoError.core(
        UploadError(.unavailable, "Vimeo states an offset that cannot be.")
    )

    private func cloud<Success>(
        _ call: @autoclosure () async throws(CloudForwarder.Failure) -> Success
    ) async throws(VimeoError) -> Success {
        do throws(CloudForwarder.Failure) { return try await call() } catch { throw .cloud(error) }
    }

    /// When a claim was renewed.
    private final class Renewal: Sendable {
        private let last = Mutex(ContinuousClock.now)

        /// Whether it is time to renew it.
        func isDue(every interval: Duration) -> Bool {
            last.withLock { last in
                if ContinuousClock.now - last < interval { return false }
                last = .now
                return true
            }
        }
    }

    private func stillOurs(_ transfer: VimeoTransfer, _ renewal: Renewal) async -> Bool {
        guard renewal.isDue(every: .seconds(Self.claimLifetime / 4)) else { return true }
        do throws(UploadError) {
            return try await renew(transfer)
        } catch {
            // A database that cannot be reached for a moment does not end it.
            return true
        }
    }

    /// - Returns: Whether this process still works on it.
    private func renew(_ transfer: VimeoTransfer) async throws(UploadError) -> Bool {
        let now = clock.now.unixSeconds
        let renewed = try await change(transfer.recordKey) { current in
            guard current.claim == claim, current.endedAt == nil else { return false }
            current.claimedUntil = now + Self.claimLifetime
            return true
        }
        return renewed != nil
    }

    /// Its bytes have not all arrived.
    private func release(_ transfer: VimeoTransfer) async throws(UploadError) {
        _ = try await change(transfer.recordKey) { current in
            guard current.claim == claim else { return false }
            current.claim = nil
            current.claimedUntil = nil
            return true
        }
    }

    private func end(_ transfer: VimeoTransfer, _ outcome: Outcome) async throws(UploadError) {
        let now = clock.now.unixSeconds
        let ended = try await change(transfer.recordKey) { current in
            guard current.claim == claim, current.endedAt == nil else { return false }
            current.endedAt = now
            current.hasFailed = outcome == .sent ? nil : true
            current.claim = nil
            current.claimedUntil = nil
            return true
        }
        guard ended != nil else { return }
        count(outcome)
        let key = VimeoVideo.recordKey(transfer.video, of: transfer.user)
        if outcome == .sent {
            if let entry = try await library.entry(at: transfer.recordKey) { _ = try await library.delete(entry) }
        } else if !transfer.isVersion {
            try await videos.change(key) { $0.failure = .uploading }
        }
    }

    /// The local upload has ended before all its bytes came.
    private func giveUp(_ transfer: VimeoTransfer) async throws(UploadError) {
        // A client that begins anew leaves a local video without an upload for a moment.
        if try await library.entry(at: transfer.recordKey) != nil { return try await release(transfer) }
        if transfer.isVersion {
            try await end(transfer, .failed)
        } else {
            await upstream.delete(transfer.videoURI)
            if let video = try await videos.one(transfer.video, of: transfer.user) {
                try await videos.remove(video.content)
            }
        }
        try await remove(transfer.recordKey)
    }
}
