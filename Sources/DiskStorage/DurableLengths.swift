internal import Synchronization
internal import UploadCore

/// Which blobs this process knows to be durable up to which length, so that asking again costs no sync.
///
/// Even for a file without dirty pages a sync can make the disk empty its cache. Sound because the lock of the data
/// directory keeps other processes from writing. Forgetting an entry is always safe.
final class DurableLengths: Sendable {
    private let lengths = Mutex<[UploadID: Int64]>([:])
    private let maximumCount: Int

    /// - Parameter maximumCount: Entries that are kept; the default takes about 5 MB.
    init(maximumCount: Int = 65_536) {
        self.maximumCount = maximumCount
    }

    /// Bytes; `nil` if they are not known.
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
