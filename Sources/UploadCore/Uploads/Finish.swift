internal import UploadModel

/// How a request completes an upload.
package enum Finish: Sendable, Equatable {
    /// With the last byte of the declared length (tus): clients treat a full upload as complete.
    case whenFull
    /// By an explicit flag (draft-ietf-httpbis-resumable-upload): if `isLast`, the request's last byte is the upload's
    /// last.
    ///
    /// An upload that was created to complete when full still does.
    case explicit(isLast: Bool)
}
