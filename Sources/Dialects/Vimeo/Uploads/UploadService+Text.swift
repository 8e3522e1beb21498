internal import Foundation
internal import UploadCore
internal import UploadModel

/// Uploads by their ids in records; text that is no id belongs to no upload.
extension UploadService {
    /// - Returns: The upload; `nil` if there is none.
    func recorded(_ id: String) async throws(UploadError) -> Upload? {
        guard let id = UploadID(id) else { return nil }
        do throws(UploadError) {
            return try await recorded(id)
        } catch  where error.code == .notFound {
            return nil
        }
    }

    /// Ends an upload, if it has not ended yet.
    func end(_ id: String) async throws(UploadError) {
        guard let id = UploadID(id) else { return }
        do throws(UploadError) {
            try await terminate(id)
        } catch  where error.code == .notFound || error.code == .gone {
            return
        }
    }
}
