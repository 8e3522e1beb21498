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

    fileprivate func precedes(_ first: CodedRecord<VODMedia>, _ second: CodedRecord<VODMedia>) -> Bool {
        let (one, other) = (Self.rank(first), Self.rank(second))
        return order == .oldestFirst ? one < other : one > other
    }

    /// By time, and for equal times by id.
    private static func rank(_ record: CodedRecord<VODMedia>) -> (Date, String) {
        (record.record.createdAt, record.content.fileID)
    }
}

extension VODLibrary.Found {
    mutating func keepFirst(_ number: Int, of query: VODQuery) {
        guard media.count > number else { return }
        media.sort(by: query.precedes)
        media.removeSubrange(number...)
    }

    /// The page of the query.
    func page(of query: VODQuery) -> Self {
        var copy = self
        copy.media = Array(media.sorted(by: query.precedes).dropFirst(query.offset).prefix(query.limit))
        return copy
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
