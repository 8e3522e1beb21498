internal import Bytes
internal import Foundation
internal import UploadCore
internal import UploadModel
internal import VODKit

/// What `SearchMedia` looks for: media that satisfies each condition; a list is satisfied by any of its members.
struct VODQuery: Sendable, Equatable {
    enum Order: Sendable, Equatable {
        case oldestFirst, newestFirst
    }

    var fileIDs: [String] = []
    /// Parts of the name, without regard to case.
    var names: [SearchedPart] = []
    var namePrefixes: [String] = []
    /// Parts of the description, without regard to case.
    var descriptions: [SearchedPart] = []
    var classIDs: [Int64] = []
    var tags: [String] = []
    var sources: [VODSource] = []
    var regions: [String] = []
    /// Extensions in lower case.
    var types: [String] = []
    /// `Video`, `Audio` or `Image`.
    var categories: [String] = []
    var createdAfter: Date?
    var createdBefore: Date?
    var order = Order.newestFirst
    var offset = 0
    var limit = 10

    func matches(_ record: CodedRecord<VODMedia>) -> Bool {
        let media = record.content
        func any<Wanted>(_ wanted: [Wanted], _ holds: (Wanted) -> Bool) -> Bool {
            wanted.isEmpty || wanted.contains(where: holds)
        }
        func hasAny(_ wanted: [SearchedPart], _ text: String) -> Bool {
            if wanted.isEmpty { return true }
            let searchable = SearchableText(text)
            return wanted.contains { $0.isPart(of: searchable) }
        }
        let created = record.record.createdAt
        return any(fileIDs) { $0 == media.fileID }
            && hasAny(names, media.name)
            && any(namePrefixes) { media.name.utf8.starts(with: $0.utf8) }
            && hasAny(descriptions, media.description)
            && any(classIDs) { $0 == media.labels.classID ?? 0 }
            && any(tags) { media.tags.contains($0) }
            && any(sources) { $0 == media.source }
            && any(regions) { $0 == media.region }
            && any(types) { $0 == media.video.type }
            && any(categories) { $0 == media.category }
            && (createdAfter.map { created >= $0 } ?? true)
            && (createdBefore.map { created <= $0 } ?? true)
    }

    /// Of more than these the vendor's service does not tell the number, either (`TotalCount`, "SearchMedia", VOD
    /// documentation).
    static let mostCounted = 5000

    /// Parts of names and descriptions, sources and regions have no terms: of a query with no other condition, all media of the
    /// wanted time is read until enough is found.
    ///
    /// - Returns: How to find it by the index.
    func search(in application: Int64, under limits: KeyLimits) -> MediaSearch<VODMedia> {
        let term = VODTerm(application)
        let users = VisibleUsers(limits)
        var found: [Set<String>] = [
            Set(tags.map(term.tag)), Set(classIDs.map(term.classID)), Set(types.map(term.type)),
            Set(categories.map(term.category)),
        ]
        if !namePrefixes.contains("") { found.append(Set(namePrefixes.map(term.namePrefix))) }
        if case .only(let subjects) = users { found.append(Set(subjects.map(term.user))) }
        found.removeAll(where: \.isEmpty)
        if found.isEmpty { found = [[term.all]] }
        let conditions: [MediaSearch<VODMedia>.Condition] =
            fileIDs.isEmpty ? found.map { .terms($0) } : [.keys(Set(fileIDs.map { VODMedia.key($0, of: application) }))]
        var search = MediaSearch(
            VODMedia.kind,
            conditions,
            isDescending: order == .newestFirst,
            limit: limit,
            mostCounted: Self.mostCounted
        )
        search.positions = (createdAfter?.unixMilliseconds ?? .min, createdBefore?.unixMilliseconds ?? .max)
        search.offset = offset
        search.isCounted =
            found.count == 1 && found[0].count == 1 && users != .some
            && names.isEmpty && descriptions.isEmpty && sources.isEmpty && regions.isEmpty
            && namePrefixes.allSatisfy { (1...VODTerm.longestPrefix).contains($0.unicodeScalars.count) }
        return search
    }
}

// MARK: Terms

/// The terms of media of an application.
private struct VODTerm {
    /// Scalars of a name that are in terms.
    static let longestPrefix = 4

    let all: String

    init(_ application: Int64) { all = "\(application)" }

    func tag(_ tag: String) -> String { "\(all)/tag/\(DialectTerm.canonicalPart(tag))" }
    func type(_ type: String) -> String { "\(all)/type/\(DialectTerm.canonicalPart(type))" }
    func user(_ subject: String) -> String { "\(all)/user/\(DialectTerm.part(subject))" }
    func classID(_ id: Int64) -> String { "\(all)/class/\(id)" }
    func category(_ category: String) -> String { "\(all)/category/\(DialectTerm.part(category))" }

    /// Of all names that begin like this one.
    func namePrefix(_ prefix: String) -> String {
        "\(all)/name/\(DialectTerm.part(prefix.first(scalars: Self.longestPrefix)))"
    }

    /// All that media with this name has.
    func names(_ name: String) -> [String] {
        let first = Array(name.unicodeScalars.prefix(Self.longestPrefix))
        return first.indices.map { namePrefix(String(String.UnicodeScalarView(first[...$0]))) }
    }
}

extension VODMedia: FoundByTerms {
    func terms(createdAt time: Date) -> [DialectTerm] {
        if isDeleted { return [] }
        let term = VODTerm(owner.application)
        var terms: Set = [
            term.all, term.classID(labels.classID ?? 0), term.type(video.type), term.category(category),
        ]
        terms.formUnion(tags.map(term.tag))
        terms.formUnion(term.names(name))
        if let subject = owner.subject { terms.insert(term.user(subject)) }
        return terms.map { DialectTerm($0, at: time.unixMilliseconds) }
    }
}

extension VODMedia {
    /// `Video`, `Audio` or `Image`, by the extension.
    var category: String {
        switch MediaTypes.type(ofExtension: video.type)?.prefix(while: { $0 != "/" }) {
        case "audio": "Audio"
        case "image": "Image"
        default: "Video"
        }
    }
}
