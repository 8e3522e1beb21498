internal import Synchronization
internal import UploadCore

/// Blobs with bytes at their end that must not count, because a call that was to write, cut or synchronise them has failed.
///
/// A failed sync does not tell which bytes are on the disk, and the next sync succeeds all the same (fsync(2), "EIO").
/// An entry stays until the file is cut, and is never dropped to make room.
final class DistrustedTails: Sendable {
    private let tails = Mutex<[UploadID: Int64?]>([:])

    /// - Parameters:
    ///   - id: The blob.
    ///   - length: Bytes that count; `nil` for what its `DurableRecord` says.
    func note(_ id: UploadID, countingOnly length: Int64?) {
        tails.withLock { tails in
            switch (tails[id], length) {
            case (nil, _): tails[id] = .some(length)
            case (.some(let before?), let length?): tails[id] = min(before, length)
            // What the record says is the least.
            default: tails[id] = .some(nil)
            }
        }
    }

    /// The entry, in which `nil` stands for what the record says; `nil` if all bytes count.
    func tail(of id: UploadID) -> Int64?? {
        tails.withLock { $0[id] }
    }

    func contains(_ id: UploadID) -> Bool { tails.withLock { $0[id] != nil } }

    func forget(_ id: UploadID) {
        tails.withLock { _ = $0.removeValue(forKey: id) }
    }
}
