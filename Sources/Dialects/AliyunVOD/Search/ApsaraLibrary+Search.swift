internal import Foundation
internal import UploadCore
internal import UploadModel
internal import VODKit

/// What `SearchMedia` looks for.
struct ApsaraQuery: Sendable {
    enum Kind: String, Sendable, CaseIterable {
        case video, audio, image, attached
    }

    var kinds: Set<Kind> = [.video]
    var match = ApsaraMatch.all
    var isOldestFirst = false
    /// How many to leave out before the page.
    var offset = 0
    var limit = 10
    /// Only media after this one, in the order of the query: the last one of the page before.
    var after: String?
}

extension ApsaraLibrary {
    /// Pages end there; media behind them is found by a token ("SearchMedia", ApsaraVideo VOD documentation).
    private static let mostCounted = 5000
    /// More conditions are compared with the media that these find.
    private static let mostConditions = 8

    /// Finds media.
    ///
    /// Parts of titles, sizes and other fields without terms are compared with each media that the other conditions find.
    ///
    /// - Parameters:
    ///   - query: What to find.
    ///   - caller: Whoever may see it.
    /// - Returns: The page, and the number of all media that match, up to `mostCounted`.
    /// - Throws: `UploadError`.
    func search(
        _ query: ApsaraQuery,
        by caller: ApsaraCaller
    ) async throws(UploadError) -> MediaSearch<ApsaraMedia>.Found {
        try await records.addTerms(to: ApsaraMedia.recordKind, as: ApsaraMedia.self)
        var selection = query.match.selection()
        let users = caller.users
        if case .only(let subjects) = users { selection.conditions.append(.init(.user, subjects)) }
        if selection.conditions.isEmpty {
            // Media has one of them, one kind and one application.
            selection.conditions = [.init(.status, ApsaraMedia.Status.allCases.map(\.rawValue))]
        } else {
            selection.isComplete = selection.isComplete && selection.conditions.allSatisfy { $0.values.count == 1 }
        }
        var search = MediaSearch<ApsaraMedia>(
            ApsaraMedia.recordKind,
            try await conditions(of: selection, query.kinds, by: caller),
            isDescending: !query.isOldestFirst,
            limit: query.limit,
            mostCounted: Self.mostCounted
        )
        search.isCounted = selection.isComplete && selection.conditions.count == 1 && users != .some
        search.positions = selection.positions
        search.offset = query.offset
        if let id = query.after {
            // What was deleted a day ago has no record; its id begins with nearly the same time.
            let time = try await records.record(ApsaraMedia.recordKind, id)?.createdAt.unixMilliseconds
            search.after = DialectPlace(time ?? ApsaraMedia.time(ofID: id), id)
        }
        return try await search.found(in: records) { one in
            let media = one.content
            return !media.isDeleted && query.kinds.contains(media.searchKind) && caller.owns(media.subject)
                && caller.may(.searchMedia, in: media.application, at: place) && query.match.holds(for: one)
        }
    }

    /// The terms of the conditions, in the applications that the caller may use.
    private func conditions(
        of selection: ApsaraSelection,
        _ kinds: Set<ApsaraQuery.Kind>,
        by caller: ApsaraCaller
    ) async throws(UploadError) -> [MediaSearch<ApsaraMedia>.Condition] {
        var applications = selection.applications ?? caller.applications
        var found: [MediaSearch<ApsaraMedia>.Condition] = []
        for condition in selection.conditions.sorted(by: { $0.field < $1.field }).prefix(Self.mostConditions) {
            if condition.field == .id { return [.keys(condition.values)] }
            var (terms, used): (Set<String>, Set<String>) = ([], [])
            for prefix in condition.values {
                for kind in kinds {
                    let prefix = "\(prefix)\(kind.rawValue)/"
                    for application in try await applications.orThose(with: prefix, in: records)
                    where caller.may(.searchMedia, in: application, at: place) {
                        terms.insert(prefix + application)
                        used.insert(application)
                    }
                }
            }
            found.append(.terms(terms))
            // Of other applications none satisfies this condition.
            applications = used
        }
        return found
    }
}

extension Set<String>? {
    /// These, or all behind a prefix in terms of media.
    fileprivate func orThose(
        with prefix: String,
        in records: any DialectRecords
    ) async throws(UploadError) -> Set<String> {
        if let self { return self }
        var (found, last): (Set<String>, String?) = ([], nil)
        while let term = try await records.term(of: ApsaraMedia.recordKind, prefix: prefix, after: last) {
            found.insert(String(term.dropFirst(prefix.count)))
            last = term
        }
        return found
    }
}
