package import Foundation

/// That the gateway itself fetches the bytes of an upload from a URL, and how far it came with it.
///
/// A row of the state, so that it goes on after the process ends in whatever way.
package struct PullJob: Sendable, Equatable {
    package let uploadID: UploadID
    /// Where the bytes come from, without user, password and query; for people.
    ///
    /// It is in the sealed request only, from which `PullService.job(of:)` takes it while the job goes on.
    package var url: String
    /// The whole request, which may hold secrets: see `PullSealer`; empty once the job is over.
    package var sealed: String
    /// Allowed media types, as in `Grant.contentTypes`.
    package var contentTypes: [String]
    /// What the bytes that are stored belong to: a strong entity tag or a date, as in If-Range (RFC 9110 §13.1.5); `nil` if
    /// they can not be continued.
    package var validator: String?
    /// Bytes of that, as the origin told.
    package var total: Int64?
    /// Requests so far.
    package var attempts: Int
    /// Failures in a row, without the upload having become longer than ever before.
    package var failures: Int
    /// The most bytes that were stored at any time.
    package var furthest: Int64
    /// When there is something to do, or a claim ends; `nil` once the job is over.
    package var nextAttemptAt: Date?
    /// Given up: the upload is terminated, or about to be.
    package var isFailed: Bool
    package var lastError: Reason?
    /// How often the job was taken; who has an older number has lost it.
    package var claim: Int64 = 0
    /// Somebody works on it, or has died at it.
    package var isClaimed = false

    /// What is to be done with a job once it is recorded; only who has claimed it decides that.
    package enum Next: Sendable, Equatable {
        /// The work on it goes on, and so does the claim.
        case working
        /// It is let go, and due in so many seconds.
        case due(after: TimeInterval)
        /// It is over.
        case never
    }

    /// What went wrong, for the app.
    package struct Reason: Sendable, Equatable {
        /// Stable: for programs.
        package var code: String
        /// For people; holds no secret, and nothing of the network that the gateway is in.
        package var message: String

        package init(code: String, message: String) {
            self.code = code
            self.message = message
        }
    }

    package init(
        uploadID: UploadID,
        url: String,
        sealed: String,
        contentTypes: [String] = [],
        validator: String? = nil,
        total: Int64? = nil,
        attempts: Int = 0,
        failures: Int = 0,
        furthest: Int64 = 0,
        nextAttemptAt: Date?,
        isFailed: Bool = false,
        lastError: Reason? = nil
    ) {
        self.uploadID = uploadID
        self.url = url
        self.sealed = sealed
        self.contentTypes = contentTypes
        self.validator = validator
        self.total = total
        self.attempts = attempts
        self.failures = failures
        self.furthest = furthest
        self.nextAttemptAt = nextAttemptAt
        self.isFailed = isFailed
        self.lastError = lastError
    }
}

/// What a client asks for with an upload that the gateway is to fetch.
package struct NewPull: Sendable, Equatable {
    /// See `PullJob`.
    package var url: String
    /// See `PullJob`.
    package var sealed: String
    /// See `PullJob`.
    package var contentTypes: [String]

    package init(url: String, sealed: String, contentTypes: [String] = []) {
        self.url = url
        self.sealed = sealed
        self.contentTypes = contentTypes
    }

    /// The job that begins with `upload`, at once.
    package func job(for upload: Upload) -> PullJob {
        PullJob(
            uploadID: upload.id,
            url: url,
            sealed: sealed,
            contentTypes: contentTypes,
            nextAttemptAt: upload.createdAt
        )
    }
}
