internal import SystemIO
package import UploadCore

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
