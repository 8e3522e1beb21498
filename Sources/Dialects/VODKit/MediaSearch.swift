internal import Bytes
internal import Digests
internal import Foundation
package import UploadModel

/// A search for media: the terms of one condition find candidates, and the record decides.
///
/// See docs/decisions/0082-terms-of-records.md.
package struct MediaSearch<Content: FoundByTerms & Sendable & Codable>: Sendable {
    /// What all media that matches has.
    package enum Condition: Sendable, Equatable {
        /// One of these keys.
        case keys(Set<String>)
        /// One of these terms.
        case terms(Set<String>)
    }

    package struct Found: Sendable {
        /// Of all media that matches, up to `mostCounted`.
        package var count = 0
        /// Those of the page.
        package var media: [CodedRecord<Content>] = []
    }

    /// Of records.
    package var kind: String
    /// At least one; that with the fewest records is used.
    package var conditions: [Condition]
    /// Both ends belong to it; nothing is found if the last one is before the first one.
    package var positions: (first: Int64, last: Int64) = (.min, .max)
    package var isDescending: Bool
    /// Only media after this place, in the order of the search.
    package var after: DialectPlace?
    /// How many to leave out before the page.
    package var offset = 0
    package var limit: Int
    /// More are not counted, and there is no page behind them.
    package var mostCounted: Int
    /// Whether all media with the terms of the condition matches, and has one of them only: the index tells its number.
    package var isCounted = false

    package init(_ kind: String, _ conditions: [Condition], isDescending: Bool, limit: Int, mostCounted: Int) {
        self.kind = kind
        self.conditions = conditions
        self.isDescending = isDescending
        self.limit = limit
        self.mostCounted = mostCounted
    }

    /// Reads the media that has one of the terms of a condition, in the order of the search, until it has found the page and
    /// counted enough.
    ///
    /// What cannot be read is left out, and what `addTerms` has not seen.
    ///
    /// - Parameters:
    ///   - records: The records.
    ///   - matches: Whether media satisfies all conditions, and the caller may see it.
    /// - Returns: The page, and the number of all media that matches.
    /// - Throws: `.storageFull`, `.unavailable`, `.storageFailure`.
    package func found(
        in records: any DialectRecords,
        where matches: (CodedRecord<Content>) -> Bool
    ) async throws(UploadError) -> Found {
        guard positions.first <= positions.last else { return Found() }
        for case .keys(let keys) in conditions { return try await found(keys, in: records, where: matches) }
        let terms = try await fewest(in: records)
        let enough = isCounted || after != nil ? min(mostCounted, offset + limit) : mostCounted
        var scan = scan(terms, after: after, in: records)
        var found = Found()
        while found.count < enough, let one = try await Self.next(of: &scan, where: matches) {
            if found.count >= offset, found.media.count < limit { found.media.append(one) }
            found.count += 1
        }
        if isCounted {
            if after != nil || found.count == enough {
                found.count = try await count(terms, upTo: mostCounted, in: records)
            }
        } else if after != nil {
            scan = self.scan(terms, after: nil, in: records)
            found.count = 0
            while found.count < mostCounted, try await Self.next(of: &scan, where: matches) != nil { found.count += 1 }
        }
        return found
    }

    private func found(
        _ keys: Set<String>,
        in records: any DialectRecords,
        where matches: (CodedRecord<Content>) -> Bool
    ) async throws(UploadError) -> Found {
        var all: [(place: DialectPlace, media: CodedRecord<Content>)] = []
        for key in keys where DialectRecord.canBeKey(key) {
            guard let record = try await records.record(kind, key), let one = try? CodedRecord<Content>(record),
                matches(one)
            else { continue }
            all.append((DialectPlace(record.createdAt.unixMilliseconds, key), one))
        }
        all.sort { isDescending ? $1.place.precedes($0.place) : $0.place.precedes($1.place) }
        let rest = after.map { after in
            all.drop { isDescending ? !$0.place.precedes(after) : !after.precedes($0.place) }
        }
        return Found(count: all.count, media: (rest ?? all[...]).dropFirst(offset).prefix(limit).map(\.media))
    }

    private func scan(_ terms: Set<String>, after start: DialectPlace?, in records: any DialectRecords) -> TermScan {
        let positions = positions.first...positions.last
        return TermScan(kind, anyOf: terms, positions: positions, isDescending: isDescending, after: start, in: records)
    }

    private static func next(
        of scan: inout TermScan,
        where matches: (CodedRecord<Content>) -> Bool
    ) async throws(UploadError) -> CodedRecord<Content>? {
        while let next = try await scan.next() {
            if let one = try? CodedRecord<Content>(next.record), matches(one) { return one }
        }
        return nil
    }

    /// The terms of the condition that the fewest records satisfy.
    private func fewest(in records: any DialectRecords) async throws(UploadError) -> Set<String> {
        var fewest: (terms: Set<String>, count: Int)?
        for case .terms(let terms) in conditions {
            if conditions.count == 1 { return terms }
            let count = try await count(terms, upTo: fewest?.count ?? mostCounted, in: records)
            if count < fewest?.count ?? .max { fewest = (terms, count) }
        }
        return fewest?.terms ?? []
    }

    private func count(
        _ terms: Set<String>,
        upTo most: Int,
        in records: any DialectRecords
    ) async throws(UploadError) -> Int {
        var count = 0
        let positions = positions.first...positions.last
        for term in terms where count < most {
            count += try await records.count(
                DialectTermQuery(kind, term, positions: positions, limit: most - count)
            )
        }
        return count
    }
}

/// Whose media a caller may find.
package enum VisibleUsers: Sendable, Equatable {
    case all
    case only([String])
    /// Those whose names match a pattern.
    case some

    package init(_ limits: KeyLimits) {
        if limits.subjects.isEmpty {
            self = .all
        } else {
            self = limits.subjects.contains { $0.hasSuffix("*") } ? .some : .only(limits.subjects)
        }
    }
}

extension DialectTerm {
    /// A text of a user as a part of a term: it can have any characters, and any length.
    package static func part(_ text: String) -> String {
        let bytes = Array(text.utf8)
        return Hexadecimal.encode(bytes.count <= 32 ? bytes : Digest.hash(bytes, .sha256))
    }

    /// The same for canonically equivalent texts, which Swift finds equal.
    package static func canonicalPart(_ text: String) -> String { part(text.precomposedStringWithCanonicalMapping) }
}
