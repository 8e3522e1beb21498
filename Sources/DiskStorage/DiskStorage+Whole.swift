internal import Bytes
internal import SystemIO
package import UploadModel

/// Small blobs that are stored in one step.
extension DiskStorage: WholeBlobStorage {
    package var wholeStorage: (any WholeBlobStorage)? { self }

    package func create(_ blob: NewBlob, with content: [UInt8]) async throws(UploadError) {
        let id = blob.id
        try await onPool { storage, io throws(SystemError) in
            let path = storage.directory.blobPath(id)
            let file = try storage.newFile(path, of: id, io)
            do throws(SystemError) {
                if let failure = io.write(content, to: file, at: 0).failure { throw failure }
                // The attribute can come to the disk before the bytes, but the size of a new file cannot, and only bytes within both
                // count.
                let isDurable = storage.durability != .none
                let record = DurableRecord(length: isDurable ? Int64(content.count) : 0, boot: storage.boot)
                try io.setDurableRecord(record, of: file)
                guard isDurable else { return }
                try io.synchronizeAll(of: file)
                try storage.directorySyncs.synchronize(storage.shardPath(of: id), io)
            } catch {
                try? io.remove(path)
                throw error
            }
        }
    }
}

/// Small parts that are hashed and stored in one step: one change of threads, one write.
extension DiskStorage: WholePartStorage {
    package var wholePartStorage: (any WholePartStorage)? { self }

    package func storePart(
        _ part: NewPart,
        of id: UploadID,
        replacing replaced: String?,
        content: [UInt8],
        hashing hash: @escaping @Sendable ([UInt8]) -> Void,
        verifying verify: () async throws(UploadError) -> [UInt8]
    ) async throws(UploadError) -> String {
        // All bytes have arrived, so there is nothing to interrupt.
        try await storePart(part, of: id, replacing: replaced, interrupter: SourceInterrupter { _ in }) {
            location throws(UploadError) in
            try await onBlob { storage, io throws(SystemError) in
                hash(content)
                let (file, offset) = try storage.open(location, of: id, io)
                // Here, because not every thread that may release it may block.
                defer { io.close(file) }
                if let failure = io.write(content, to: file, at: offset).failure { throw failure }
                if storage.durability == .acknowledged { try storage.synchronizePart(file, at: location, of: id, io) }
            }
            _ = try await verify()
        }
    }
}
