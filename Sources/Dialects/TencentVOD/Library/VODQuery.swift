internal import Bytes
internal import Digests
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
    var names: [String] = []
    var namePrefixes: [String] = []
    /// Parts of the description, without regard to case.
    var descriptions: [String] = []
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
        let name = media.name.lowercased()
        let description = media.description.lowercased()
        let created = record.record.createdAt
        return any(fileIDs) { $0 == media.fileID }
            && any(names) { name.contains($0.lowercased()) }
            && any(namePrefixes) { media.name.utf8.starts(with: $0.utf8) }
            && any(descriptions) { description.contains($0.lowercased()) }
            && any(classIDs) { $0 == media.labels.classID ?? 0 }
            && any(tags) { media.tags.contains($0) }
            && any(sources) { $0 == media.source }
            && any(regions) { $0 == media.region }
            && any(types) { $0 == media.video.type }
            && any(categories) { $0 == media.category }
            && (createdAfter.map { created >= $0 } ?? true)
            && (createdBefore.map { created <= $0 } ?? true)
    }

    func precedes(_ first: CodedRecord<VODMedia>, _ second: CodedRecord<VODMedia>) -> Bool {
        let (one, other) = (Self.rank(first), Self.rank(second))
        return order == .oldestFirst ? one < other : one > other
    }

    /// By time, and for equal times by id.
    private static func rank(_ record: CodedRecord<VODMedia>) -> (Date, String) {
        (record.record.createdAt, record.content.fileID)
    }
}

// MARK: Terms

extension VODQuery {
    /// The times in which the media was created, in Unix milliseconds; `nil` for none.
    var positions: ClosedRange<Int64>? {
        let first = createdAfter?.unixMilliseconds ?? .min
        let last = createdBefore?.unixMilliseconds ?? .max
        return first <= last ? first...last : nil
    }

    /// Terms of which all media that matches has one: those of the condition that usually holds for the least media.
    ///
    /// Parts of names and descriptions, sources and regions have none: of a query with no other condition, all media of the
    /// wanted time is read until enough is found.
    func terms(in application: Int64, under limits: KeyLimits) -> Set<String> {
        let term = VODTerm(application)
        if !tags.isEmpty { return Set(tags.map(term.tag)) }
        if !namePrefixes.isEmpty, !namePrefixes.contains("") { return Set(namePrefixes.map(term.namePrefix)) }
        // A pattern stands for any number of users.
        if !limits.subjects.isEmpty, !limits.subjects.contains(where: { $0.hasSuffix("*") }) {
            return Set(limits.subjects.map(term.user))
        }
        if !classIDs.isEmpty { return Set(classIDs.map(term.classID)) }
        if !types.isEmpty { return Set(types.map(term.type)) }
        if !categories.isEmpty { return Set(categories.map(term.category)) }
        return [term.all]
    }
}

extension VODQuery {
    /// Whether all media with the terms matches, and the caller may see it: the query has one condition besides its times, and
    /// that has terms.
    func isOneTerm(under limits: KeyLimits) -> Bool {
        let others = [
            tags.isEmpty, namePrefixes.isEmpty, limits.subjects.isEmpty, classIDs.isEmpty, types.isEmpty,
            categories.isEmpty,
        ]
        return names.isEmpty && descriptions.isEmpty && sources.isEmpty && regions.isEmpty
            && others.count { !$0 } <= 1
            && namePrefixes.allSatisfy { $0.unicodeScalars.count <= VODTerm.longestPrefix }
            && !limits.subjects.contains { $0.hasSuffix("*") }
    }
}

/// The terms of media of an application.
private struct VODTerm {
    /// Scalars of a name that are in terms.
    static let longestPrefix = 4

    let all: String

    init(_ application: Int64) { all = "\(application)" }

    func tag(_ tag: String) -> String { text("tag", tag.precomposedStringWithCanonicalMapping) }
    func type(_ type: String) -> String { text("type", type.precomposedStringWithCanonicalMapping) }
    func user(_ subject: String) -> String { text("user", subject) }
    func classID(_ id: Int64) -> String { "\(all)/class/\(id)" }
    func category(_ category: String) -> String { text("category", category) }

    /// Of all names that begin like this one.
    func namePrefix(_ prefix: String) -> String {
        text("name", String(String.UnicodeScalarView(prefix.unicodeScalars.prefix(Self.longestPrefix))))
    }

    /// All that media with this name has.
    func names(_ name: String) -> [String] {
        let first = Array(name.unicodeScalars.prefix(Self.longestPrefix))
        return first.indices.map { namePrefix(String(String.UnicodeScalarView(first[...$0]))) }
    }

    /// A text of a user can have any characters, and any length.
    private func text(_ name: String, _ value: String) -> String {
        let bytes = Array(value.utf8)
        return "\(all)/\(name)/" + Hexadecimal.encode(bytes.count <= 32 ? bytes : Digest.hash(bytes, .sha256))
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
