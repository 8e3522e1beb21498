/// Errors for uploads that are not, or no longer, in the required state.
extension UploadError {
    package static let noUpload = UploadError(.notFound, "There is no such upload.")
    package static let uploadEnded = UploadError(.gone, "The upload has expired or was terminated; create a new one.")
    package static let completedMeanwhile = UploadError(.notOpen, "The upload was completed meanwhile, and is kept.")
    package static let grantUsed = UploadError(
        .grantUsed,
        "This credential allows one upload and was already used; ask for a new one."
    )
    /// See `WritingRight`.
    package static let rightEnded = UploadError(
        .conditionFailed,
        "What these credentials were given for is complete, or was deleted; they store nothing else."
    )
    package static let aliasTaken = UploadError(
        .rejected,
        "The name that the app gave this upload already belongs to another upload."
    )
    package static let digestMismatch = UploadError(
        .digestMismatch,
        "The upload does not have the digest that was announced when it was created, and was removed; upload the file again."
    )
}
