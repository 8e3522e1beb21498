package import Bytes

/// Is told what happens to uploads, for metrics and logs.
///
/// Called on any thread; must be quick and must not block.
package protocol UploadObserver: Sendable {
    func observe(_ event: UploadEvent)
}

package enum UploadEvent: Sendable {
    case created(Upload)
    /// Bytes were stored; `upload.offset` is the new offset.
    case appended(Upload, bytes: Int64)
    /// A partial upload becomes no media.
    case completed(Upload, Media?)
    case terminated(UploadID)
    case expired(UploadID)
    /// A writer was asked to stop by a newer request.
    case takenOver(UploadID)
    /// An append ended early; what came was kept.
    case brokenOff(UploadID, SourceFailure, bytes: Int64)
    /// A sweep looked at all blobs: so many of them have no record and were set aside, or left because they are too many.
    case swept(blobs: Int, setAside: Int, left: Int)
    /// Storage or state failed; the error is logged here and nowhere else.
    case failed(UploadID?, UploadError)
}
