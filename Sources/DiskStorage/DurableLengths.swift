internal import Synchronization
internal import UploadModel

/// The lengths up to which blobs are known to be durable, which saves syncs.
///
/// Even without dirty pages a sync can make the disk flush its cache. This is safe because the lock of the data
/// directory keeps other processes from writing. Dropping an entry is always safe.
final class DurableLengths: Sendable {
    private let lengths = Mutex<[UploadID: Int64]>([:])
    private let maximumCount: Int

    /// - Parameter maximumCount: Maximum number of entries; the default takes about 5 MB.
    init(maximumCount: Int = 65_536) {
        self.maximumCount = maximumCount
    }

    /// In bytes; `nil` if unknown.
    func length(of id: UploadID) -> Int64? {
        lengths.withLock { $0[id] }
    }

    func covers(_ id: UploadID, length: Int64) -> Bool {
        self.length(of: id) == length
    }

    func note(_ id: UploadID, length: Int64) {
        lengths.withLock { lengths in
            if lengths.count >= maximumCount { lengths.removeAll(keepingCapacity: true) }
            lengths[id] = length
        }
    }

    func forget(_ id: UploadID) {
        lengths.withLock { $0[id] = nil }
    }
}
