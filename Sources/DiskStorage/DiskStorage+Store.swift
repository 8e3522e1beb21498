internal import Bytes
package import Foundation
internal import SystemIO

#if canImport(Glibc)
internal import Glibc
package import UploadModel
#endif

/// The mark of the storage, and blobs without records.
extension DiskStorage {
    package func storedMark() async throws(UploadError) -> StoreMark? {
        let text = try await onPool { storage, io throws(SystemError) -> [UInt8]? in
            do throws(SystemError) {
                return try io.read(io.open(storage.directory.markPath, O_RDONLY), at: 0, maximum: 4096)
            } catch  where error.errno == ENOENT {
                return nil
            }
        }
        guard let text else { return nil }
        do {
            return try JSONDecoder().decode(StoreMark.self, from: Data(text))
        } catch {
            throw UploadError(.storageFailure, "The file `store` in the data directory cannot be read.", cause: error)
        }
    }

    package func storeMark(_ mark: StoreMark) async throws(UploadError) {
        let text = Array("{\"id\":\"\(mark.id)\",\"epoch\":\(mark.epoch)}\n".utf8)
        try await onPool { storage, io throws(SystemError) in
            let path = storage.directory.markPath
            let file = try io.open(path + ".new", O_WRONLY | O_CREAT | O_TRUNC)
            if let failure = io.write(text, to: file, at: 0).failure { throw failure }
            // Regardless of the durability setting: this file decides about all others.
            try io.synchronizeAll(of: file)
            try io.rename(path + ".new", to: path)
            try io.synchronizeDirectory(storage.directory.root)
        }
    }

    package func hasBlobs() async throws(UploadError) -> Bool { try await !list(after: nil, limit: 1).isEmpty }

    /// Parts without a blob are not reported, because they cannot be continued.
    ///
    /// A blob with unverified bytes, or without bytes, belongs to an open upload.
    package func findBlobs(_ body: (FoundBlob) async throws(UploadError) -> Void) async throws(UploadError) {
        var last: UploadID?
        while true {
            let page = try await list(after: last, limit: 500)
            guard let final = page.last else { return }
            for id in page {
                let found = try await onPool { storage, io throws(SystemError) in try storage.find(id, io) }
                try await body(found)
            }
            last = final
        }
    }

    private func find(_ id: UploadID, _ io: BlockingIO) throws(SystemError) -> FoundBlob {
        do throws(SystemError) {
            let base = try marker(of: id).base(io)
            let size = try io.size(of: directory.blobPath(id))
            if let base { return FoundBlob(id, .open, size: min(size, base)) }
            return FoundBlob(id, size == 0 ? .open : .whole, size: size)
        } catch  where error.errno == ENOENT {
            return FoundBlob(id, .pieces, size: 0)
        }
    }

    /// Nothing to do: files are their own records.
    package func adopt(_ blob: FoundBlob) async throws(UploadError) {}

    // MARK: Orphans

    package var keepsOrphans: Bool { true }

    package func setAside(_ orphan: UploadID, at now: Date) async throws(UploadError) {
        let day = Self.day(of: now)
        try await onPool { storage, io throws(SystemError) in
            let directory = storage.directory
            let (all, folder) = (directory.quarantinePath, directory.quarantinePath + "/" + day)
            if try io.makeDirectory(all) { try io.synchronizeDirectory(directory.root) }
            if try io.makeDirectory(folder) { try io.synchronizeDirectory(all) }
            let shard = storage.shardPath(of: orphan)
            storage.drop(orphan, io)
            storage.durable.forget(orphan)
            storage.places.forget(orphan)
            let names: [String]
            do throws(SystemError) {
                names = try io.entries(of: shard)
            } catch  where error.errno == ENOENT {
                return
            }
            // As long as one of its files is left, the next sweep finds it.
            for name in names where DataDirectory.upload(of: name) == orphan {
                do throws(SystemError) {
                    try io.rename(shard + "/" + name, to: folder + "/" + name)
                } catch  where error.errno == ENOTEMPTY || error.errno == EEXIST {
                    // A directory that was restored and is quarantined again on the same day.
                    try io.removeDirectory(folder + "/" + name)
                    try io.rename(shard + "/" + name, to: folder + "/" + name)
                }
            }
        }
    }

    package func removeOrphans(setAsideBefore date: Date) async throws(UploadError) -> Int {
        let day = Self.day(of: date)
        return try await onPool { storage, io throws(SystemError) in
            let all = storage.directory.quarantinePath
            let days: [String]
            do throws(SystemError) {
                days = try io.entries(of: all)
            } catch  where error.errno == ENOENT {
                return 0
            }
            var removed: Set<UploadID> = []
            // Other names were not created by Sluice.
            for name in days where name.utf8.count == day.utf8.count && name < day {
                let folder = all + "/" + name
                for entry in try io.entries(of: folder) {
                    guard let id = DataDirectory.upload(of: entry) else { continue }
                    do throws(SystemError) {
                        try io.remove(folder + "/" + entry)
                    } catch  where error.errno == EISDIR {
                        try io.removeDirectory(folder + "/" + entry)
                    }
                    removed.insert(id)
                }
                do throws(SystemError) {
                    try io.removeEmptyDirectory(folder)
                } catch  where error.errno == ENOTEMPTY || error.errno == EEXIST {
                    continue
                }
            }
            return removed.count
        }
    }

    /// Year, month and day in UTC; sorts by time.
    private static func day(of date: Date) -> String {
        let (days, _) = CivilCalendar.split(Int64(date.timeIntervalSince1970.rounded(.down)))
        let civil = CivilCalendar.date(fromDays: days)
        func padded(_ number: Int) -> String { (number < 10 ? "0" : "") + String(number) }
        return "\(civil.year)-\(padded(civil.month))-\(padded(civil.day))"
    }
}
