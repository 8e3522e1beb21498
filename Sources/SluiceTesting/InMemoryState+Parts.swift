internal import Synchronization
internal import UploadCore
package import UploadModel

extension InMemoryState {
    package func putPart(_ part: PartRecord, of id: UploadID) async throws(UploadError) -> PartRecord? {
        try transaction { tables throws(UploadError) in
            guard tables.uploads[id]?.isTakingParts == true else { throw UploadError.takesNoParts }
            return tables.objectParts[id, default: [:]].updateValue(part, forKey: part.number)
        }
    }

    package func objectParts(
        of id: UploadID,
        after number: Int,
        limit: Int
    ) async throws(UploadError) -> [PartRecord] {
        tables.withLock { tables in
            let parts = (tables.objectParts[id] ?? [:]).values.filter { $0.number > number }
            return Array(parts.sorted { $0.number < $1.number }.prefix(limit))
        }
    }

    package func objectPart(_ number: Int, of id: UploadID) async throws(UploadError) -> PartRecord? {
        tables.withLock { $0.objectParts[id]?[number] }
    }

    package func partBytes(of id: UploadID) async throws(UploadError) -> Int64 {
        tables.withLock { tables in (tables.objectParts[id] ?? [:]).values.reduce(0) { $0 + $1.size } }
    }

    package func partBytes(of ids: [UploadID]) async throws(UploadError) -> [UploadID: Int64] {
        tables.withLock { tables in
            var sums: [UploadID: Int64] = [:]
            for id in ids { sums[id] = tables.objectParts[id].map { $0.values.reduce(0) { $0 + $1.size } } }
            return sums
        }
    }

    package func partUploads(_ query: PartUploadQuery) async throws(UploadError) -> [Upload] {
        tables.withLock { tables in
            let found = tables.uploads.values.filter { upload in
                guard upload.state == .open, upload.takesParts, let name = upload.objectName,
                    name.isIn(query.bucket, withPrefix: query.prefix)
                else { return false }
                guard let after = query.after else { return true }
                if name.key.utf8.elementsEqual(after.utf8) {
                    return query.afterID.map { upload.id.text > $0.text } ?? false
                }
                return after.utf8.lexicographicallyPrecedes(name.key.utf8)
            }
            let sorted = found.sorted { left, right in
                let (first, second) = (left.key ?? "", right.key ?? "")
                return first.utf8.elementsEqual(second.utf8)
                    ? left.id.text < right.id.text : first.utf8.lexicographicallyPrecedes(second.utf8)
            }
            return Array(sorted.prefix(query.limit))
        }
    }
}
