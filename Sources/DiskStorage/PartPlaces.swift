internal import Bytes
internal import Synchronization
internal import UploadModel

/// The places in a file of parts that are taken, and who is writing to them.
///
/// In memory only: after a restart nothing is being written, and the records say which places are taken.
final class PartPlaces: Sendable {
    /// A part that is being written.
    struct Writer: Sendable {
        fileprivate let number: Int
        fileprivate let token: Int
        /// Offset in the file of parts in bytes; `nil` for a file of its own.
        let offset: Int64?
    }

    private struct Blob {
        /// Size of each place in bytes; `nil` while it is not decided.
        var unit: Int64?
        var isDeciding = false
        /// Until then, the sizes of parts so far, each with the number of its first part.
        var sizes: [Int64: Int] = [:]
        /// Part numbers whose places are taken.
        var taken: Set<Int> = []
        var writers: [Int: SourceInterrupter] = [:]
        var lastToken = 0
        /// Whether the directory for parts in files of their own survives a power cut.
        var hasDurableDirectory = false
        /// Whether parts are being joined: no more are accepted.
        var isClosed = false
        var waiting: [CheckedContinuation<Bool, Never>] = []
    }

    private let blobs = Mutex<[UploadID: Blob]>([:])

    /// The size of places; decided once.
    ///
    /// - Parameters:
    ///   - id: The blob.
    ///   - decide: Called by one task at a time while others wait; `nil` leaves it undecided.
    /// - Returns: In bytes, or `nil`.
    /// - Throws: What `decide` throws.
    func unit(
        of id: UploadID,
        _ decide: () async throws(UploadError) -> Int64?
    ) async throws(UploadError) -> Int64? {
        while true {
            let (unit, isMine) = blobs.withLock { blobs -> (Int64?, Bool) in
                if let unit = blobs[id]?.unit { return (unit, false) }
                if blobs[id]?.isDeciding == true { return (nil, false) }
                blobs[id, default: Blob()].isDeciding = true
                return (nil, true)
            }
            if let unit { return unit }
            guard isMine else {
                await wait(for: id) { $0.isDeciding }
                continue
            }
            defer { wake(id) { $0.isDeciding = false } }
            let decided = try await decide()
            blobs.withLock { blobs in
                blobs[id]?.unit = decided
                if decided != nil { blobs[id]?.sizes = [:] }
            }
            return decided
        }
    }

    /// Whether an earlier part had the same size, while the size of places is not decided.
    func hasRepeatedSize(_ part: NewPart, of id: UploadID) -> Bool {
        guard let size = part.size else { return false }
        return blobs.withLock { blobs in
            let first = blobs[id]?.sizes[size]
            if first == nil { blobs[id]?.sizes[size] = part.number }
            return first.map { $0 != part.number } ?? false
        }
    }

    /// Reserves the place of a part; none if the part does not fit, is of unknown size, or the place is taken.
    ///
    /// - Parameters:
    ///   - part: The new part.
    ///   - id: The blob.
    ///   - isRecorded: Whether a recorded part is in the place.
    ///   - interrupter: Interrupts the source of the part.
    /// - Returns: The writer to pass to `end`; `nil` if parts are being joined.
    func begin(
        _ part: NewPart,
        of id: UploadID,
        isRecorded: Bool,
        interrupter: SourceInterrupter
    ) -> Writer? {
        blobs.withLock { blobs in
            var blob = blobs[id] ?? Blob()
            defer { blobs[id] = blob }
            guard !blob.isClosed else { return nil }
            blob.lastToken += 1
            blob.writers[blob.lastToken] = interrupter
            var offset: Int64?
            if let unit = blob.unit, let size = part.size, size <= unit, !isRecorded,
                !blob.taken.contains(part.number), let place = Self.place(of: part.number, size, unit: unit)
            {
                blob.taken.insert(part.number)
                offset = place
            }
            return Writer(number: part.number, token: blob.lastToken, offset: offset)
        }
    }

    /// The offset of a part in the file of parts; `nil` if a file cannot be that long, or the file system would not
    /// support the resulting file.
    private static func place(of number: Int, _ size: Int64, unit: Int64) -> Int64? {
        let (offset, isTooFar) = Int64(number - 1).multipliedReportingOverflow(by: unit)
        guard !isTooFar, offset >= 0, !offset.addingReportingOverflow(size).overflow else { return nil }
        return offset <= maximumOffset ? offset : nil
    }

    /// 8 TiB: ext4 files can have 16 TiB.
    private static let maximumOffset: Int64 = 8 << 40

    /// The part was stored or has failed.
    func end(_ writer: Writer, of id: UploadID, isStored: Bool) {
        wake(id) { blob in
            blob.writers[writer.token] = nil
            if !isStored, writer.offset != nil { blob.taken.remove(writer.number) }
        }
    }

    /// The part in this place is not needed any more.
    func release(_ number: Int, of id: UploadID) {
        blobs.withLock { _ = $0[id]?.taken.remove(number) }
    }

    func hasDurableDirectory(_ id: UploadID) -> Bool {
        blobs.withLock { $0[id]?.hasDurableDirectory ?? false }
    }

    func noteDurableDirectory(_ id: UploadID) {
        blobs.withLock { $0[id]?.hasDurableDirectory = true }
    }

    /// Interrupts all writers and accepts no new ones.
    func close(_ id: UploadID) async {
        let writers = blobs.withLock { blobs in
            blobs[id, default: Blob()].isClosed = true
            return blobs[id]?.writers.values.map(\.self) ?? []
        }
        for writer in writers { writer.interrupt() }
        await wait(for: id) { !$0.writers.isEmpty }
    }

    func reopen(_ id: UploadID) {
        blobs.withLock { $0[id]?.isClosed = false }
    }

    func forget(_ id: UploadID) {
        let blob = blobs.withLock { $0.removeValue(forKey: id) }
        for writer in blob?.writers.values.map(\.self) ?? [] { writer.interrupt() }
        for continuation in blob?.waiting ?? [] { continuation.resume(returning: false) }
    }

    /// Waits while `isSo` is true.
    private func wait(for id: UploadID, while isSo: @Sendable (Blob) -> Bool) async {
        var isOver = false
        while !isOver {
            isOver = await withCheckedContinuation { continuation in
                let isOver = blobs.withLock { blobs in
                    guard let blob = blobs[id], isSo(blob) else { return true }
                    blobs[id]?.waiting.append(continuation)
                    return false
                }
                if isOver { continuation.resume(returning: true) }
            }
        }
    }

    /// Changes a known blob and lets all waiting tasks check again.
    private func wake(_ id: UploadID, _ change: (inout Blob) -> Void) {
        let waiting = blobs.withLock { blobs -> [CheckedContinuation<Bool, Never>] in
            guard var blob = blobs[id] else { return [] }
            change(&blob)
            let waiting = blob.waiting
            blob.waiting = []
            blobs[id] = blob
            return waiting
        }
        for continuation in waiting { continuation.resume(returning: false) }
    }
}
