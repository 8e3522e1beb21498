internal import Synchronization
internal import UploadCore
package import UploadModel

extension InMemoryState {
    package func object(_ name: ObjectName) async throws(UploadError) -> Media? {
        tables.withLock { $0.object(name) }
    }

    package func objects(_ query: ObjectQuery) async throws(UploadError) -> [ObjectSummary] {
        tables.withLock { tables in
            let found = tables.media.values.filter { media in
                guard let name = media.objectName, name.isIn(query.bucket, withPrefix: query.prefix) else {
                    return false
                }
                return query.after.map { $0.utf8.lexicographicallyPrecedes(name.key.utf8) } ?? true
            }
            let sorted = found.sorted { ($0.key ?? "").utf8.lexicographicallyPrecedes(($1.key ?? "").utf8) }
            return sorted.prefix(query.limit).map { ObjectSummary($0) }
        }
    }
}

extension InMemoryState.Tables {
    func object(_ name: ObjectName) -> Media? { media.values.first { $0.objectName == name } }
}

extension ObjectName {
    func isIn(_ bucket: String, withPrefix prefix: String = "") -> Bool {
        self.bucket.utf8.elementsEqual(bucket.utf8) && key.utf8.starts(with: prefix.utf8)
    }
}
