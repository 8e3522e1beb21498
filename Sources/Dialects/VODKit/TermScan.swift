package import UploadModel

/// The records of a kind that have at least one of several terms, each once, in the order of their places.
package struct TermScan: Sendable {
    private struct List: Sendable {
        var query: DialectTermQuery
        var page: ArraySlice<FoundRecord> = []
        var isOver = false
    }

    private let records: any DialectRecords
    private var lists: [List]

    /// - Parameters:
    ///   - kind: The kind.
    ///   - terms: The terms; each stands for a range of an index.
    ///   - positions: Both ends belong to it.
    ///   - isDescending: Whether the last place comes first.
    ///   - start: Only records after this place.
    ///   - page: How many are read at once of each term; by default 200 of all terms together.
    ///   - records: The records.
    package init(
        _ kind: String,
        anyOf terms: Set<String>,
        positions: ClosedRange<Int64>,
        isDescending: Bool,
        after start: DialectPlace? = nil,
        atOnce page: Int? = nil,
        in records: any DialectRecords
    ) {
        self.records = records
        let limit = page ?? max(20, 200 / max(1, terms.count))
        lists = terms.map { term in
            List(
                query: DialectTermQuery(
                    kind,
                    term,
                    positions: positions,
                    isDescending: isDescending,
                    after: start,
                    limit: limit
                )
            )
        }
    }

    /// The next record; `nil` at the end.
    package mutating func next() async throws(UploadError) -> FoundRecord? {
        var first: FoundRecord?
        for index in lists.indices {
            try await fill(&lists[index])
            guard let head = lists[index].page.first else { continue }
            let query = lists[index].query
            if let found = first {
                let isEarlier =
                    query.isDescending ? found.place.precedes(head.place) : head.place.precedes(found.place)
                if isEarlier { first = head }
            } else {
                first = head
            }
        }
        guard let first else { return nil }
        // It may have several of the terms.
        for index in lists.indices where lists[index].page.first?.place == first.place {
            lists[index].page.removeFirst()
        }
        return first
    }

    /// Whether there may be more records than a number; reads one page of each term.
    mutating func mayHaveMore(than count: Int) async throws(UploadError) -> Bool {
        for index in lists.indices { try await fill(&lists[index]) }
        return lists.reduce(0) { $0 + $1.page.count } > count || lists.contains { !$0.isOver }
    }

    private func fill(_ list: inout List) async throws(UploadError) {
        guard list.page.isEmpty, !list.isOver else { return }
        let page = try await records.records(list.query)
        list.isOver = page.count < list.query.limit
        list.query.after = page.last?.place
        list.page = page[...]
    }
}

extension DialectRecords {
    /// Writes the terms of records that an earlier version wrote last; reads nothing but these.
    ///
    /// What cannot be read stays without terms, and is found by nobody.
    ///
    /// - Parameters:
    ///   - kind: The kind.
    ///   - type: Of their content.
    ///   - failing: What cannot be read is noted here, and is not reported again before its time.
    /// - Returns: How the first record failed that was not put off.
    /// - Throws: `.storageFull`, `.unavailable`, `.storageFailure`.
    @discardableResult
    package func addTerms<Content>(
        to kind: String,
        as type: Content.Type,
        failing: FailingRecords = FailingRecords()
    ) async throws(UploadError) -> UploadError? where Content: FoundByTerms & Sendable & Codable {
        var last: String?
        var failure: UploadError?
        while true {
            let page = try await recordsWithoutTerms(kind, after: last, limit: 100)
            last = page.last?.key
            var changes: [DialectChange] = []
            for record in page {
                let failed = await failing.attempt(record) { (record) throws(UploadError) in
                    changes.append(.replace(try CodedRecord<Content>(record).record))
                }
                failure = failure ?? failed
            }
            if !changes.isEmpty, try await !apply(changes) {
                // Some were changed meanwhile.
                for change in changes { _ = try await apply([change]) }
            }
            if page.count < 100 { return failure }
        }
    }

    /// Does that in the background.
    package func addingTerms<Content>(
        to kind: String,
        as type: Content.Type
    ) -> BackgroundWork.Step where Content: FoundByTerms & Sendable & Codable {
        { (failing) throws(UploadError) in
            if let failure = try await addTerms(to: kind, as: type, failing: failing) { throw failure }
            return false
        }
    }
}
