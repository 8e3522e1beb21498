internal import Synchronization
internal import UploadModel

/// Blobs with bytes at the end that must not count, because a write, truncation or sync of them has failed.
///
/// A failed sync does not say which bytes are on the disk, and the next sync succeeds anyway (fsync(2), "EIO"). An
/// entry stays until the file is truncated; it is never dropped to save memory.
final class UntrustedTails: Sendable {
    private let tails = Mutex<[UploadID: Int64?]>([:])

    /// - Parameters:
    ///   - id: The blob.
    ///   - length: Bytes that count; `nil` means the length in the `DurableRecord`.
    func note(_ id: UploadID, countingOnly length: Int64?) {
        tails.withLock { tails in
            switch (tails[id], length) {
            case (nil, _): tails[id] = .some(length)
            case (.some(let before?), let length?): tails[id] = min(before, length)
            // The length in the record is the smallest.
            default: tails[id] = .some(nil)
            }
        }
    }

    /// The entry, where the inner `nil` means the length in the record; `nil` if all bytes count.
    func tail(of id: UploadID) -> Int64?? {
        tails.withLock { $0[id] }
    }

    func contains(_ id: UploadID) -> Bool { tails.withLock { $0[id] != nil } }

    func forget(_ id: UploadID) {
        tails.withLock { _ = $0.removeValue(forKey: id) }
    }
}
