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

struct ApsaraFound: Sendable {
    /// Of all media that match, on this page or not.
    var count: Int64 = 0
    /// Those of the page.
    var media: [CodedRecord<ApsaraMedia>] = []
}

extension ApsaraLibrary {
    private static let page = 500

    /// Finds media.
    ///
    /// It looks at each media that was created in the time of the query, so its cost grows with their number.
    ///
    /// - Parameters:
    ///   - query: What to find.
    ///   - isAllowed: Whether the caller may see media.
    /// - Returns: The page, and the number of all media that match.
    /// - Throws: `UploadError`.
    func search(_ query: ApsaraQuery, where isAllowed: (ApsaraMedia) -> Bool) async throws(UploadError) -> ApsaraFound {
        var found = ApsaraFound()
        let times = query.match.creation
        // Ids begin with the time, which is some seconds before that of the record if the server is slow. Times in a query
        // have no fraction.
        var last = times.after.map { ApsaraMedia.id(notBefore: $0.addingTimeInterval(-60)) }
        let end = times.before.map { ApsaraMedia.id(notBefore: $0.addingTimeInterval(2)) }
        let most = query.offset + query.limit
        while true {
            let page = try await records.records(ApsaraMedia.recordKind, prefix: "", after: last, limit: Self.page)
            for record in page {
                last = record.key
                if let end, record.key >= end { return found.page(of: query) }
                // What cannot be read does not keep others from being found.
                guard let one = try? CodedRecord<ApsaraMedia>(record), !one.content.isDeleted,
                    query.kinds.contains(one.content.searchKind), isAllowed(one.content), query.match.holds(for: one)
                else { continue }
                found.count += 1
                if let after = query.after {
                    guard query.isOldestFirst ? record.key > after : record.key < after else { continue }
                }
                // Records come oldest first; only what the page can show is kept.
                if !query.isOldestFirst || found.media.count < most { found.media.append(one) }
            }
            if !query.isOldestFirst, found.media.count > most {
                found.media.removeFirst(found.media.count - most)
            }
            if page.count < Self.page { return found.page(of: query) }
        }
    }
}

extension ApsaraFound {
    fileprivate func page(of query: ApsaraQuery) -> ApsaraFound {
        var copy = self
        let ordered = query.isOldestFirst ? media : media.reversed()
        copy.media = Array(ordered.dropFirst(query.offset).prefix(query.limit))
        return copy
    }
}

extension ApsaraMedia {
    fileprivate var searchKind: ApsaraQuery.Kind {
        switch kind {
        case .video: isAudio ? .audio : .video
        case .image: .image
        case .attached: .attached
        }
    }
}
