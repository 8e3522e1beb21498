internal import Foundation
internal import UploadModel

/// Records of dialects.
extension StateCosts {
    /// Of two kinds.
    ///
    /// Ten have expired, and some never will. An earlier version wrote thirty.
    static func dialectRecordFilling(_ numbers: String, later: Int64) -> [String] {
        [
            """
            INSERT INTO dialect_record (kind, key, text, version, created_at, expires_at, terms_version)
            \(numbers)
            SELECT CASE WHEN i % 2 = 0 THEN 'even' ELSE 'odd' END, 'k' || (1000000000 + i), '{}', 1, i,
                CASE WHEN i <= 10 THEN 1000 WHEN i % 3 = 0 THEN NULL ELSE \(later) END,
                CASE WHEN i > 30 THEN 1 END
            FROM number
            """,
            """
            INSERT INTO dialect_term (kind, term, position, key)
            \(numbers)
            SELECT CASE WHEN i % 2 = 0 THEN 'even' ELSE 'odd' END, CASE WHEN i <= 40 THEN 'few' ELSE 'many' END, i,
                'k' || (1000000000 + i)
            FROM number
            """,
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
        for (term, positions) in [("few", 1...40), ("many", 60...90)] as [(String, ClosedRange<Int64>)] {
            for isDescending in [false, true] {
                try await measure("records with the term \(term), \(isDescending ? "last" : "first") ones") {
                    let query = DialectTermQuery(
                        "even",
                        term,
                        positions: positions,
                        isDescending: isDescending,
                        limit: 10
                    )
                    try demand(await store.records(query).count, is: 10)
                    try demand(await store.count(query), is: 10)
                }
            }
        }
        try await measure("the next term") {
            try demand(await store.term(of: "even", prefix: "", after: "few"), is: "many")
        }
        try await measure("records of earlier versions") {
            try demand(await store.recordsWithoutTerms("even", after: nil, limit: 20).count, is: 15)
        }
        var termed = DialectRecord(kind: "odd", key: "termed", text: "{}", createdAt: now)
        termed.terms = [DialectTerm("few", at: 1), DialectTerm("many", at: 1)]
        let (new, end) = (termed, DialectChange.remove(kind: "odd", key: "termed", version: 1))
        try await measure("insert a record with terms") { try demand(await store.insert(new, at: now), is: true) }
        try await measure("remove a record with terms") { try demand(await store.apply([end]), is: true) }
        try await measure("forget records") {
            try await store.forgetRecords(expiredBefore: now)
            try demand(await store.record("odd", "k1000000009"), is: nil)
        }
    }
}
