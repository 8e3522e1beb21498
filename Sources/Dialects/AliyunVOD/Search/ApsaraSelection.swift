internal import Foundation
internal import UploadModel
internal import VODKit

/// What an index tells of the media that a filter matches.
struct ApsaraSelection: Sendable, Equatable {
    /// Fields with terms; those whose values usually have less media come first.
    enum Field: String, Sendable, Comparable, CaseIterable {
        case id, user, reference, tag, category, status

        /// What all terms for one of its values begin with.
        func prefix(_ value: String) -> String {
            // Users are told apart byte by byte.
            "\(rawValue)/\(self == .user ? DialectTerm.part(value) : DialectTerm.canonicalPart(value))/"
        }

        static func < (one: Self, other: Self) -> Bool {
            allCases.firstIndex(of: one) ?? 0 < allCases.firstIndex(of: other) ?? 0
        }
    }

    /// One of several values, as ids or prefixes of terms.
    struct Condition: Sendable, Equatable {
        /// Of several fields the last one.
        var field: Field
        var values: Set<String>

        init(_ field: Field, _ values: [String]) {
            self.field = field
            self.values = field == .id ? Set(values) : Set(values.map(field.prefix))
        }
    }

    /// All media that matches satisfies each of them.
    var conditions: [Condition] = []
    /// When it was created, in Unix milliseconds; both ends belong to it.
    var positions: (first: Int64, last: Int64) = (.min, .max)
    /// `nil` for any.
    var applications: Set<String>?
    /// Whether all media for which this holds matches.
    var isComplete = false

    /// What holds if both hold.
    func and(_ other: Self) -> Self {
        var both = self
        both.conditions += other.conditions
        both.positions = (max(positions.first, other.positions.first), min(positions.last, other.positions.last))
        both.applications =
            applications.map { mine in other.applications.map(mine.intersection) ?? mine }
            ?? other.applications
        both.isComplete = isComplete && other.isComplete
        return both
    }

    /// What holds if one of them holds.
    func or(_ other: Self) -> Self {
        var either = Self()
        let rarest: (Self) -> Condition? = { $0.conditions.min { $0.field < $1.field } }
        // Media is looked up by ids or by terms.
        if var one = rarest(self), let two = rarest(other), (one.field == .id) == (two.field == .id) {
            one.values.formUnion(two.values)
            one.field = max(one.field, two.field)
            if one.values.count <= ApsaraMatch.maximumCount { either.conditions = [one] }
        }
        either.positions = (min(positions.first, other.positions.first), max(positions.last, other.positions.last))
        if let mine = applications, let others = other.applications { either.applications = mine.union(others) }
        return either
    }

    static func == (one: Self, other: Self) -> Bool {
        one.conditions == other.conditions && one.positions == other.positions
            && one.applications == other.applications && one.isComplete == other.isComplete
    }
}

extension ApsaraMatch {
    /// What an index tells of the media that it matches; if it is negated, of the other media.
    func selection(isNegated: Bool = false) -> ApsaraSelection {
        switch self {
        case .all: return ApsaraSelection(isComplete: !isNegated)
        case .not(let inner): return inner.selection(isNegated: !isNegated)
        case .both(let first, let second), .either(let first, let second):
            let (one, other) = (first.selection(isNegated: isNegated), second.selection(isNegated: isNegated))
            if case .both = self { return isNegated ? one.or(other) : one.and(other) }
            return isNegated ? one.and(other) : one.or(other)
        case .isOne(let wanted, let field):
            return isNegated ? ApsaraSelection() : field.selection(of: wanted)
        case .isWithin(let lower, let hasLower, let upper, let hasUpper, .creationTime) where !isNegated:
            let (first, last) = (Self.time(lower), Self.time(upper))
            guard lower.isEmpty || first != nil, upper.isEmpty || last != nil else { return ApsaraSelection() }
            let start = first.map { hasLower ? $0 : $0 + 1000 } ?? .min
            let end = last.map { hasUpper ? $0 + 999 : $0 - 1 } ?? .max
            return ApsaraSelection(positions: (start, end), isComplete: true)
        case .hasOne, .isWithin: return ApsaraSelection()
        }
    }

    /// Unix milliseconds of a time of the form in which times are compared, which have no fraction.
    fileprivate static func time(_ text: String) -> Int64? {
        guard let time = try? Date(text, strategy: .iso8601), ApsaraDocuments.time(time) == text else { return nil }
        return time.unixMilliseconds
    }
}

extension ApsaraMatch.Field {
    fileprivate func selection(of wanted: [String]) -> ApsaraSelection {
        guard wanted.count <= ApsaraMatch.maximumCount else { return ApsaraSelection() }
        func one(of field: ApsaraSelection.Field) -> ApsaraSelection {
            ApsaraSelection(conditions: [.init(field, wanted)], isComplete: true)
        }
        switch self {
        case .tags: return one(of: .tag)
        case .status: return one(of: .status)
        case .categoryID: return one(of: .category)
        case .mediaID, .videoID, .imageID: return one(of: .id)
        case .referenceID: return one(of: .reference)
        case .application:
            return ApsaraSelection(
                applications: Set(wanted.filter(AliyunVODSettings.isAppID)),
                isComplete: true
            )
        case .creationTime:
            guard wanted.count == 1, let time = ApsaraMatch.time(wanted[0]) else { return ApsaraSelection() }
            return ApsaraSelection(positions: (time, time + 999), isComplete: true)
        case .title, .description, .modificationTime, .size, .storageLocation, .businessType, .imageType, .mediaSource:
            return ApsaraSelection()
        }
    }
}

extension ApsaraMedia: FoundByTerms {
    /// `Uploading` until its content has arrived ("Basic structures", ApsaraVideo VOD documentation).
    enum Status: String, Sendable, CaseIterable {
        case uploading = "Uploading"
        case normal = "Normal"
    }

    var status: Status { content == nil ? .uploading : .normal }

    func terms(createdAt time: Date) -> [DialectTerm] {
        if isDeleted { return [] }
        var prefixes: Set = [ApsaraSelection.Field.status.prefix(status.rawValue)]
        prefixes.formUnion(labels.tags.map(ApsaraSelection.Field.tag.prefix))
        prefixes.formUnion(labels.categoryIDs.map { ApsaraSelection.Field.category.prefix(String($0)) })
        if let reference = labels.referenceID { prefixes.insert(ApsaraSelection.Field.reference.prefix(reference)) }
        if let subject { prefixes.insert(ApsaraSelection.Field.user.prefix(subject)) }
        return prefixes.map { DialectTerm("\($0)\(searchKind.rawValue)/\(application)", at: time.unixMilliseconds) }
    }

    var searchKind: ApsaraQuery.Kind {
        switch kind {
        case .video: isAudio ? .audio : .video
        case .image: .image
        case .attached: .attached
        }
    }
}
