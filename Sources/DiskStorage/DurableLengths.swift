internal import Synchronization
internal import UploadCore

/// Which blobs this process knows to be durable up to which length, so that asking again costs no `fdatasync`.
///
/// Even for a file without dirty pages a sync can make the disk empty its cache. Sound because the lock of the data
/// directory keeps other processes from writing. Forgetting an entry is always safe.
final class DurableLengths: Sendable {
    private let lengths = Mutex<[UploadID: Int64]>([:])
    /// About 5 MB.
    private static let maximumCount = 65_536

    func covers(_ id: UploadID, length: Int64) -> Bool {
        lengths.withLock { $0[id] == length }
    }

    func note(_ id: UploadID, length: Int64) {
        lengths.withLock { lengths in
            if lengths.count >= Self.maximumCount { lengths.removeAll(keepingCapacity: true) }
            lengths[id] = length
        }
    }

    func forget(_ id: UploadID) {
        lengths.withLock { $0[id] = nil }
    }
}
