internal import Synchronization
package import UploadModel

extension InMemoryState {
    package func media(_ id: UploadID) async throws(UploadError) -> Media? {
        tables.withLock { $0.media[id] }
    }

    package func setDigests(of id: UploadID, to digests: DigestValues) async throws(UploadError) {
        tables.withLock { $0.media[id]?.digests = digests }
    }
}
