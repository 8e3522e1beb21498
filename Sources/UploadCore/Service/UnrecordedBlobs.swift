internal import Synchronization
internal import UploadModel

/// Blobs that this process is creating for uploads that are not recorded yet; a sweep ignores them.
final class UnrecordedBlobs: Sendable {
    private let contents = Mutex<Set<UploadID>>([])

    var ids: Set<UploadID> { contents.withLock { $0 } }

    func insert(_ id: UploadID) { contents.withLock { _ = $0.insert(id) } }

    func remove(_ id: UploadID) { contents.withLock { _ = $0.remove(id) } }
}
