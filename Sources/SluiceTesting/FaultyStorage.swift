package import Bytes
package import Digests
package import Foundation
internal import Synchronization
package import UploadModel

/// A blob storage that fails where a test wants it to, and otherwise forwards to `base`.
package final class FaultyStorage: BlobStorage {
    package enum Operation: Hashable, Sendable {
        case create, createWhole, durableLength, currentLength, currentLengths, append, copy, empty, digests,
            synchronize, head, open, remove, list
        case removeLeftovers, setAside, check, createForParts, storePart, storeWholePart, join, isJoined
    }

    package let plan: FaultPlan<Operation>
    let base: any BlobStorage
    private let appendFault = Mutex<(bytes: Int64, error: UploadError)?>(nil)

    package init(_ base: any BlobStorage, fuse: Fuse? = nil) {
        self.base = base
        plan = FaultPlan(fuse: fuse)
    }

    /// Makes the next append store `bytes` bytes and then fail.
    package func failAppend(afterBytes bytes: Int64, with error: UploadError) {
        appendFault.withLock { $0 = (bytes, error) }
    }

    func takeAppendFault() -> (bytes: Int64, error: UploadError)? {
        appendFault.withLock { fault in
            defer { fault = nil }
            return fault
        }
    }

    package var isDurableAtEndOnly: Bool { base.isDurableAtEndOnly }

    package func create(_ blob: NewBlob) async throws(UploadError) {
        try await plan.step(.create)
        try await base.create(blob)
    }

    package func durableLength(of id: UploadID) async throws(UploadError) -> Int64 {
        try await plan.step(.durableLength)
        return try await base.durableLength(of: id)
    }

    package func currentLength(of id: UploadID) async throws(UploadError) -> Int64 {
        try await plan.step(.currentLength)
        return try await base.currentLength(of: id)
    }

    package func currentLengths(of ids: [UploadID]) async throws(UploadError) -> [UploadID: Int64] {
        try await plan.step(.currentLengths)
        return try await base.currentLengths(of: ids)
    }

    package func append(
        to id: UploadID,
        at offset: Int64,
        from source: any ByteSource,
        limit: Int64,
        of total: Int64?,
        expecting digest: DigestExpectation?,
        confirming: ((Int64) async -> Void)?
    ) async -> AppendReport {
        do throws(UploadError) {
            try await plan.step(.append)
        } catch {
            return AppendReport(stored: 0, end: .failed(error))
        }
        guard let fault = takeAppendFault(), fault.bytes < limit else {
            return await base.append(
                to: id,
                at: offset,
                from: source,
                limit: limit,
                of: total,
                expecting: digest,
                confirming: confirming
            )
        }
        let report = await base.append(
            to: id,
            at: offset,
            from: source,
            limit: fault.bytes,
            of: nil,
            expecting: digest,
            confirming: nil
        )
        guard case .limitReached = report.end else { return report }
        return AppendReport(stored: report.stored, end: .failed(fault.error))
    }

    package func copy(
        _ range: Range<Int64>,
        of source: UploadID,
        to id: UploadID,
        at offset: Int64
    ) async throws(UploadError) {
        try await plan.step(.copy)
        try await base.copy(range, of: source, to: id, at: offset)
    }

    package func digests(
        of id: UploadID,
        by algorithms: Set<DigestAlgorithm>
    ) async throws(UploadError) -> DigestValues {
        try await plan.step(.digests)
        return try await base.digests(of: id, by: algorithms)
    }

    package func empty(_ id: UploadID) async throws(UploadError) {
        try await plan.step(.empty)
        try await base.empty(id)
    }

    package func synchronize(_ id: UploadID) async throws(UploadError) {
        try await plan.step(.synchronize)
        try await base.synchronize(id)
    }

    package func head(of id: UploadID, length: Int) async throws(UploadError) -> [UInt8] {
        try await plan.step(.head)
        return try await base.head(of: id, length: length)
    }

    package func open(_ id: UploadID) async throws(UploadError) -> StoredBlob {
        try await plan.step(.open)
        return try await base.open(id)
    }

    package func recordedDigests(of id: UploadID) async throws(UploadError) -> DigestValues {
        try await base.recordedDigests(of: id)
    }

    package func removeLeftovers(from date: Date, ofUnknownFrom unknown: Date) async throws(UploadError) -> Int {
        try await plan.step(.removeLeftovers)
        return try await base.removeLeftovers(from: date, ofUnknownFrom: unknown)
    }

    package var keepsOrphans: Bool { base.keepsOrphans }

    package func setAside(_ orphan: UploadID, at now: Date) async throws(UploadError) {
        try await plan.step(.setAside)
        try await base.setAside(orphan, at: now)
    }

    package func removeOrphans(setAsideBefore date: Date) async throws(UploadError) -> Int {
        try await base.removeOrphans(setAsideBefore: date)
    }

    package func bytes(of id: UploadID, _ range: Range<Int64>) async throws(UploadError) -> any ByteSource {
        try await plan.step(.open)
        return try await base.bytes(of: id, range)
    }

    package func remove(_ id: UploadID) async throws(UploadError) {
        try await plan.step(.remove)
        try await base.remove(id)
    }

    package func list(after: UploadID?, limit: Int) async throws(UploadError) -> [UploadID] {
        try await plan.step(.list)
        return try await base.list(after: after, limit: limit)
    }

    package func check() async throws(UploadError) {
        try await plan.step(.check)
        try await base.check()
    }
}
