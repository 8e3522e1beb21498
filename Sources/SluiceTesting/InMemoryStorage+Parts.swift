package import Bytes
internal import Foundation
internal import Synchronization
internal import UploadCore
package import UploadModel

extension InMemoryStorage: PartStorage {
    package var partStorage: (any PartStorage)? { self }

    package func createForParts(_ blob: NewBlob) async throws(UploadError) {
        parts.withLock { $0[blob.id] = [:] }
    }

    package func storePart(
        _ part: NewPart,
        of id: UploadID,
        replacing replaced: String?,
        from source: any ByteSource,
        verifying verify: () async throws(UploadError) -> [UInt8]
    ) async throws(UploadError) -> String {
        var bytes: [UInt8] = []
        do throws(SourceFailure) {
            while Int64(bytes.count) < part.size ?? .max {
                let room = Int(min(65536, (part.size ?? .max) - Int64(bytes.count)))
                guard let piece = try await source.next(maximum: room) else { break }
                bytes += piece
            }
        } catch {
            throw UploadError(error)
        }
        if let size = part.size, size != Int64(bytes.count) {
            throw UploadError(partOf: size, received: Int64(bytes.count))
        }
        _ = try await verify()
        let location = UUID().uuidString
        let isThere = parts.withLock { parts in
            parts[id]?[location] = bytes
            return parts[id] != nil
        }
        guard isThere else { throw UploadError(.notFound, "There is no such blob, or its parts are joined.") }
        return location
    }

    package func removePart(_ number: Int, at location: String, of id: UploadID) async {
        parts.withLock { _ = $0[id]?.removeValue(forKey: location) }
    }

    package func join(_ records: [PartRecord], of id: UploadID) async throws(UploadError) {
        let stored = parts.withLock { $0[id] }
        guard let stored else {
            if blobs.withLock({ $0[id] != nil }) { return }
            throw UploadError(.notFound, "There is no such blob.")
        }
        var bytes: [UInt8] = []
        for record in records {
            guard let part = stored[record.location] else {
                throw UploadError(.storageFailure, "Part \(record.number) is missing.")
            }
            bytes += part
        }
        blobs.withLock { $0[id] = bytes }
        parts.withLock { $0[id] = nil }
    }

    package func isJoined(_ id: UploadID) async throws(UploadError) -> Bool {
        parts.withLock { $0[id] == nil } && blobs.withLock { $0[id] != nil }
    }
}

extension InMemoryStorage: WholePartStorage {
    package var wholePartStorage: (any WholePartStorage)? { self }

    package func storePart(
        _ part: NewPart,
        of id: UploadID,
        replacing replaced: String?,
        content: [UInt8],
        hashing hash: @escaping @Sendable ([UInt8]) -> Void,
        verifying verify: () async throws(UploadError) -> [UInt8]
    ) async throws(UploadError) -> String {
        hash(content)
        return try await storePart(
            part,
            of: id,
            replacing: replaced,
            from: ArraySource(content),
            verifying: verify
        )
    }
}
