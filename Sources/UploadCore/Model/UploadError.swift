/// What went wrong, in the words of the domain; a dialect turns it into its own status and form.
package struct UploadError: Error, Sendable {
    package enum Code: Sendable, Equatable {
        /// The request can not be understood.
        case invalidRequest
        /// No credential, or one that is unknown, expired or revoked.
        case unauthenticated
        /// The credential does not allow this; `scope` names what is missing.
        case forbidden(scope: String?)
        /// No such upload or media.
        case notFound
        /// It was there and is gone: expired or terminated.
        case gone
        /// The offset of the request is not the offset of the upload.
        case offsetMismatch(expected: Int64)
        /// The length that is declared is not the one that the upload has (`nil`: less than its bytes).
        case lengthConflict(length: Int64?)
        /// More bytes than the upload has room for.
        case lengthExceeded(length: Int64)
        /// The upload is larger than allowed.
        case tooLarge(limit: Int64)
        /// The grant does not allow this media type.
        case contentTypeRefused
        /// The bytes do not have the digest that the client declared.
        case checksumMismatch
        /// The upload does not have the digest that was announced for the whole of it; it is ended.
        case digestMismatch
        /// The client asks for a digest that is not offered.
        case unsupportedChecksum(offered: [String])
        /// The upload is complete (or ended) and takes no more bytes.
        case notOpen
        /// What the request expects of the object that is there does not hold.
        case conditionFailed
        /// The parts that are named are not those that are stored, or can not make a whole.
        case invalidParts(PartsProblem)
        /// A one-time grant was used before.
        case grantUsed
        /// An account has too little left.
        case quotaExceeded(QuotaRefusal)
        /// A hook of the app refused it, or stopped the upload.
        case rejected
        /// A newer request for the same upload took over.
        case interrupted
        /// The upload is in use, and its user did not let go in time.
        case busy
        /// No bytes came for too long.
        case timedOut
        /// The client went away.
        case disconnected
        /// The storage has no room.
        case storageFull
        /// The storage failed.
        case storageFailure
        /// All bytes are there, but making them a whole takes long and goes on.
        case finishing
        /// The server is stopping, or something that it needs is away; to be tried again.
        case unavailable
    }

    package let code: Code
    /// For the client: what to change; holds no secret and no path.
    package let message: String
    /// For the log only.
    package let cause: (any Error)?

    package init(_ code: Code, _ message: String, cause: (any Error)? = nil) {
        self.code = code
        self.message = message
        self.cause = cause
    }
}

extension UploadError {
    /// For whoever sends bytes to a final upload (see `Concatenation`).
    package static let finalUpload = UploadError(
        .notOpen,
        "A final upload is made of its parts and takes no other bytes; send them to a partial upload."
    )
}

extension UploadError {
    /// For whoever wants to delete media by an upload URL.
    package static let completeStays = UploadError(
        .forbidden(scope: nil),
        "The upload is complete, and its URL does not delete it any more; use DELETE /v1/media/{id} with an API key that has the "
            + "scope `delete`."
    )
    /// For whoever wants to delete media by a key that may not.
    package static let completeNeedsDelete = UploadError(
        .forbidden(scope: Scope.delete.rawValue),
        "The upload is complete; to delete its media the API key needs the scope `delete`."
    )
}

extension UploadError {
    /// For whoever sends bytes to an upload that takes parts, and does not say which part they are.
    package static let partsOnly = UploadError(
        .notOpen,
        "The bytes of this upload come in numbered parts, at the object endpoint only."
    )
}

extension UploadError {
    /// See `StateStore.setMetadata`.
    package static let metadataChanged = UploadError(
        .busy,
        "The metadata of the upload were changed at the same time; try again."
    )
}

extension UploadError {
    /// See `StateStore.complete`.
    package static let objectChanged = UploadError(
        .busy,
        "The object was written or removed at the same time; try again."
    )
    /// See `StateStore.insert`.
    package static let noBucket = UploadError(.notFound, "There is no such bucket; create it first.")
    /// See `ObjectRecords.putPart`.
    package static let takesNoParts = UploadError(
        .gone,
        "The upload takes no parts, or no more: it is complete or has ended, or its completion was begun."
    )
}

extension UploadError {
    /// For whoever names a part that has fewer than `minimum` bytes and is not the last one.
    package init(partTooSmall number: Int, size: Int64, minimum: Int64) {
        self.init(
            .invalidParts(.tooSmall(number: number, size: size, minimum: minimum)),
            "Part \(number) has \(size) bytes; all but the last one must have \(minimum)."
        )
    }
}

extension UploadError.Code {
    /// Whether an append that failed so leaves an upload that can be continued.
    package var leavesUploadUsable: Bool {
        switch self {
        case .interrupted, .busy, .timedOut, .disconnected, .storageFull, .storageFailure, .finishing,
            .unavailable:
            true
        case .invalidRequest, .unauthenticated, .forbidden, .notFound, .gone, .offsetMismatch, .lengthConflict,
            .lengthExceeded, .tooLarge, .contentTypeRefused, .checksumMismatch, .digestMismatch, .unsupportedChecksum,
            .notOpen, .conditionFailed, .invalidParts, .grantUsed, .quotaExceeded, .rejected:
            false
        }
    }

    /// The code as programs see it, in problem documents; it never changes.
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
