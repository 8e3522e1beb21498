internal import Bytes
internal import Synchronization
internal import UploadCore

/// Which places of a file of parts are taken, and who writes to them.
///
/// In memory only: after a restart nobody writes, and what is recorded says which places are taken.
final class PartPlaces: Sendable {
    /// A part on its way.
    struct Writer: Sendable {
        fileprivate let number: Int
        fileprivate let token: Int
        /// Bytes from the beginning of the file of parts; `nil` for a file of its own.
        let offset: Int64?
    }

    private struct Blob {
        /// Bytes of each place; `nil` while that is not decided.
        var unit: Int64?
        var isDeciding = false
        /// While that is not decided, the sizes that came, and the numbers of the first parts that had them.
        var sizes: [Int64: Int] = [:]
        /// Numbers whose places were given away.
        var taken: Set<Int> = []
        var writers: [Int: SourceInterrupter] = [:]
        var lastToken = 0
        /// The directory for parts in files of their own survives a power cut.
        var hasDurableDirectory = false
        /// Parts are being joined: no more may come.
        var isClosed = false
        var waiting: [CheckedContinuation<Bool, Never>] = []
    }

    private let blobs = Mutex<[UploadID: Blob]>([:])

    /// The size of places, decided once.
    ///
    /// - Parameters:
    ///   - id: The blob.
    ///   - decide: Called by one at a time, the others wait; `nil` leaves it undecided.
    /// - Returns: Bytes, or `nil`.
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

    /// Whether a part has the size of another one that came before, while the size of places is not decided.
    func isUsual(_ part: NewPart, of id: UploadID) -> Bool {
        blobs.withLock { blobs in
            let first = blobs[id]?.sizes[part.size]
            if first == nil { blobs[id]?.sizes[part.size] = part.number }
            return first.map { $0 != part.number } ?? false
        }
    }

    /// Takes the place of a part, or none if it does not fit there, or the place is not free.
    ///
    /// - Parameters:
    ///   - part: What comes.
    ///   - id: The blob.
    ///   - isRecorded: There is a part in the place that is recorded.
    ///   - interrupter: Of the source.
    /// - Returns: What `end` is to be told; `nil` when parts are being joined.
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
            if let unit = blob.unit, part.size <= unit, !isRecorded, !blob.taken.contains(part.number),
                let place = Self.place(of: part, unit: unit)
            {
                blob.taken.insert(part.number)
                offset = place
            }
            return Writer(number: part.number, token: blob.lastToken, offset: offset)
        }
    }

    /// Where a part begins in the file of parts; `nil` if no file can be so long, or writing there made one that the file system
    /// does not take.
    private static func place(of part: NewPart, unit: Int64) -> Int64? {
        let (offset, isTooFar) = Int64(part.number - 1).multipliedReportingOverflow(by: unit)
        guard !isTooFar, offset >= 0, !offset.addingReportingOverflow(part.size).overflow else { return nil }
        return offset <= farthestPlace ? offset : nil
    }

    /// 8 TiB: files of ext4 end at 16 TiB.
    private static let farthestPlace: Int64 = 8 << 40

    /// A part came, or failed.
    func end(_ writer: Writer, of id: UploadID, isStored: Bool) {
        wake(id) { blob in
            blob.writers[writer.token] = nil
            if !isStored, writer.offset != nil { blob.taken.remove(writer.number) }
        }
    }

    /// The part in this place is not needed.
    func release(_ number: Int, of id: UploadID) {
        blobs.withLock { _ = $0[id]?.taken.remove(number) }
    }

    func hasDurableDirectory(_ id: UploadID) -> Bool {
        blobs.withLock { $0[id]?.hasDurableDirectory ?? false }
    }

    func noteDurableDirectory(_ id: UploadID) {
        blobs.withLock { $0[id]?.hasDurableDirectory = true }
    }

    /// Ends all writers, and lets nobody in.
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

    /// Waits as long as `isSo`.
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

    /// Changes a blob that is known, and has all look again who wait.
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
