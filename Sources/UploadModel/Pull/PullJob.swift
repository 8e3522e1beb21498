package import Foundation

/// A job in which the gateway fetches the bytes of an upload from a URL, with its progress.
///
/// It is a row of the state, so it continues after the process ends for any reason.
package struct PullJob: Sendable, Equatable {
    package let uploadID: UploadID
    /// Whose the upload is; not stored here, but read with its record.
    package let subject: String?
    /// The URL of the bytes, without user, password and query; for people.
    ///
    /// Stored only in the sealed request; `PullService.job(of:)` fills it in while the job is running.
    package var url: String
    /// The whole request, which may contain secrets: see `PullSealer`; empty once the job is over.
    package var sealed: String
    /// Allowed media types, as in `Grant.contentTypes`.
    package var contentTypes: [String]
    /// The version to which the stored bytes belong: a strong entity tag or a date, as in If-Range (RFC 9110 §13.1.5);
    /// `nil` if the fetch cannot be resumed.
    package var validator: String?
    /// Size of the content in bytes, as the origin declared it.
    package var total: Int64?
    /// Number of requests so far.
    package var attempts: Int
    /// Failures in a row since the upload last exceeded its greatest length so far.
    package var failures: Int
    /// The greatest number of bytes stored at any time.
    package var furthest: Int64
    /// When the next attempt is due or a claim ends; `nil` once the job is over.
    package var nextAttemptAt: Date?
    /// Given up: the upload is terminated or about to be.
    package var isFailed: Bool
    package var lastError: Reason?
    /// Number of times the job was claimed; a holder of a lower number has lost it.
    package var claim: Int64 = 0
    /// Whether a process is working on it, or died while doing so.
    package var isClaimed = false

    /// What happens to a job after it is recorded; decided by the holder of its claim.
    package enum Next: Sendable, Equatable {
        /// The work continues under the same claim.
        case working
        /// Releases the claim; the next attempt is due in this many seconds.
        case due(after: TimeInterval)
        /// The job is over.
        case never
    }

    /// What went wrong, as shown to the app.
    package struct Reason: Sendable, Equatable {
        /// A stable code for programs.
        package var code: String
        /// A message for people; contains no secret and nothing about the gateway's network.
        package var message: String

        package init(code: String, message: String) {
            self.code = code
            self.message = message
        }
    }

    package init(
        uploadID: UploadID,
        subject: String?,
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
        self.subject = subject
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

/// A client's request for the gateway to fetch an upload.
package struct NewPull: Sendable, Equatable {
    /// See `PullJob`.
    package var url: String
    /// See `PullJob`.
    package var sealed: String
    /// The same, for an upload whose metadata the app has decided; see `PullRequest.keepsMetadata`.
    package var sealedWhenDecided: String
    /// See `PullJob`.
    package var contentTypes: [String]

    package init(url: String, sealed: String, sealedWhenDecided: String? = nil, contentTypes: [String] = []) {
        self.url = url
        self.sealed = sealed
        self.sealedWhenDecided = sealedWhenDecided ?? sealed
        self.contentTypes = contentTypes
    }

    /// Creates the job of `upload`, due at once.
    ///
    /// - Parameters:
    ///   - upload: As it is recorded.
    ///   - isDecided: Whether the app has decided its metadata.
    /// - Returns: The job.
    package func job(for upload: Upload, isDecided: Bool = false) -> PullJob {
        PullJob(
            uploadID: upload.id,
            subject: upload.subject,
            url: url,
            sealed: isDecided ? sealedWhenDecided : sealed,
            contentTypes: contentTypes,
            nextAttemptAt: upload.createdAt
        )
    }
}
