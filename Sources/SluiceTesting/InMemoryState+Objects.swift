internal import Synchronization
package import UploadCore

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

    package func setAttributes(
        of id: UploadID,
        to attributes: ObjectAttributes
    ) async throws(UploadError) -> Bool {
        tables.withLock { tables in
            guard let state = tables.uploads[id]?.state, state == .open || state == .completed else { return false }
            tables.uploads[id]?.attributes = attributes
            tables.media[id]?.attributes = attributes
            return true
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

    package func object(_ name: ObjectName) async throws(UploadError) -> Media? {
        tables.withLock { $0.object(name) }
    }

    package func objects(_ query: ObjectQuery) async throws(UploadError) -> [Media] {
        tables.withLock { tables in
            let found = tables.media.values.filter { media in
                guard let name = media.objectName, name.isIn(query.bucket, withPrefix: query.prefix) else {
                    return false
                }
                return query.after.map { $0.utf8.lexicographicallyPrecedes(name.key.utf8) } ?? true
            }
            let sorted = found.sorted { ($0.key ?? "").utf8.lexicographicallyPrecedes(($1.key ?? "").utf8) }
            return Array(sorted.prefix(query.limit))
        }
    }

    package func insert(_ bucket: BucketRecord) async throws(UploadError) -> Bool {
        tables.withLock { tables in
            let name = Array(bucket.name.utf8)
            guard tables.buckets[name] == nil else { return false }
            tables.buckets[name] = bucket
            return true
        }
    }

    package func bucket(_ name: String) async throws(UploadError) -> BucketRecord? {
        tables.withLock { $0.buckets[Array(name.utf8)] }
    }

    package func buckets() async throws(UploadError) -> [BucketRecord] {
        tables.withLock { tables in
            tables.buckets.sorted { $0.key.lexicographicallyPrecedes($1.key) }.map(\.value)
        }
    }

    package func setDocument(
        _ name: String,
        to text: String?,
        ofBucket bucket: String
    ) async throws(UploadError) -> Bool {
        tables.withLock { tables in
            guard var record = tables.buckets[Array(bucket.utf8)] else { return false }
            record.documents[name] = text
            tables.buckets[Array(bucket.utf8)] = record
            return true
        }
    }

    package func removeBucket(_ name: String) async throws(UploadError) -> Bool {
        tables.withLock { tables in
            let isUsed =
                tables.media.values.contains { $0.objectName?.isIn(name) == true }
                || tables.uploads.values.contains { $0.state == .open && $0.objectName?.isIn(name) == true }
            if !isUsed { tables.buckets[Array(name.utf8)] = nil }
            return !isUsed
        }
    }
}

extension InMemoryState.Tables {
    func object(_ name: ObjectName) -> Media? { media.values.first { $0.objectName == name } }
}

extension ObjectName {
    fileprivate func isIn(_ bucket: String, withPrefix prefix: String = "") -> Bool {
        self.bucket.utf8.elementsEqual(bucket.utf8) && key.utf8.starts(with: prefix.utf8)
    }
}
