internal import RESTKit
internal import UploadModel

extension UploadURLs {
    /// The credential of a stream opened by upload URL; `nil` if nothing revokes it.
    func holder(of upload: Upload) -> StreamWatch.Holder? {
        revokeWithKey ? .upload(issuer: upload.issuer, subject: upload.subject, createdAt: upload.createdAt) : nil
    }
}
