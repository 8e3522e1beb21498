package import Foundation

/// A change of one record; `DialectRecords.apply` makes several in one transaction.
package enum DialectChange: Sendable, Equatable {
    /// Inserts a record with version 1; refused if there is one of this kind and key that has not expired at `at`. An
    /// expired one is replaced.
    case insert(DialectRecord, at: Date)
    /// Like `insert`, but leaves a record that is there as it is.
    case insertIfAbsent(DialectRecord, at: Date)
    /// Replaces text and expiry; refused unless the stored version is still `record.version`. The new one is one higher.
    ///
    /// A record that was removed, or had expired, and was inserted anew has version 1 again.
    case replace(DialectRecord)
    /// Removes a record; refused if there is none, or if it has another version than this one.
    case remove(kind: String, key: String, version: Int64?)
    /// Removes a record if there is one.
    case removeIfPresent(kind: String, key: String)

    package var kind: String {
        switch self {
        case .insert(let record, _), .insertIfAbsent(let record, _), .replace(let record): record.kind
        case .remove(let kind, _, _), .removeIfPresent(let kind, _): kind
        }
    }

    package var key: String {
        switch self {
        case .insert(let record, _), .insertIfAbsent(let record, _), .replace(let record): record.key
        case .remove(_, let key, _), .removeIfPresent(_, let key): key
        }
    }

    /// The record that is stored if the change is made.
    package var written: DialectRecord? {
        switch self {
        case .insert(let record, _), .insertIfAbsent(let record, _), .replace(let record): record
        case .remove, .removeIfPresent: nil
        }
    }

    /// Whether nothing is changed if this changes nothing.
    package var isRequired: Bool {
        switch self {
        case .insert, .replace, .remove: true
        case .insertIfAbsent, .removeIfPresent: false
        }
    }

    package var isRemoval: Bool {
        switch self {
        case .insert, .insertIfAbsent, .replace: false
        case .remove, .removeIfPresent: true
        }
    }

    /// Changes in the order in which a store makes them: that of kinds and keys, so that two transactions with the same
    /// records do not wait for each other.
    ///
    /// - Returns: `nil` if one of them requires a record that cannot exist.
    /// - Throws: `.invalidRequest` for a record with U+0000.
    package static func ordered(_ changes: [DialectChange]) throws(UploadError) -> [DialectChange]? {
        var ordered: [DialectChange] = []
        for change in changes {
            switch change {
            case .insert(let record, _), .insertIfAbsent(let record, _), .replace(let record):
                try record.checkTexts()
                ordered.append(change)
            case .remove, .removeIfPresent:
                if DialectRecord.canBeKey(change.key) {
                    ordered.append(change)
                } else if change.isRequired {
                    return nil
                }
            }
        }
        return ordered.sorted { ($0.kind, $0.key) < ($1.kind, $1.key) }
    }
}
