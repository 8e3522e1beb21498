internal import Digests
internal import SystemIO

#if canImport(Glibc)
internal import Glibc
package import UploadModel
#endif

extension DiskStorage: InspectedStorage {
    package func storedLength(of id: UploadID) async throws(UploadError) -> Int64? {
        do throws(UploadError) {
            return try await currentLength(of: id)
        } catch  where error.code == .notFound {
            return nil
        }
    }

    package func missingParts(among parts: [PartRecord], of id: UploadID) async throws(UploadError) -> [Int] {
        try await onBlob { storage, io throws(SystemError) in
            let directory = storage.directory
            var missing: [Int] = []
            for part in parts where try !storage.has(part, of: id, io) { missing.append(part.number) }
            if try io.exists(directory.partsPath(id)) { return missing }
            // The parts were joined, perhaps while they were looked at.
            _ = try io.size(of: directory.blobPath(id))
            return []
        }
    }

    /// The numbers of recorded parts that a part of other bytes has replaced in their place; for copies, whose records
    /// can be older.
    ///
    /// - Throws: `.notFound` if the parts are joined or missing; `.storageFailure`.
    package func replacedParts(among parts: [PartRecord], of id: UploadID) async throws(UploadError) -> [Int] {
        try await onBlob { storage, io throws(SystemError) in
            var replaced: [Int] = []
            for part in parts {
                guard let location = PartLocation(part.location) else { continue }
                let (file, start) = try storage.open(forReading: location, of: id, io)
                let digest = RunningDigest(.md5)
                try Self.update([digest], with: start..<start + part.size, of: file, io)
                if digest.finish() != part.md5 { replaced.append(part.number) }
            }
            return replaced
        }
    }

    private func has(_ part: PartRecord, of id: UploadID, _ io: BlockingIO) throws(SystemError) -> Bool {
        guard let location = PartLocation(part.location), location.isThere(in: boot) else { return false }
        switch location.place {
        case .shared(let offset):
            return try Self.size(of: directory.partsPath(id), io) ?? 0 >= offset + part.size
        case .own(let name):
            return try Self.size(of: directory.ownPartsPath(id) + "/" + name, io) == part.size
        }
    }

    private static func size(of path: String, _ io: BlockingIO) throws(SystemError) -> Int64? {
        do throws(SystemError) {
            return try io.size(of: path)
        } catch  where error.errno == ENOENT {
            return nil
        }
    }
}
