package import Foundation
package import UploadModel

extension FaultyState {
    package func insert(_ record: DialectRecord, at now: Date) async throws(UploadError) -> Bool {
        try await plan.step(.insertRecord)
        let isInserted = try await base.insert(record, at: now)
        try plan.response(.insertRecord)
        return isInserted
    }

    package func record(_ kind: String, _ key: String) async throws(UploadError) -> DialectRecord? {
        try await plan.step(.dialectRecord)
        return try await base.record(kind, key)
    }

    package func replace(_ record: DialectRecord) async throws(UploadError) -> Bool {
        try await plan.step(.replaceRecord)
        let isReplaced = try await base.replace(record)
        try plan.response(.replaceRecord)
        return isReplaced
    }

    package func removeRecord(_ kind: String, _ key: String) async throws(UploadError) -> Bool {
        try await plan.step(.removeRecord)
        return try await base.removeRecord(kind, key)
    }

    package func records(
        _ kind: String,
        prefix: String,
        after: String?,
        limit: Int
    ) async throws(UploadError) -> [DialectRecord] {
        try await plan.step(.dialectRecords)
        return try await base.records(kind, prefix: prefix, after: after, limit: limit)
    }

    package func forgetRecords(expiredBefore date: Date) async throws(UploadError) {
        try await plan.step(.forgetRecords)
        try await base.forgetRecords(expiredBefore: date)
    }
}
