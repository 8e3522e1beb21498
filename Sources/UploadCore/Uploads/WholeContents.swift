internal import Bytes
internal import Synchronization
internal import UploadModel

/// Counts the bytes of contents that are being gathered, so that many slow clients do not fill the memory.
final class WholeContents: Sendable {
    /// Largest content in bytes that is taken whole.
    let largest: Int64
    /// Most bytes of all such contents together; others are stored as they arrive.
    private let most: Int64
    private let taken = Mutex<Int64>(0)

    init(largest: Int64, most: Int64) {
        self.largest = largest
        self.most = most
    }

    /// Reserves memory for a content; `false` if it is too large or too many others have some.
    func take(_ bytes: Int64) -> Bool {
        bytes <= largest
            && taken.withLock { taken in
                guard taken + bytes <= most else { return false }
                taken += bytes
                return true
            }
    }

    func giveBack(_ bytes: Int64) { taken.withLock { $0 -= bytes } }
}

extension ByteSource {
    /// Pulls `size` bytes.
    ///
    /// - Returns: The bytes, and why there are fewer; without a reason, the source has no more.
    func gather(_ size: Int) async -> ([UInt8], SourceFailure?) {
        var bytes: [UInt8] = []
        do throws(SourceFailure) {
            while bytes.count < size, let piece = try await next(maximum: size - bytes.count) {
                // Often all of it.
                if !bytes.isEmpty {
                    bytes += piece
                } else {
                    bytes = piece
                    if piece.count < size { bytes.reserveCapacity(size) }
                }
            }
            return (bytes, nil)
        } catch {
            return (bytes, error)
        }
    }
}
