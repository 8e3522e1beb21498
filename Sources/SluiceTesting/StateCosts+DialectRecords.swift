internal import Foundation
internal import UploadModel

/// Records of dialects.
extension StateCosts {
    /// Of two kinds; ten have expired, and some never will.
    static func dialectRecordFilling(_ numbers: String, later: Int64) -> [String] {
        [
            """
            INSERT INTO dialect_record (kind, key, text, version, created_at, expires_at)
            \(numbers)
            SELECT CASE WHEN i % 2 = 0 THEN 'even' ELSE 'odd' END, 'k' || (1000000000 + i), '{}', 1, i,
                CASE WHEN i <= 10 THEN 1000 WHEN i % 3 = 0 THEN NULL ELSE \(later) END
            FROM number
            """
        ]
    }

    static func dialectRecords(on store: any StateStore, at now: Date, _ measure: Measure) async throws {
        let record = DialectRecord(kind: "odd", key: "new", text: "{}", createdAt: now, expiresAt: now + 600)
        try await measure("insert a record") { try demand(await store.insert(record, at: now), is: true) }
        try await measure("insert a record again") { try demand(await store.insert(record, at: now), is: false) }
        try await measure("a record") { try demand(await store.record("odd", "new")?.text, is: "{}") }
        try await measure("replace a record") { try demand(await store.replace(record), is: true) }
        try await measure("remove a record") { try demand(await store.removeRecord("odd", "new"), is: true) }
        let pages: [(String, prefix: String, after: String?)] = [
            ("the first ones", "", nil), ("a later page", "", "k1000000050"), ("by prefix", "k10000000", nil),
            ("by prefix, a later page", "k10000000", "k1000000050"),
        ]
        for (name, prefix, after) in pages {
            try await measure("records, " + name) {
                let found = try await store.records("even", prefix: prefix, after: after, limit: 10)
                try demand(found.count, is: 10)
            }
        }
        try await measure("records of a prefix that none has") {
            try demand(await store.records("even", prefix: "k100000005x", after: nil, limit: 10), is: [])
        }
        try await measure("forget records") {
            try await store.forgetRecords(expiredBefore: now)
            try demand(await store.record("odd", "k1000000009"), is: nil)
        }
    }
}
