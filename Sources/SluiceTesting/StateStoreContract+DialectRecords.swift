internal import Foundation
internal import UploadModel

/// Records of dialects.
extension StateStoreContract {
    static let dialectRecords: [Contract<any DialectRecords>] =
        insertedRecords + replacedRecords + changedRecords + termedRecords + listedRecords
        + forgottenRecords

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

    // MARK: Several at once

    /// All records of the test.
    private static func all(_ store: any DialectRecords) async throws -> [DialectRecord] {
        try await store.records("test session", prefix: "", after: nil, limit: 100)
    }

    private static let changedRecords: [Contract<any DialectRecords>] = [
        Contract("changes of several records are made in one call, of other kinds, too") { store in
            for key in ["a", "b", "c", "e"] { try demand(await store.insert(record(key), at: start), is: true) }
            let other = record("a", kind: "test signature", text: "new")
            let changes: [DialectChange] = [
                .replace(record("b", text: "2", expiresIn: nil)), .insert(other, at: start),
                .remove(kind: "test session", key: "c", version: 1), .insert(record("d", expiresIn: 1), at: start),
                .remove(kind: "test session", key: "e", version: nil),
            ]
            try demand(await store.apply(changes), is: true)
            var changed = record("b", text: "2", expiresIn: nil)
            changed.version = 2
            try demand(await all(store), is: [record("a"), changed, record("d", expiresIn: 1)])
            try demand(await store.record("test signature", "a"), is: other)
            // An expired one is replaced.
            let later = record("d", text: "later", expiresIn: 99)
            changed.text = "3"
            try demand(await store.apply([.insert(later, at: moment(1)), .replace(changed)]), is: true)
            try demand(await store.record("test session", "d"), is: later)
            try demand(await store.record("test session", "b")?.version, is: 3)
            try demand(await store.apply([]), is: true)
        },
        Contract("if one change is refused, none is made, wherever it stands") { store in
            for key in ["b", "k", "y"] { try demand(await store.insert(record(key), at: start), is: true) }
            let before = try await all(store)
            var unknown = record("k", text: "wrong")
            unknown.version = 2
            let refused: [DialectChange] = [
                .insert(record("k"), at: moment(59.999)), .replace(unknown), .replace(record("m")),
                .remove(kind: "test session", key: "k", version: 2),
                .remove(kind: "test session", key: "m", version: 1),
                .remove(kind: "test session", key: "m", version: nil),
                .remove(kind: "test session", key: "k\0", version: nil),
            ]
            let others: [DialectChange] = [
                .insert(record("a"), at: start), .replace(record("b", text: "2")),
                .remove(kind: "test session", key: "y", version: 1), .insertIfAbsent(record("z"), at: start),
            ]
            for change in refused {
                try demand(await store.apply([change]), is: false)
                for place in 0...others.count {
                    var changes = others
                    changes.insert(change, at: place)
                    try demand(await store.apply(changes), is: false)
                    try demand(await all(store), is: before)
                }
            }
            for wrong in [record("c\0"), record("c", text: "\0")] {
                let changes = others + [.insertIfAbsent(wrong, at: start)]
                let code = await errorCode { () async throws(UploadError) in try await store.apply(changes) }
                try demand(code, is: .invalidRequest)
                try demand(await all(store), is: before)
            }
            try demand(await store.apply(others), is: true)
            try demand(await all(store).map(\.key), is: ["a", "b", "k", "z"])
        },
        Contract("a change that is not required refuses nothing") { store in
            try demand(await store.insert(record("a", text: "1"), at: start), is: true)
            let changes: [DialectChange] = [
                .insertIfAbsent(record("a", text: "2"), at: start), .insertIfAbsent(record("b", text: "2"), at: start),
                .removeIfPresent(kind: "test session", key: "c"), .removeIfPresent(kind: "test session", key: "a\0"),
                .insert(record("d"), at: start),
            ]
            try demand(await store.apply(changes), is: true)
            try demand(await all(store), is: [record("a", text: "1"), record("b", text: "2"), record("d")])
            let removed = [DialectChange.removeIfPresent(kind: "test session", key: "a")]
            for _ in 0..<2 { try demand(await store.apply(removed), is: true) }
            // An expired one is replaced.
            let later = record("b", text: "later", expiresIn: 99)
            try demand(await store.apply([.insertIfAbsent(later, at: moment(60))]), is: true)
            try demand(await all(store), is: [later, record("d")])
        },
        Contract("of 20 writers of the same records at once one is admitted, in whatever order they name them") {
            store in
            for key in ["a", "b", "c"] { try demand(await store.insert(record(key), at: start), is: true) }
            for version in 1...3 as ClosedRange<Int64> {
                let admitted = try await atOnce(20) { number in
                    var changes: [DialectChange] = ["a", "b", "c"].map { key in
                        var changed = record(key, text: "\(number)")
                        changed.version = version
                        return .replace(changed)
                    }
                    changes.append(.insert(record("new\(version)", text: "\(number)"), at: start))
                    if number % 2 == 1 { changes.reverse() }
                    return try await store.apply(changes)
                }
                try demand(admitted.count, is: 1)
                let text = admitted.first.map { "\($0)" }
                for key in ["a", "b", "c", "new\(version)"] {
                    try demand(await store.record("test session", key)?.text, is: text)
                }
            }
            try demand(await all(store).count, is: 6)
        },
    ]

    // MARK: Terms

    private static func record(_ key: String, _ terms: [DialectTerm]?, version: Int64 = 1) -> DialectRecord {
        var record = record(key)
        record.terms = terms
        record.version = version
        return record
    }

    /// The keys of all records with a term.
    private static func found(_ store: any DialectRecords, _ term: String) async throws -> [String] {
        try await store.records(DialectTermQuery("test session", term, limit: 1000)).map(\.record.key)
    }

    private static let termedRecords: [Contract<any DialectRecords>] = [
        Contract("records with a term are listed by position and key, in both directions, page by page") { store in
            var places: [DialectPlace] = []
            for (number, key) in sortedKeys.enumerated().shuffled() {
                let position = [Int64.min, -1, 0, 1, 1, .max][number % 6]
                places.append(DialectPlace(position, key))
                let terms = [DialectTerm("t", at: position), DialectTerm("T", at: 5), DialectTerm("t ", at: 6)]
                try demand(await store.insert(record(key, terms), at: start), is: true)
                var other = record(key, kind: "test signature")
                other.terms = terms
                try demand(await store.insert(other, at: start), is: true)
            }
            places.sort { $0.precedes($1) }
            for isDescending in [false, true] {
                let wanted = isDescending ? places.reversed() : places
                for positions in [Int64.min ... .max, -1...1, 1...1, 2...3] as [ClosedRange<Int64>] {
                    let expected = wanted.filter { positions.contains($0.position) }
                    for limit in [1, 7, places.count + 1] {
                        var query = DialectTermQuery(
                            "test session",
                            "t",
                            positions: positions,
                            isDescending: isDescending,
                            limit: limit
                        )
                        var listed: [FoundRecord] = []
                        while true {
                            let page = try await store.records(query)
                            try demand(await store.count(query), is: page.count)
                            listed += page
                            query.after = page.last?.place
                            if page.count < limit { break }
                        }
                        try demand(listed.map(\.place.position), is: expected.map(\.position))
                        try demand(listed.map { bytes($0.record.key) }, is: expected.map { bytes($0.key) })
                        try demand(listed.allSatisfy { $0.record == record($0.record.key) }, is: true)
                    }
                }
            }
            try demand(await store.records(DialectTermQuery("nothing", "t", limit: 5)), is: [])
            for term in ["", "x", "t\0"] {
                try demand(await found(store, term), is: [])
                try demand(await store.count(DialectTermQuery("test session", term, limit: 5)), is: 0)
            }
        },
        Contract("terms are listed by their bytes, each once") { store in
            let terms = sortedKeys.filter { !$0.isEmpty }
            for (number, term) in terms.enumerated().shuffled() {
                for key in ["\(number) a", "\(number) b"] {
                    let one = [DialectTerm(term, at: Int64(number % 3)), DialectTerm("other", at: 1)]
                    try demand(await store.insert(record(key, one), at: start), is: true)
                }
            }
            var other = record("c", kind: "test signature")
            other.terms = [DialectTerm("b\u{1}", at: 1)]
            try demand(await store.insert(other, at: start), is: true)
            let all = (terms + ["other"]).sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
            for prefix in ["", "a", "a/", "\u{E1}", "\u{D7FF}", "😀", "\u{10FFFF}", "none"] {
                var (listed, last) = ([String](), String?.none)
                while let next = try await store.term(of: "test session", prefix: prefix, after: last) {
                    listed.append(next)
                    last = next
                }
                let expected = all.filter { $0.utf8.starts(with: prefix.utf8) }
                try demand(listed.map { bytes($0) }, is: expected.map { bytes($0) })
            }
            try demand(await store.term(of: "nothing", prefix: "", after: nil), is: nil)
            try demand(await store.term(of: "test session", prefix: "\0", after: nil), is: nil)
            try demand(await store.removeRecord("test signature", "c"), is: true)
            try demand(await store.term(of: "test signature", prefix: "", after: nil), is: nil)
        },
        Contract("terms are those of the last change, and go with the record") { store in
            let terms = ["e\u{301}", "\u{E9}", "'\"\\{},NULL😀"]
            try demand(await store.insert(record("a", terms.map { DialectTerm($0, at: 1) }), at: start), is: true)
            for term in terms { try demand(await found(store, term), is: ["a"]) }
            let changed = record("a", [DialectTerm(terms[0], at: 2), DialectTerm("new", at: 2)])
            try demand(await store.replace(changed), is: true)
            try demand(await found(store, terms[0]), is: ["a"])
            try demand(await found(store, terms[1]), is: [])
            try demand(await found(store, "new"), is: ["a"])
            let places = try await store.records(DialectTermQuery("test session", "new", limit: 5))
            try demand(places.map(\.place), is: [DialectPlace(2, "a")])
            try demand(places.first?.record.version, is: 2)
            try demand(await store.replace(record("a", [], version: 2)), is: true)
            try demand(await found(store, "new"), is: [])
            try demand(await store.replace(record("a", changed.terms, version: 3)), is: true)
            try demand(await found(store, "new"), is: ["a"])
            // An expired one is replaced with its terms.
            let other = record("a", [DialectTerm("other", at: 3)])
            try demand(await store.insert(other, at: moment(59)), is: false)
            try demand(await found(store, "new"), is: ["a"])
            try demand(await store.insert(other, at: moment(60)), is: true)
            try demand(await found(store, "new"), is: [])
            try demand(await found(store, "other"), is: ["a"])
            try demand(await store.removeRecord("test session", "a"), is: true)
            try demand(await found(store, "other"), is: [])
            try demand(await store.insert(record("b", changed.terms), at: start), is: true)
            try await store.forgetRecords(expiredBefore: moment(61))
            try demand(await found(store, "new"), is: [])
            try demand(await store.insert(record("b", nil), at: start), is: true)
            try demand(await found(store, "new"), is: [])
            try demand(await store.recordsWithoutTerms("test session", after: nil, limit: 5), is: [])
        },
        Contract("terms of changes that are refused are not written") { store in
            try demand(await store.insert(record("a", [DialectTerm("1", at: 1)]), at: start), is: true)
            let wrong = record("a", [DialectTerm("2", at: 1)], version: 9)
            let new = DialectChange.insert(record("b", [DialectTerm("2", at: 1)]), at: start)
            try demand(await store.replace(wrong), is: false)
            try demand(await store.apply([new, .replace(wrong)]), is: false)
            let absent = DialectChange.insertIfAbsent(record("a", [DialectTerm("2", at: 1)]), at: start)
            try demand(await store.apply([absent]), is: true)
            let bad = record("c", [DialectTerm("2\0", at: 1)])
            let code = await errorCode { () async throws(UploadError) in
                try await store.apply([new, .insert(bad, at: start)])
            }
            try demand(code, is: .invalidRequest)
            try demand(await found(store, "1"), is: ["a"])
            try demand(await found(store, "2"), is: [])
        },
        Contract("of writers of one record at once, the terms are those of the one that is stored") { store in
            try demand(await store.insert(record("a", [DialectTerm("first", at: 0)]), at: start), is: true)
            let admitted = try await atOnce(20) { number in
                var changed = record("a", [DialectTerm("\(number)", at: 1)])
                changed.text = "\(number)"
                return try await store.replace(changed)
            }
            try demand(admitted.count, is: 1)
            for number in 0..<20 {
                try demand(await found(store, "\(number)"), is: admitted.contains(number) ? ["a"] : [])
            }
            try demand(await found(store, "first"), is: [])
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
