import Foundation
import SluiceTesting
import Synchronization
import UploadModel

@testable import PostgresState

/// Uploads and limits for tests of costs and concurrency.
enum Samples {
    static let start = Date(timeIntervalSince1970: 1_750_000_000)
    static let alice = Account(.subject, "alice")
    static let key = Account(.key, "key_1")

    /// An open upload of five bytes by alice.
    static func upload(_ seconds: TimeInterval = 0, object: String? = nil, takesParts: Bool = false) -> Upload {
        let created = start.addingTimeInterval(seconds)
        var upload = Upload(
            id: UploadID.generate(at: created),
            dialect: object == nil ? "tus" : "s3",
            subject: "alice",
            principal: "key_1",
            length: 5,
            createdAt: created,
            expiresAt: created.addingTimeInterval(60)
        )
        upload.issuer = "key_1"
        upload.reservedBytes = 5
        upload.key = object
        upload.bucket = object == nil ? nil : "bucket"
        upload.takesParts = takesParts
        return upload
    }

    /// The same upload with all its bytes.
    static func completed(_ upload: Upload) -> Upload {
        var done = upload
        done.state = .completed
        done.offset = 5
        done.reservedBytes = 0
        done.endedAt = start
        done.expiresAt = nil
        return done
    }

    /// Limits of alice's account only; `nil` is no limit.
    static func limits(storedBytes: Int64? = nil) -> EffectiveLimits {
        var policy = Policy()
        policy.storedBytes = storedBytes
        return EffectiveLimits(policies: [alice: policy], period: QuotaPeriod(around: start, length: 86400))
    }
}

extension PostgresState {
    func insert(_ upload: Upload, _ limits: EffectiveLimits = Samples.limits()) async throws(UploadError) {
        try await insert(upload, consuming: nil, under: limits, recording: .sample(.created, of: upload))
    }

    func insertComplete(
        _ upload: Upload,
        replacing replaced: UploadID? = nil,
        _ limits: EffectiveLimits = Samples.limits()
    ) async throws(UploadError) {
        let done = Samples.completed(upload)
        try await insertComplete(
            done,
            as: Media(of: done),
            replacing: replaced,
            consuming: nil,
            under: limits,
            recording: [.sample(.created, of: upload), .sample(.completed, of: done)]
        )
    }

    /// Leaves events without numbers and changes of accounts outside of their rows, as a process does that dies after a
    /// commit.
    func leaveBacklog() { isClearing.withLock { $0 = true } }
}
