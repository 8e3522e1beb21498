package import Foundation
package import UploadModel

extension UploadRecords {
    /// Like `insert(_:consuming:under:recording:)`, without limits.
    package func insert(_ upload: Upload, consuming grant: Grant?) async throws(UploadError) {
        try await insert(
            upload,
            consuming: grant,
            under: EffectiveLimits(policies: [:], period: QuotaPeriod(around: upload.createdAt, length: 86400)),
            recording: .sample(.created, of: upload)
        )
    }

    /// Like the method above, with the job that fills the upload.
    package func insert(_ upload: Upload, consuming grant: Grant?, pulling job: PullJob) async throws(UploadError) {
        try await insert(
            upload,
            consuming: grant,
            under: EffectiveLimits(policies: [:], period: QuotaPeriod(around: upload.createdAt, length: 86400)),
            recording: .sample(.created, of: upload),
            pulling: job
        )
    }

    /// Like `complete(_:as:replacing:under:recording:)`, without limits.
    package func complete(
        _ upload: Upload,
        as media: Media?,
        replacing replaced: UploadID? = nil
    ) async throws(UploadError) -> Bool {
        try await complete(
            upload,
            as: media,
            replacing: replaced,
            under: EffectiveLimits(policies: [:], period: QuotaPeriod(around: upload.createdAt, length: 86400)),
            recording: [.sample(.completed, of: upload)]
        )
    }

    /// Like `end(_:from:as:at:received:recording:)`, for an upload in any state that received nothing.
    package func end(_ id: UploadID, as state: Upload.State, at now: Date) async throws(UploadError) -> Bool {
        let upload = Upload(id: id, dialect: "tus", subject: nil, principal: "key_1", length: nil, createdAt: now)
        let kind: EventRecord.Kind = state == .expired ? .expired : .terminated
        let before = try await self.upload(id)?.state ?? .open
        return try await end(id, from: before, as: state, at: now, received: 0, recording: .sample(kind, of: upload))
    }
}

extension PullRecords {
    /// Like `claimPulls(limit:except:for:)`, for all users.
    package func claimPulls(limit: Int, for duration: TimeInterval) async throws(UploadError) -> [PullJob] {
        try await claimPulls(limit: limit, except: [], for: duration)
    }

    /// Like `nextPull(except:)`, for all users.
    package func nextPull() async throws(UploadError) -> TimeInterval? { try await nextPull(except: []) }
}

extension SpaceReservations {
    /// Like `setLength(of:to:updatedAt:under:)`, without limits.
    package func setLength(of id: UploadID, to length: Int64, updatedAt: Date) async throws(UploadError) -> Bool {
        let period = QuotaPeriod(around: updatedAt, length: 86400)
        return try await setLength(
            of: id,
            to: length,
            updatedAt: updatedAt,
            under: EffectiveLimits(policies: [:], period: period)
        )
    }
}

extension EventRecord {
    /// An event whose delivery is due at once.
    package static func sample(_ kind: Kind, of upload: Upload) -> EventRecord {
        EventRecord(
            id: "msg_" + UploadID.generate(at: upload.createdAt).text,
            kind: kind,
            upload: upload,
            request: nil,
            occurredAt: upload.updatedAt,
            delivery: Delivery(nextAttemptAt: upload.updatedAt)
        )
    }
}
