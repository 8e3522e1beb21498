package import Bytes

/// Receives what happens to uploads, for metrics and logs.
///
/// Called on any thread; must be quick and must not block.
package protocol UploadObserver: Sendable {
    func observe(_ event: UploadEvent)
}

package enum UploadEvent: Sendable {
    case created(Upload)
    /// Bytes were stored; `upload.offset` is the new offset.
    case appended(Upload, bytes: Int64)
    /// `nil` for a partial upload, which does not become media.
    case completed(Upload, Media?)
    case terminated(UploadID)
    case expired(UploadID)
    /// A newer request asked a writer to stop.
    case takenOver(UploadID)
    /// An append ended early; the bytes received are kept.
    case brokenOff(UploadID, SourceFailure, bytes: Int64)
    /// A sweep checked all blobs; those without a record were set aside, or left because there are too many.
    case swept(blobs: Int, setAside: Int, left: Int)
    /// A request did not get the upload, because another one uses it (`.busy`) or a newer one came (`.interrupted`).
    case turnedAway(UploadID, UploadError)
    /// A quota refused an upload, or more bytes of it.
    case refused(QuotaRefusal)
    /// Storage or state failed; the error is logged here only.
    case failed(UploadID?, UploadError)
}
