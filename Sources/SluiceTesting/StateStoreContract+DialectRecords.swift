internal import Foundation
internal import UploadModel

/// Records of dialects.
extension StateStoreContract {
    static let dialectRecords: [Contract<any DialectRecords>] =
        insertedRecords + replacedRecords + listedRecords + forgottenRecords

    static func record(
        _ key: String,
        kind: String = "test session",
        text: String = "{}",
        expiresIn seconds: TimeInterval? = 60
    ) -> DialectRecord {
        DialectRecord(
            kind: kind,
            key: key,
            text: text,
            createdAt: start,
            expiresAt: seconds.map(start.addingTimeInterval)
        )
    }

    private static func moment(_ seconds: TimeInterval) -> Date { start.addingTimeInterval(seconds) }

    /// Runs `call` at the same time this many times, with the numbers from 0 on.
    private static func atOnce(
        _ count: Int,
        _ call: @escaping @Sendable (Int) async throws -> Bool
    ) async throws -> [Int] {
        try await withThrowingTaskGroup(of: Int?.self) { group in
            for number in 0..<count { group.addTask { try await call(number) ? number : nil } }
            return try await group.reduce(into: []) { admitted, number in
                if let number { admitted.append(number) }
            }
        }
    }

    // MARK: Inserting

    private static let insertedRecords: [Contract<any DialectRecords>] = [
        Contract("a record of a dialect is inserted once for each kind and key, with version 1, and read back") {
            store in
            var first = record("a", text: #"{"n":1}"#)
            first.version = 7
            try demand(await store.record("test session", "a"), is: nil)
            try demand(await store.insert(first, at: start), is: true)
            first.version = 1
            try demand(await store.record("test session", "a"), is: first)
            try demand(await store.insert(record("a", text: "other"), at: start), is: false)
            try demand(await store.insert(record("a", text: "other"), at: moment(59.999)), is: false)
            try demand(await store.record("test session", "a"), is: first)
            let others = [
                record("a", kind: "test signature", expiresIn: nil), record("b"), record("A"), record(""), record("a "),
            ]
            for other in others { try demand(await store.insert(other, at: start), is: true) }
            for other in others + [first] { try demand(await store.record(other.kind, other.key), is: other) }
        },
        Contract("an expired record is returned, and replaced by the next insertion") { store in
            try demand(await store.insert(record("a", text: "old", expiresIn: 60), at: start), is: true)
            let old = record("a", text: "old", expiresIn: 60)
            try demand(await store.replace(old), is: true)
            try demand(await store.record("test session", "a")?.version, is: 2)
            var new = record("a", text: "new", expiresIn: nil)
            new.createdAt = moment(60)
            try demand(await store.insert(new, at: moment(60)), is: true)
            try demand(await store.record("test session", "a"), is: new)
            // It never expires.
            try demand(await store.insert(record("a"), at: moment(1e9)), is: false)
            try demand(await store.record("test session", "a"), is: new)
        },
        Contract("of 50 concurrent insertions of one key one is admitted, of an expired one too") { store in
            for (round, now) in [start, moment(60)].enumerated() {
                let admitted = try await atOnce(50) { number in
                    let seconds = TimeInterval(60 * (round + 1))
                    return try await store.insert(record("a", text: "\(number)", expiresIn: seconds), at: now)
                }
                try demand(admitted.count, is: 1)
                let stored = try await store.record("test session", "a")
                try demand(stored?.text, is: admitted.first.map { "\($0)" })
                try demand(stored?.version, is: 1)
            }
        },
        Contract("texts and keys of records are read back as they were") { store in
            let texts = [
                "", #"{"a":"\u0000\ud83d\ude00"}"#, "{\"ü\":\"😀\\u0000\u{FFFF}\u{FFFF}0\",\"b\":[\"'\\\"\"]}",
                "e\u{301}\u{E9}\n\r\t", String(repeating: "漢😀", count: 50_000),
            ]
            for (number, text) in texts.enumerated() {
                let key = "'\"\\%_{}\u{FFFF}😀\(number)"
                let kind = "test ü'"
                try demand(await store.insert(record(key, kind: kind, text: text), at: start), is: true)
                let stored = try await store.record(kind, key)
                try demand(bytes(stored?.text), is: bytes(text))
                try demand(bytes(stored?.key), is: bytes(key))
                try demand(bytes(stored?.kind), is: bytes(kind))
            }
        },
        Contract("a record with U+0000 is refused") { store in
            try demand(await store.insert(record("a"), at: start), is: true)
            for wrong in [
                record("a\0"), record("b", kind: "test\0"), record("b", text: "\0"), record("a", text: "{}\0"),
            ] {
                let codes = [
                    await errorCode { () async throws(UploadError) in try await store.insert(wrong, at: start) },
                    await errorCode { () async throws(UploadError) in try await store.replace(wrong) },
                ]
                try demand(codes, is: [.invalidRequest, .invalidRequest])
            }
            let stored = try await store.records("test session", prefix: "", after: nil, limit: 9)
            try demand(stored, is: [record("a")])
            // Nor is it mistaken for another one.
            try demand(await store.record("test session", "a\0"), is: nil)
            try demand(await store.removeRecord("test session", "a\0b"), is: false)
            try demand(await store.insert(record("ab"), at: start), is: true)
            try demand(await store.records("test session", prefix: "a\0", after: nil, limit: 9), is: [])
            try demand(await store.records("test session", prefix: "a", after: "a\0b", limit: 9), is: [record("ab")])
        },
        Contract("keys of records that look the same but have different bytes are different") { store in
            let keys = ["e\u{301}", "\u{E9}", "\u{212B}", "\u{C5}"]
            for key in keys {
                try demand(await store.insert(record(key, text: "\(bytes(key) ?? [])"), at: start), is: true)
            }
            for key in keys {
                try demand(await store.record("test session", key)?.text, is: "\(bytes(key) ?? [])")
                let page = try await store.records("test session", prefix: key, after: nil, limit: 9)
                try demand(page.map { bytes($0.key) }, is: [bytes(key)])
            }
            try demand(await store.removeRecord("test session", "\u{E9}"), is: true)
            try demand(bytes(await store.record("test session", "e\u{301}")?.key), is: bytes("e\u{301}"))
        },
    ]

    // MARK: Replacing

    private static let replacedRecords: [Contract<any DialectRecords>] = [
        Contract("a record is replaced only by who knows its version, which then grows") { store in
            var first = record("a", text: "1")
            try demand(await store.replace(first), is: false)
            for key in ["a", "b"] { try demand(await store.insert(record(key, text: "1"), at: start), is: true) }
            for version in [-1, 0, 2, .max] as [Int64] {
                var wrong = record("a", text: "wrong")
                wrong.version = version
                try demand(await store.replace(wrong), is: false)
            }
            try demand(await store.record("test session", "a"), is: first)
            first.text = "2"
            first.expiresAt = nil
            let late = first
            // When it was created does not change.
            first.createdAt = moment(5)
            try demand(await store.replace(first), is: true)
            first.createdAt = start
            first.version = 2
            try demand(await store.record("test session", "a"), is: first)
            try demand(await store.replace(late), is: false)
            first.text = "3"
            // An expired one, too.
            first.expiresAt = moment(-1)
            try demand(await store.replace(first), is: true)
            first.version = 3
            try demand(await store.replace(first), is: true)
            first.version = 4
            try demand(await store.record("test session", "a"), is: first)
            try demand(await store.record("test session", "b"), is: record("b", text: "1"))
        },
        Contract("of 20 concurrent replacements of one version one is admitted") { store in
            try demand(await store.insert(record("a"), at: start), is: true)
            for version in 1...2 as ClosedRange<Int64> {
                let admitted = try await atOnce(20) { number in
                    var changed = record("a", text: "\(number)")
                    changed.version = version
                    return try await store.replace(changed)
                }
                try demand(admitted.count, is: 1)
                let stored = try await store.record("test session", "a")
                try demand(stored?.text, is: admitted.first.map { "\($0)" })
                try demand(stored?.version, is: version + 1)
            }
        },
        Contract("a record is removed once, and is then not replaced") { store in
            try demand(await store.removeRecord("test session", "a"), is: false)
            for key in ["a", "b"] { try demand(await store.insert(record(key), at: start), is: true) }
            try demand(await store.removeRecord("test signature", "a"), is: false)
            let removals = try await atOnce(20) { _ in try await store.removeRecord("test session", "a") }
            try demand(removals.count, is: 1)
            try demand(await store.record("test session", "a"), is: nil)
            try demand(await store.replace(record("a")), is: false)
            try demand(await store.record("test session", "b"), is: record("b"))
            try demand(await store.insert(record("a", text: "new"), at: start), is: true)
            try demand(await store.record("test session", "a"), is: record("a", text: "new"))
        },
    ]

    // MARK: Lists

    private static let listedRecords: [Contract<any DialectRecords>] = [
        Contract("records are listed by the bytes of their keys, by prefix and page by page") { store in
            let keys = [""] + sortedKeys
            for key in keys.shuffled() { try demand(await store.insert(record(key, text: key), at: start), is: true) }
            for kind in ["test", "test sessions"] {
                try demand(await store.insert(record("a", kind: kind), at: start), is: true)
            }
            for limit in [1, 2, 7, keys.count, keys.count + 1] {
                var listed: [DialectRecord] = []
                while true {
                    let after = listed.last?.key
                    let page = try await store.records("test session", prefix: "", after: after, limit: limit)
                    try demand(page.count, is: min(limit, keys.count - listed.count))
                    listed += page
                    if page.count < limit { break }
                }
                try demand(listed.map { bytes($0.key) }, is: keys.map { bytes($0) })
                try demand(listed.map { bytes($0.text) }, is: keys.map { bytes($0) })
            }
            for prefix in ["", "a", "a/", "b", "\u{E1}", "\u{D7FF}", "\u{FFFE}", "\u{FFFF}", "😀", "\u{10FFFF}"] {
                for after in [nil, "", "a", "a/", "a/a", "y", "\u{E1}", "\u{FFFF}", "😁", "\u{10FFFF}"] {
                    let expected = keys.filter { key in
                        key.utf8.starts(with: prefix.utf8)
                            && after.map { $0.utf8.lexicographicallyPrecedes(key.utf8) } ?? true
                    }
                    let found = try await store.records("test session", prefix: prefix, after: after, limit: 3)
                    try demand(found.map { bytes($0.key) }, is: expected.prefix(3).map { bytes($0) })
                }
            }
            try demand(await store.records("nothing", prefix: "", after: nil, limit: 5), is: [])
        },
        Contract("a list has each record whole, expired ones too") { store in
            let all = [record("a", expiresIn: -1), record("b", expiresIn: nil), record("c", text: #"{"a":[]}"#)]
            for record in all { try demand(await store.insert(record, at: start), is: true) }
            var changed = all[1]
            changed.text = "2"
            try demand(await store.replace(changed), is: true)
            changed.version = 2
            let listed = try await store.records("test session", prefix: "", after: nil, limit: 5)
            try demand(listed, is: [all[0], changed, all[2]])
        },
    ]

    // MARK: Forgetting

    private static let forgottenRecords: [Contract<any DialectRecords>] = [
        Contract("records are forgotten after their expiry, others are not") { store in
            let kept = [
                record("a", expiresIn: 60), record("b", expiresIn: 61), record("c", expiresIn: nil),
                record("d", kind: "test signature", expiresIn: 60),
            ]
            let gone = [record("e", expiresIn: 59.5), record("f", kind: "test signature", expiresIn: -60)]
            for record in kept + gone { try demand(await store.insert(record, at: start), is: true) }
            try await store.forgetRecords(expiredBefore: .distantPast)
            for record in kept + gone { try demand(await store.record(record.kind, record.key), is: record) }
            try await store.forgetRecords(expiredBefore: moment(60))
            for record in kept { try demand(await store.record(record.kind, record.key), is: record) }
            for record in gone { try demand(await store.record(record.kind, record.key), is: nil) }
            // A new expiry counts.
            var renewed = kept[0]
            renewed.expiresAt = moment(100)
            try demand(await store.replace(renewed), is: true)
            try await store.forgetRecords(expiredBefore: moment(99))
            try demand(await store.record(renewed.kind, renewed.key)?.version, is: 2)
            try demand(await store.record(kept[1].kind, kept[1].key), is: nil)
            try demand(await store.record(kept[2].kind, kept[2].key), is: kept[2])
        },
        Contract("any number of expired records is forgotten in one call") { store in
            let kinds = ["test session", "test signature"]
            let inserted = try await atOnce(2_300) { number in
                let seconds: TimeInterval? = number % 23 == 0 ? nil : TimeInterval(number % 5)
                return try await store.insert(
                    record("\(number)", kind: kinds[number % 2], expiresIn: seconds),
                    at: start
                )
            }
            try demand(inserted.count, is: 2_300)
            try await store.forgetRecords(expiredBefore: moment(5))
            var left: [String] = []
            for kind in kinds { left += try await store.records(kind, prefix: "", after: nil, limit: 5_000).map(\.key) }
            try demand(Set(left), is: Set((0..<100).map { "\($0 * 23)" }))
            try demand(left.count, is: 100)
            // Nothing is left to do.
            try await store.forgetRecords(expiredBefore: moment(5))
        },
    ]
}
