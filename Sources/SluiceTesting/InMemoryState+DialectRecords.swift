package import Foundation
internal import Synchronization
package import UploadModel

/// Names a record by bytes: Swift takes texts for equal that a database keeps apart.
struct DialectRecordName: Hashable {
    let kind: [UInt8]
    let key: [UInt8]

    init(_ kind: String, _ key: String) {
        self.kind = Array(kind.utf8)
        self.key = Array(key.utf8)
    }
}

extension InMemoryState {
    package func insert(_ record: DialectRecord, at now: Date) async throws(UploadError) -> Bool {
        try record.checkTexts()
        return tables.withLock { tables in
            let name = DialectRecordName(record.kind, record.key)
            if let before = tables.dialectRecords[name] {
                guard let end = before.expiresAt, end <= now else { return false }
            }
            var record = record
            record.version = 1
            tables.dialectRecords[name] = record
            return true
        }
    }

    package func record(_ kind: String, _ key: String) async throws(UploadError) -> DialectRecord? {
        tables.withLock { $0.dialectRecords[DialectRecordName(kind, key)] }
    }

    package func replace(_ record: DialectRecord) async throws(UploadError) -> Bool {
        try record.checkTexts()
        return tables.withLock { tables in
            let name = DialectRecordName(record.kind, record.key)
            guard var stored = tables.dialectRecords[name], stored.version == record.version else { return false }
            stored.text = record.text
            stored.expiresAt = record.expiresAt
            stored.version += 1
            tables.dialectRecords[name] = stored
            return true
        }
    }

    package func removeRecord(_ kind: String, _ key: String) async throws(UploadError) -> Bool {
        tables.withLock { $0.dialectRecords.removeValue(forKey: DialectRecordName(kind, key)) != nil }
    }

    package func records(
        _ kind: String,
        prefix: String,
        after: String?,
        limit: Int
    ) async throws(UploadError) -> [DialectRecord] {
        tables.withLock { tables in
            let found = tables.dialectRecords.filter { name, _ in
                name.kind.elementsEqual(kind.utf8) && name.key.starts(with: prefix.utf8)
                    && after.map { $0.utf8.lexicographicallyPrecedes(name.key) } ?? true
            }
            return found.sorted { $0.key.key.lexicographicallyPrecedes($1.key.key) }.prefix(limit).map(\.value)
        }
    }

    package func forgetRecords(expiredBefore date: Date) async throws(UploadError) {
        tables.withLock { tables in
            tables.dialectRecords = tables.dialectRecords.filter { _, record in
                record.expiresAt.map { $0 >= date } ?? true
            }
        }
    }
}
