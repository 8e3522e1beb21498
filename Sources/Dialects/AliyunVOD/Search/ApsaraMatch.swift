internal import Bytes
internal import Foundation
internal import UploadCore
internal import UploadModel
internal import VODKit

/// A filter of `SearchMedia` ("Media asset search protocol", ApsaraVideo VOD documentation): comparisons of fields joined
/// by `and`, `or` and `not`, with brackets.
///
/// A field is compared with a text (`=`, `!=`), with several of which one must match (`in`, `not in`), or with a range
/// (`CreationTime = ('2026-01-01T00:00:00Z', '2026-02-01T00:00:00Z']`), whose brackets tell whether it has its ends.
indirect enum ApsaraMatch: Sendable, Equatable {
    case all
    case isOne(of: [String], Field)
    /// Of titles and descriptions, in which words are searched for.
    case hasOne(of: [SearchedPart], Field)
    /// Ends as text; empty for none.
    case isWithin(lower: String, hasLower: Bool, upper: String, hasUpper: Bool, Field)
    case both(ApsaraMatch, ApsaraMatch)
    case either(ApsaraMatch, ApsaraMatch)
    case not(ApsaraMatch)

    enum Field: String, Sendable, CaseIterable {
        case title = "Title"
        case description = "Description"
        case tags = "Tags"
        case status = "Status"
        case categoryID = "CateId"
        case creationTime = "CreationTime"
        case modificationTime = "ModificationTime"
        case application = "AppId"
        case size = "Size"
        case mediaID = "MediaId"
        case videoID = "VideoId"
        case imageID = "ImageId"
        case referenceID = "ReferenceId"
        case storageLocation = "StorageLocation"
        case businessType = "BusinessType"
        case imageType = "ImageType"
        case mediaSource = "MediaSource"
    }

    struct Problem: Error, Equatable {
        let message: String
    }

    /// Most comparisons in one filter; a word that is searched for is one, too.
    ///
    /// All media that the conditions with an index find is compared.
    static let maximumCount = 64
    /// Most values after all `in` of one filter.
    static let maximumValues = 256
    /// Most characters of a word that is searched for, counted as Unicode scalars.
    static let longestWord = 256
    /// Most bytes of a filter in UTF-8.
    static let maximumBytes = 16_384

    /// - Throws: `Problem`.
    init(_ text: String) throws(Problem) {
        guard text.utf8.count <= Self.maximumBytes else {
            throw Problem(message: "has more than \(Self.maximumBytes) bytes")
        }
        var parser = Parser(text)
        self = try parser.whole()
    }

    /// Whether media satisfies it.
    func holds(for record: CodedRecord<ApsaraMedia>) -> Bool {
        var texts = Texts()
        return holds(for: record, &texts)
    }

    /// Texts of media that a filter has already made ready to be searched, by field.
    private typealias Texts = [Field: [SearchableText]]

    private func holds(for record: CodedRecord<ApsaraMedia>, _ texts: inout Texts) -> Bool {
        switch self {
        case .all: return true
        case .not(let inner): return !inner.holds(for: record, &texts)
        case .both(let first, let second):
            return first.holds(for: record, &texts) && second.holds(for: record, &texts)
        case .either(let first, let second):
            return first.holds(for: record, &texts) || second.holds(for: record, &texts)
        case .hasOne(let wanted, let field):
            let searchable = texts[field] ?? field.texts(of: record).map { SearchableText($0) }
            texts[field] = searchable
            return searchable.contains { text in wanted.contains { $0.isPart(of: text) } }
        case .isOne(let wanted, let field): return field.texts(of: record).contains { wanted.contains($0) }
        case .isWithin(let lower, let hasLower, let upper, let hasUpper, let field):
            return field.texts(of: record).contains { text in
                (lower.isEmpty || Self.precedes(lower, text) || hasLower && lower == text)
                    && (upper.isEmpty || Self.precedes(text, upper) || hasUpper && upper == text)
            }
        }
    }

    /// Numbers by their size; times, which all have one length, by their text.
    private static func precedes(_ first: String, _ second: String) -> Bool {
        if let one = Int64(first), let other = Int64(second) { return one < other }
        return first < second
    }
}

extension ApsaraMatch.Field {
    /// Whether words are searched for in it; others are compared as a whole.
    fileprivate var isSearched: Bool {
        switch self {
        case .title, .description: true
        case .tags, .status, .categoryID, .creationTime, .modificationTime, .application, .size, .mediaID, .videoID,
            .imageID, .referenceID, .storageLocation, .businessType, .imageType, .mediaSource:
            false
        }
    }

    /// The values of media; several for tags.
    fileprivate func texts(of record: CodedRecord<ApsaraMedia>) -> [String] {
        let media = record.content
        switch self {
        case .title: return [media.labels.title]
        case .description: return [media.labels.description]
        case .tags: return media.labels.tags
        case .status: return [media.status.rawValue]
        case .categoryID: return media.labels.categoryIDs.map(String.init)
        case .creationTime: return [ApsaraDocuments.time(record.record.createdAt)]
        case .modificationTime: return [ApsaraDocuments.time(media.modifiedAt)]
        case .application: return [media.application]
        case .size: return [String(media.content?.size ?? media.announced ?? 0)]
        case .mediaID, .videoID, .imageID: return [media.id]
        case .referenceID: return media.labels.referenceID.map { [$0] } ?? []
        case .storageLocation: return [media.labels.storageLocation ?? media.bucket]
        case .businessType, .imageType: return media.category.map { [$0] } ?? []
        case .mediaSource: return ["general"]
        }
    }
}

/// Reads a filter.
private struct Parser {
    private enum Token: Equatable {
        case word(String)
        case text(String)
        case mark(Character)
        case unequal
    }

    private var tokens: [Token] = []
    private var next = 0
    private var count = 0
    private var valueCount = 0
    private var depth = 0
    private var problem: ApsaraMatch.Problem?

    init(_ text: String) {
        var rest = text[...]
        while let first = rest.first {
            if first.isWhitespace {
                rest.removeFirst()
            } else if first == "'" || first == "\"" {
                let content = rest.dropFirst()
                guard let end = content.firstIndex(of: first) else {
                    problem = .init(message: "has a text without its closing quote")
                    return
                }
                tokens.append(.text(String(content[..<end])))
                rest = content[content.index(after: end)...]
            } else if rest.hasPrefix("!=") {
                tokens.append(.unequal)
                rest = rest.dropFirst(2)
            } else if "=()[],".contains(first) {
                tokens.append(.mark(first))
                rest.removeFirst()
            } else {
                let word = rest.prefix { !$0.isWhitespace && !"=()[],'\"!".contains($0) }
                guard !word.isEmpty else {
                    problem = .init(message: "has an unexpected \(first)")
                    return
                }
                tokens.append(.word(String(word)))
                rest = rest.dropFirst(word.count)
            }
        }
    }

    mutating func whole() throws(ApsaraMatch.Problem) -> ApsaraMatch {
        if let problem { throw problem }
        if tokens.isEmpty { return .all }
        let match = try alternatives()
        guard next == tokens.count else { throw .init(message: "has something after its end") }
        return match
    }

    private mutating func alternatives() throws(ApsaraMatch.Problem) -> ApsaraMatch {
        var match = try conjunction()
        while takeWord("or") { match = .either(match, try conjunction()) }
        return match
    }

    private mutating func conjunction() throws(ApsaraMatch.Problem) -> ApsaraMatch {
        var match = try term()
        while takeWord("and") { match = .both(match, try term()) }
        return match
    }

    private mutating func term() throws(ApsaraMatch.Problem) -> ApsaraMatch {
        depth += 1
        defer { depth -= 1 }
        guard depth <= 16 else { throw .init(message: "has too many brackets inside each other") }
        if takeWord("not") { return .not(try term()) }
        if take(.mark("(")) {
            let match = try alternatives()
            guard take(.mark(")")) else { throw .init(message: "lacks a closing bracket") }
            return match
        }
        return try comparison()
    }

    private mutating func comparison() throws(ApsaraMatch.Problem) -> ApsaraMatch {
        try countComparison()
        guard next < tokens.count, case .word(let name) = tokens[next] else { throw .init(message: "lacks a field") }
        let lower = name.lowercased()
        guard let field = ApsaraMatch.Field.allCases.first(where: { $0.rawValue.lowercased() == lower })
        else { throw .init(message: "has the field \(name.first(scalars: 64)), which is not supported") }
        next += 1
        if take(.unequal) { return .not(try one(of: [try value()], field)) }
        let isNegated = takeWord("not")
        if takeWord("in") {
            let match = try one(of: try values(of: field), field)
            return isNegated ? .not(match) : match
        }
        guard !isNegated, take(.mark("=")) else {
            throw .init(message: "needs =, !=, in or not in after \(field.rawValue)")
        }
        return take(.mark("("))
            ? try range(of: field, hasLower: false)
            : take(.mark("[")) ? try range(of: field, hasLower: true) : try one(of: [try value()], field)
    }

    private mutating func range(of field: ApsaraMatch.Field, hasLower: Bool) throws(ApsaraMatch.Problem) -> ApsaraMatch
    {
        let lower = take(.mark(",")) ? "" : try value()
        if !lower.isEmpty, !take(.mark(",")) { throw .init(message: "needs two values in a range") }
        var upper = ""
        if next < tokens.count, tokens[next] != .mark(")"), tokens[next] != .mark("]") { upper = try value() }
        let hasUpper = take(.mark("]"))
        guard hasUpper || take(.mark(")")) else { throw .init(message: "lacks the closing bracket of a range") }
        return .isWithin(lower: lower, hasLower: hasLower, upper: upper, hasUpper: hasUpper, field)
    }

    /// One of some values, or a text with one of some words.
    private func one(of values: [String], _ field: ApsaraMatch.Field) throws(ApsaraMatch.Problem) -> ApsaraMatch {
        guard field.isSearched else { return .isOne(of: values, field) }
        for word in values where !word.hasScalars(atMost: ApsaraMatch.longestWord) {
            throw .init(message: "has a word of more than \(ApsaraMatch.longestWord) characters")
        }
        return .hasOne(of: values.map { SearchedPart($0) }, field)
    }

    private mutating func countComparison() throws(ApsaraMatch.Problem) {
        count += 1
        guard count <= ApsaraMatch.maximumCount else {
            throw .init(message: "has more than \(ApsaraMatch.maximumCount) comparisons")
        }
    }

    private mutating func values(of field: ApsaraMatch.Field) throws(ApsaraMatch.Problem) -> [String] {
        guard take(.mark("(")) || take(.mark("[")) else { throw .init(message: "needs values in brackets after in") }
        var values: [String] = []
        repeat {
            values.append(try value())
            valueCount += 1
            guard valueCount <= ApsaraMatch.maximumValues else {
                throw .init(message: "has more than \(ApsaraMatch.maximumValues) values after in")
            }
            if values.count > 1, field.isSearched { try countComparison() }
        } while take(.mark(","))
        guard take(.mark(")")) || take(.mark("]")) else { throw .init(message: "lacks a closing bracket") }
        return values
    }

    private mutating func value() throws(ApsaraMatch.Problem) -> String {
        guard next < tokens.count else { throw .init(message: "lacks a value") }
        defer { next += 1 }
        switch tokens[next] {
        case .text(let text), .word(let text): return text
        default: throw .init(message: "lacks a value")
        }
    }

    private mutating func take(_ token: Token) -> Bool {
        guard next < tokens.count, tokens[next] == token else { return false }
        next += 1
        return true
    }

    private mutating func takeWord(_ word: String) -> Bool {
        guard next < tokens.count, case .word(let text) = tokens[next], text.lowercased() == word else { return false }
        next += 1
        return true
    }
}
