/// An error in terms of the domain; each dialect maps it to its own status and format.
package struct UploadError: Error, Sendable {
    package enum Code: Sendable, Equatable {
        /// The request cannot be understood.
        case invalidRequest
        /// The credential is missing, unknown, expired or revoked.
        case unauthenticated
        /// The credential does not allow this; `scope` is the missing scope.
        case forbidden(scope: String?)
        /// No such upload or media.
        case notFound
        /// It existed, but has expired or was terminated.
        case gone
        /// The request's offset differs from the upload's.
        case offsetMismatch(expected: Int64)
        /// The declared length differs from the upload's (`nil`: it is less than the bytes already stored).
        case lengthConflict(length: Int64?)
        /// More bytes than the upload has room for.
        case lengthExceeded(length: Int64)
        /// The upload exceeds a size limit.
        case tooLarge(limit: Int64)
        /// The grant does not allow this media type.
        case contentTypeRefused
        /// The bytes do not match the digest that the client declared.
        case checksumMismatch
        /// The whole upload does not match its announced digest, and has ended.
        case digestMismatch
        /// The client requests a digest that is not supported.
        case unsupportedChecksum(offered: [String])
        /// The upload is complete (or ended) and accepts no more bytes.
        case notOpen
        /// The request's condition on the current object does not hold.
        case conditionFailed
        /// The listed parts do not match the stored ones, or cannot be joined.
        case invalidParts(PartsProblem)
        /// The one-time grant was already used.
        case grantUsed
        /// The upload would exceed an account's quota.
        case quotaExceeded(QuotaRefusal)
        /// The client sends too much at once; the same request can succeed later.
        case tooManyRequests(RateRefusal)
        /// A hook of the app refused the request or stopped the upload.
        case rejected
        /// A newer request for the same upload took over.
        case interrupted
        /// The upload is in use, and its user did not release it in time.
        case busy
        /// No bytes arrived for too long.
        case timedOut
        /// The client went away.
        case disconnected
        /// The storage is full.
        case storageFull
        /// The storage failed.
        case storageFailure
        /// All bytes are stored, but assembling them takes long and continues.
        case finishing
        /// The server is stopping, or a dependency is unreachable; the client should try again.
        case unavailable
    }

    package let code: Code
    /// Tells the client what to change; contains no secret and no path.
    package let message: String
    /// For the log only.
    package let cause: (any Error)?
    /// Whether the client sent a credential, which is not valid; only with `.unauthenticated` (RFC 6750 §3.1).
    package private(set) var refusesCredential = false

    package init(_ code: Code, _ message: String, cause: (any Error)? = nil) {
        self.code = code
        self.message = message
        self.cause = cause
    }

    /// For a credential that is unknown, malformed, expired or revoked.
    package static func invalidCredential(_ message: String) -> UploadError {
        var error = UploadError(.unauthenticated, message)
        error.refusesCredential = true
        return error
    }
}

extension UploadError {
    /// For requests that send bytes to a final upload (see `Concatenation`).
    package static let finalUpload = UploadError(
        .notOpen,
        "A final upload is made of its parts and takes no other bytes; send them to a partial upload."
    )
}

extension UploadError {
    /// For requests that try to delete media by an upload URL.
    package static let completeStays = UploadError(
        .forbidden(scope: nil),
        "The upload is complete, and its URL no longer deletes it; use DELETE /v1/media/{id} with an API key that has the "
            + "scope `delete`."
    )
    /// For requests that try to delete media with a key that lacks the scope.
    package static let completeNeedsDelete = UploadError(
        .forbidden(scope: Scope.delete.rawValue),
        "The upload is complete; to delete its media the API key needs the scope `delete`."
    )
}

extension UploadError {
    /// For requests that send bytes to an upload in parts without a part number.
    package static let partsOnly = UploadError(
        .notOpen,
        "The bytes of this upload come in numbered parts, at the object endpoint only."
    )
}

extension UploadError {
    /// See `UploadRecords.setMetadata`.
    package static let metadataChanged = UploadError(
        .busy,
        "The metadata of the upload was changed at the same time; try again."
    )
}

extension UploadError {
    /// See `UploadRecords.complete`.
    package static let objectChanged = UploadError(
        .busy,
        "The object was written or removed at the same time; try again."
    )
    /// See `UploadRecords.insert`.
    package static let noBucket = UploadError(.notFound, "There is no such bucket; create it first.")
    /// See `ObjectRecords.putPart`.
    package static let takesNoParts = UploadError(
        .gone,
        "The upload accepts no parts: it is not for parts, is complete or being completed, or has ended."
    )
}

extension UploadError {
    /// For a listed part that is smaller than `minimum` and is not the last.
    package init(partTooSmall number: Int, size: Int64, minimum: Int64) {
        self.init(
            .invalidParts(.tooSmall(number: number, size: size, minimum: minimum)),
            "Part \(number) has \(size) bytes; all but the last one must have at least \(minimum)."
        )
    }

    /// The error for a part with fewer bytes than the announced `size`.
    package init(partOf size: Int64, received: Int64) {
        self.init(
            .lengthConflict(length: size),
            "The part has \(received) bytes and not \(size); send it again."
        )
    }
}

extension UploadError.Code {
    /// Whether an append that failed with this error leaves an upload that can be resumed.
    package var leavesUploadUsable: Bool {
        switch self {
        case .interrupted, .busy, .timedOut, .disconnected, .storageFull, .storageFailure, .finishing,
            .unavailable:
            true
        case .invalidRequest, .unauthenticated, .forbidden, .notFound, .gone, .offsetMismatch, .lengthConflict,
            .lengthExceeded, .tooLarge, .contentTypeRefused, .checksumMismatch, .digestMismatch, .unsupportedChecksum,
            .notOpen, .conditionFailed, .invalidParts, .grantUsed, .quotaExceeded, .tooManyRequests, .rejected:
            false
        }
    }

    /// The code for programs, as in problem documents; it never changes.
    package var name: String {
        switch self {
        case .invalidRequest: "invalid_request"
        case .unauthenticated: "unauthenticated"
        case .forbidden: "forbidden"
        case .notFound: "not_found"
        case .gone: "gone"
        case .offsetMismatch: "offset_mismatch"
        case .lengthConflict: "length_conflict"
        case .lengthExceeded: "length_exceeded"
        case .tooLarge: "content_too_large"
        case .contentTypeRefused: "content_type_refused"
        case .checksumMismatch: "checksum_mismatch"
        case .digestMismatch: "digest_mismatch"
        case .unsupportedChecksum: "unsupported_checksum"
        case .notOpen: "not_open"
        case .conditionFailed: "condition_failed"
        case .invalidParts: "invalid_parts"
        case .grantUsed: "grant_used"
        case .quotaExceeded: "quota_exceeded"
        case .tooManyRequests: "too_many_requests"
        case .rejected: "rejected"
        case .interrupted: "interrupted"
        case .busy: "busy"
        case .timedOut: "request_timeout"
        case .disconnected: "disconnected"
        case .storageFull: "storage_full"
        case .storageFailure: "storage_failure"
        case .finishing: "finishing"
        case .unavailable: "unavailable"
        }
    }
}
