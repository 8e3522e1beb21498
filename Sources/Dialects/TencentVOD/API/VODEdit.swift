internal import Bytes
internal import CloudCalls
internal import Foundation
internal import UploadCore
internal import UploadModel
internal import VODKit

/// What `ModifyMediaInfo` changes.
struct VODEdit: Sendable {
    private static let mostTags = 16

    private let name: String?
    private let description: String?
    private let classID: Int64?
    private let added: [String]
    private let removed: Set<ExactText>
    private let removesAllTags: Bool
    private let now: Date

    /// - Throws: `InvalidParameterValue…`, with the limits of "ModifyMediaInfo", VOD documentation.
    init(_ parameters: inout VODParameters, at now: Date) throws(VODError) {
        name = try parameters.text("Name", atMost: 64)
        guard name.map(VODNewFile.isName) ?? true else {
            throw parameters.wrong("Name", "must not contain \\ / : * ? \" < > | or control characters")
        }
        description = try parameters.text("Description", atMost: 128)
        classID = try parameters.integer("ClassId", in: -1...Int64.max)
        added = try parameters.texts("AddTags", atMost: Self.mostTags, of: 32)
        removed = Set(try parameters.texts("DeleteTags", atMost: Self.mostTags, of: 32).map { ExactText($0) })
        removesAllTags = try parameters.integer("ClearTags", in: 0...1) == 1
        self.now = now
    }

    /// - Throws: `LimitExceeded.TagCountReachMax`.
    func apply(to media: inout VODMedia) throws(VODError) {
        if let name { media.name = name }
        if let description { media.description = description }
        if let classID { media.labels.classID = max(classID, 0) }
        if removesAllTags { media.tags = [] }
        media.tags.removeAll { removed.contains(ExactText($0)) }
        for tag in added where !media.tags.contains(where: { $0.isExactly(tag) }) { media.tags.append(tag) }
        guard media.tags.count <= Self.mostTags else {
            throw VODError("LimitExceeded.TagCountReachMax", "Media can have at most \(Self.mostTags) tags.")
        }
        media.updatedAt = now.unixSeconds
    }
}

extension VODQuery {
    /// The parameters of `SearchMedia`, with the limits of its documentation.
    init(_ parameters: inout VODParameters) throws(VODError) {
        fileIDs = try parameters.texts("FileIds", atMost: 10, of: 64)
        names = try parameters.texts("Names", atMost: 10).map { SearchedPart($0) }
        // The older name of a single one.
        if let text = try parameters.text("Text", atMost: 64) { names.append(SearchedPart(text)) }
        namePrefixes = try parameters.texts("NamePrefixes", atMost: 10)
        descriptions = try parameters.texts("Descriptions", atMost: 10).map { SearchedPart($0) }
        classIDs = try parameters.integers("ClassIds", atMost: 10)
        tags = try parameters.texts("Tags", atMost: 16)
        regions = try parameters.texts("StorageRegions", atMost: 20)
        types = try parameters.texts("MediaTypes", atMost: 20).map { $0.lowercasedASCII() }
        categories = try parameters.texts("Categories", atMost: 3)
        var wanted = try parameters.texts("SourceTypes", atMost: 10)
        if let text = try parameters.text("SourceType") { wanted.append(text) }
        for name in wanted {
            switch name {
            case "Upload": sources += [.client, .server]
            case VODSource.client.rawValue: sources.append(.client)
            case VODSource.server.rawValue: sources.append(.server)
            default: throw parameters.wrong("SourceTypes", "can be Upload, ClientUpload or ServerUpload here")
            }
        }
        if var time = try parameters.object("CreateTime") {
            createdAfter = try time.time("After")
            createdBefore = try time.time("Before")
            try time.finish()
        }
        if let time = try parameters.time("StartTime") { createdAfter = time }
        if let time = try parameters.time("EndTime") { createdBefore = time }
        if var sort = try parameters.object("Sort") {
            guard try sort.text("Field") ?? "CreateTime" == "CreateTime" else {
                throw sort.wrong("Field", "must be CreateTime")
            }
            switch try sort.text("Order") {
            case nil, "Desc"?: order = .newestFirst
            case "Asc"?: order = .oldestFirst
            default: throw sort.wrong("Order", "must be Asc or Desc")
            }
            try sort.finish()
        }
        // Together at most 5000, as the vendor has it.
        offset = Int(try parameters.integer("Offset", in: 0...5000) ?? 0)
        limit = Int(try parameters.integer("Limit", in: 1...5000) ?? 10)
        guard offset + limit <= 5000 else {
            throw parameters.wrong("Limit", "and `Offset` must together be at most 5000")
        }
    }
}
