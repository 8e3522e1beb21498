package import Foundation
package import UploadModel

extension FaultyState {
    package func apply(_ changes: [DialectChange]) async throws(UploadError) -> Bool {
        let operation = Operation(changes)
        try await plan.step(operation)
        let isApplied = try await base.apply(changes)
        try plan.response(operation)
        return isApplied
    }

    package func record(_ kind: String, _ key: String) async throws(UploadError) -> DialectRecord? {
        try await plan.step(.dialectRecord)
        return try await base.record(kind, key)
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

    package func records(_ query: DialectTermQuery) async throws(UploadError) -> [FoundRecord] {
        try await plan.step(.dialectRecords)
        return try await base.records(query)
    }

    package func count(_ query: DialectTermQuery) async throws(UploadError) -> Int {
        try await plan.step(.dialectRecords)
        return try await base.count(query)
    }

    package func term(of kind: String, prefix: String, after: String?) async throws(UploadError) -> String? {
        try await plan.step(.dialectRecords)
        return try await base.term(of: kind, prefix: prefix, after: after)
    }

    package func recordsWithoutTerms(
        _ kind: String,
        after: String?,
        limit: Int
    ) async throws(UploadError) -> [DialectRecord] {
        try await plan.step(.dialectRecords)
        return try await base.recordsWithoutTerms(kind, after: after, limit: limit)
    }

    package func forgetRecords(expiredBefore date: Date) async throws(UploadError) {
        try await plan.step(.forgetRecords)
        try await base.forgetRecords(expiredBefore: date)
    }
}

extension FaultyState.Operation {
    /// A change that is alone is an operation of its own.
    fileprivate init(_ changes: [DialectChange]) {
        guard changes.count == 1, let change = changes.first else {
            self = .applyChanges
            return
        }
        switch change {
        case .insert, .insertIfAbsent: self = .insertRecord
        case .replace: self = .replaceRecord
        case .remove, .removeIfPresent: self = .removeRecord
        }
    }
}
