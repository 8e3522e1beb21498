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

    /// Another name in the same kind.
    func named(_ key: String) -> Self { Self(kind: kind, key: Array(key.utf8)) }

    private init(kind: [UInt8], key: [UInt8]) {
        self.kind = kind
        self.key = key
    }
}

/// The terms of records.
struct DialectTermTable {
    private(set) var terms: [DialectRecordName: [DialectTerm]] = [:]
    /// By kind and term, those of each record.
    private(set) var positions: [DialectRecordName: [DialectRecordName: Int64]] = [:]
    /// Records that an earlier version wrote last.
    var outdated: Set<DialectRecordName> = []

    /// - Parameters:
    ///   - new: `nil` to leave them.
    ///   - name: Of the record.
    mutating func write(_ new: [DialectTerm]?, of name: DialectRecordName) {
        outdated.remove(name)
        guard let new else { return }
        for text in (terms[name] ?? []).map({ name.named($0.text) }) {
            positions[text]?[name] = nil
            if positions[text]?.isEmpty ?? true { positions[text] = nil }
        }
        terms[name] = new.isEmpty ? nil : new
        for term in new { positions[name.named(term.text), default: [:]][name] = term.position }
    }
}

extension InMemoryState {
    package func apply(_ changes: [DialectChange]) async throws(UploadError) -> Bool {
        guard let changes = try DialectChange.ordered(changes) else { return false }
        return tables.withLock { tables in
            var made: [(name: DialectRecordName, record: DialectRecord?)] = []
            for change in changes {
                let name = DialectRecordName(change.kind, change.key)
                if let record = Self.outcome(of: change, on: tables.dialectRecords[name]) {
                    made.append((name, record))
                } else if change.isRequired {
                    return false
                }
            }
            for (name, record) in made {
                tables.dialectTerms.write(record == nil ? [] : record?.terms, of: name)
                tables.dialectRecords[name] = record
                tables.dialectRecords[name]?.terms = nil
            }
            return true
        }
    }

    /// - Returns: What is stored afterwards; `nil` if the record is not as the change wants it.
    private static func outcome(of change: DialectChange, on stored: DialectRecord?) -> DialectRecord?? {
        switch change {
        case .insert(var record, let now), .insertIfAbsent(var record, let now):
            if let stored {
                guard let end = stored.expiresAt, end <= now else { return nil }
            }
            record.version = 1
            return record
        case .replace(let record):
            guard var new = stored, new.version == record.version else { return nil }
            new.text = record.text
            new.expiresAt = record.expiresAt
            new.version += 1
            new.terms = record.terms
            return new
        case .remove(_, _, let version):
            guard let stored, version.map({ $0 == stored.version }) ?? true else { return nil }
            return .some(nil)
        case .removeIfPresent: return .some(nil)
        }
    }

    package func record(_ kind: String, _ key: String) async throws(UploadError) -> DialectRecord? {
        tables.withLock { $0.dialectRecords[DialectRecordName(kind, key)] }
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

    package func records(_ query: DialectTermQuery) async throws(UploadError) -> [FoundRecord] {
        tables.withLock { tables in
            var found: [FoundRecord] = []
            for (name, position) in tables.dialectTerms.positions[DialectRecordName(query.kind, query.term)] ?? [:] {
                guard let record = tables.dialectRecords[name] else { continue }
                let one = FoundRecord(record: record, position: position)
                if query.includes(one.place) { found.append(one) }
            }
            found.sort { query.isDescending ? $1.place.precedes($0.place) : $0.place.precedes($1.place) }
            return Array(found.prefix(query.limit))
        }
    }

    package func count(_ query: DialectTermQuery) async throws(UploadError) -> Int { try await records(query).count }

    package func term(of kind: String, prefix: String, after: String?) async throws(UploadError) -> String? {
        tables.withLock { tables in
            let found = tables.dialectTerms.positions.keys.filter { name in
                name.kind.elementsEqual(kind.utf8) && name.key.starts(with: prefix.utf8)
                    && after.map { $0.utf8.lexicographicallyPrecedes(name.key) } ?? true
            }
            let first = found.min { $0.key.lexicographicallyPrecedes($1.key) }
            return first.map { String(decoding: $0.key, as: UTF8.self) }
        }
    }

    package func recordsWithoutTerms(
        _ kind: String,
        after: String?,
        limit: Int
    ) async throws(UploadError) -> [DialectRecord] {
        let all = try await records(kind, prefix: "", after: after, limit: .max)
        return tables.withLock { tables in
            let found = all.filter { tables.dialectTerms.outdated.contains(DialectRecordName($0.kind, $0.key)) }
            return Array(found.prefix(limit))
        }
    }

    /// Makes a record as if a node of an earlier version, which knows no terms, had written it last.
    ///
    /// - Parameters:
    ///   - kind: The kind.
    ///   - key: The key.
    ///   - isNew: Whether it inserted the record; if not, the terms of the version before are left.
    package func writeAsBeforeTerms(_ kind: String, _ key: String, isNew: Bool) {
        tables.withLock { tables in
            let name = DialectRecordName(kind, key)
            if isNew { tables.dialectTerms.write([], of: name) }
            tables.dialectTerms.outdated.insert(name)
        }
    }

    package func forgetRecords(expiredBefore date: Date) async throws(UploadError) {
        tables.withLock { tables in
            tables.dialectRecords = tables.dialectRecords.filter { _, record in
                record.expiresAt.map { $0 >= date } ?? true
            }
            for name in tables.dialectTerms.terms.keys where tables.dialectRecords[name] == nil {
                tables.dialectTerms.write([], of: name)
            }
        }
    }
}
