package import Bytes
package import Digests
package import Foundation
internal import Synchronization
internal import SystemIO

#if canImport(Glibc)
internal import Glibc
internal import UploadCore
package import UploadModel
#endif

/// A blob storage in memory.
package final class InMemoryStorage: BlobStorage, WholeBlobStorage, SmallAppendStorage {
    let blobs = Mutex<[UploadID: [UInt8]]>([:])
    /// Stored parts by location, for blobs in parts.
    let parts = Mutex<[UploadID: [String: [UInt8]]]>([:])
    let orphans = Mutex<[UploadID: Date]>([:])
    let mark = Mutex<StoreMark?>(nil)

    package init() {}

    package var isDurableAtEndOnly: Bool { true }

    package var wholeStorage: (any WholeBlobStorage)? { self }

    package var smallAppendStorage: (any SmallAppendStorage)? { self }

    package func append(
        _ content: [UInt8],
        to id: UploadID,
        at offset: Int64,
        isLast: Bool
    ) async -> AppendReport {
        await append(
            to: id,
            at: offset,
            from: ArraySource(content),
            limit: Int64(content.count) + 1,
            of: nil,
            expecting: nil,
            confirming: nil
        )
    }

    package func create(_ blob: NewBlob) async throws(UploadError) { try await create(blob, with: []) }

    package func create(_ blob: NewBlob, with content: [UInt8]) async throws(UploadError) {
        let id = blob.id
        let isNew = blobs.withLock { blobs in
            defer { blobs[id] = blobs[id] ?? content }
            return blobs[id] == nil
        }
        if !isNew { throw UploadError(.storageFailure, "There is a blob with this id already.") }
    }

    package func durableLength(of id: UploadID) async throws(UploadError) -> Int64 { Int64(try blob(id).count) }

    package func currentLength(of id: UploadID) async throws(UploadError) -> Int64 { Int64(try blob(id).count) }

    package func currentLengths(of ids: [UploadID]) async throws(UploadError) -> [UploadID: Int64] {
        var lengths: [UploadID: Int64] = [:]
        for id in ids { lengths[id] = (try? blob(id)).map { Int64($0.count) } }
        return lengths
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
            let length = Int64(try blob(id).count)
            guard length == offset else {
                throw UploadError(.offsetMismatch(expected: length), "The blob has \(length) bytes.")
            }
        } catch {
            return AppendReport(stored: 0, end: .failed(error))
        }
        var gathered: [UInt8] = []
        var stored: Int64 = 0
        var end = AppendReport.End.limitReached
        pulling: while stored + Int64(gathered.count) < limit {
            do throws(SourceFailure) {
                let room = limit - stored - Int64(gathered.count)
                guard let piece = try await source.next(maximum: Int(min(room, 65536))) else {
                    end = .endOfSource
                    break pulling
                }
                if digest == nil {
                    blobs.withLock { $0[id]?.append(contentsOf: piece) }
                    stored += Int64(piece.count)
                } else {
                    gathered += piece
                }
            } catch {
                return AppendReport(stored: stored, end: .sourceFailed(error))
            }
        }
        if let expectation = digest {
            if case .atEnd = expectation, case .limitReached = end {
                do throws(SourceFailure) {
                    if try await source.next(maximum: 1) != nil { return AppendReport(stored: 0, end: .limitReached) }
                } catch {
                    return AppendReport(stored: 0, end: .sourceFailed(error))
                }
            }
            let digest: ExpectedDigest
            do throws(UploadError) {
                digest = try expectation.value()
            } catch {
                return AppendReport(stored: 0, end: .failed(error))
            }
            guard Digest.hash(gathered, digest.algorithm) == digest.value else {
                let error = UploadError(.checksumMismatch, "The bytes do not have the announced checksum.")
                return AppendReport(stored: 0, end: .failed(error))
            }
            blobs.withLock { $0[id]?.append(contentsOf: gathered) }
            stored = Int64(gathered.count)
        }
        return AppendReport(stored: stored, end: end)
    }

    package func copy(
        _ range: Range<Int64>,
        of source: UploadID,
        to id: UploadID,
        at offset: Int64
    ) async throws(UploadError) {
        let bytes = try blob(source)[Int(range.lowerBound)..<Int(range.upperBound)]
        let length = Int64(try blob(id).count)
        guard length == offset else {
            throw UploadError(.offsetMismatch(expected: length), "The blob has \(length) bytes.")
        }
        blobs.withLock { $0[id]?.append(contentsOf: bytes) }
    }

    package func digests(
        of id: UploadID,
        by algorithms: Set<DigestAlgorithm>
    ) async throws(UploadError) -> DigestValues {
        let bytes = try blob(id)
        return Dictionary(uniqueKeysWithValues: algorithms.map { ($0, Digest.hash(bytes, $0)) })
    }

    package func empty(_ id: UploadID) async throws(UploadError) {
        _ = try blob(id)
        blobs.withLock { $0[id] = [] }
    }

    package func synchronize(_ id: UploadID) async throws(UploadError) {
        _ = try blob(id)
    }

    package func head(of id: UploadID, length: Int) async throws(UploadError) -> [UInt8] {
        Array(try blob(id).prefix(length))
    }

    package func open(_ id: UploadID) async throws(UploadError) -> StoredBlob {
        let bytes = try blob(id)
        // An unlinked file, because readers need a descriptor.
        var path = Array((FileManager.default.temporaryDirectory.path + "/sluice-blob-XXXXXX").utf8CString)
        let file = OpenFile(owning: mkstemp(&path))
        unlink(path)
        guard bytes.isEmpty || pwrite(file.descriptor, bytes, bytes.count, 0) == bytes.count else {
            throw UploadError(.storageFailure, "No temporary file for the blob.")
        }
        return StoredBlob(content: .file(file), size: Int64(bytes.count))
    }

    package func bytes(of id: UploadID, _ range: Range<Int64>) async throws(UploadError) -> any ByteSource {
        ArraySource(Array(try blob(id)[Int(range.lowerBound)..<Int(range.upperBound)]))
    }

    package func recordedDigests(of id: UploadID) async throws(UploadError) -> DigestValues { [:] }

    package func removeLeftovers(from date: Date, ofUnknownFrom unknown: Date) async throws(UploadError) -> Int { 0 }

    package func remove(_ id: UploadID) async throws(UploadError) {
        blobs.withLock { $0[id] = nil }
        parts.withLock { $0[id] = nil }
    }

    package func list(after: UploadID?, limit: Int) async throws(UploadError) -> [UploadID] {
        let withParts = parts.withLock { Set($0.keys) }
        return blobs.withLock { blobs in
            let later = withParts.union(blobs.keys).filter { id in after.map { id.text > $0.text } ?? true }
            return Array(later.sorted { $0.text < $1.text }.prefix(limit))
        }
    }

    package func check() async throws(UploadError) {}

    private func blob(_ id: UploadID) throws(UploadError) -> [UInt8] {
        guard let blob = blobs.withLock({ $0[id] }) else {
            throw UploadError(.notFound, "There is no such blob.")
        }
        return blob
    }
}
