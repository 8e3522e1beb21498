/// Records of completed uploads.
package protocol MediaRecords: Sendable {
    func media(_ id: UploadID) async throws(UploadError) -> Media?

    /// Stores digests of media; does nothing if the media no longer exists.
    func setDigests(of id: UploadID, to digests: DigestValues) async throws(UploadError)
}
