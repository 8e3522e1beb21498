package import UploadModel

extension DialectRecords {
    /// Does something with each record of a kind, in the order of their keys; those that fail do not keep the others
    /// waiting.
    ///
    /// - Parameters:
    ///   - kind: The kind.
    ///   - prefix: Only keys that begin with these bytes.
    ///   - failing: Those that are put off are left out.
    ///   - body: May remove the record.
    /// - Returns: Whether there were any.
    /// - Throws: The first failure of `body`, at the end; `.unavailable`, `.storageFailure`.
    package func each(
        _ kind: String,
        prefix: String = "",
        failing: FailingRecords = FailingRecords(),
        _ body: (DialectRecord) async throws(UploadError) -> Void
    ) async throws(UploadError) -> Bool {
        var last: String?
        var failure: UploadError?
        while true {
            let page = try await records(kind, prefix: prefix, after: last, limit: 100)
            for record in page {
                last = record.key
                let failed = await failing.attempt(record, body)
                failure = failure ?? failed
            }
            guard page.count < 100 else { continue }
            if let failure { throw failure }
            return last != nil
        }
    }

    /// Does something with each record that has a term, as the other `each`, in the order of their places.
    ///
    /// - Parameters:
    ///   - kind: The kind.
    ///   - term: The term.
    ///   - end: Only positions up to this one.
    ///   - failing: Those that are put off are left out.
    ///   - body: May change and remove the record.
    /// - Returns: Whether there were any.
    /// - Throws: The first failure of `body`, at the end; `.unavailable`, `.storageFailure`.
    package func each(
        _ kind: String,
        _ term: String,
        upTo end: Int64,
        failing: FailingRecords,
        _ body: (DialectRecord) async throws(UploadError) -> Void
    ) async throws(UploadError) -> Bool {
        var due = TermScan(kind, anyOf: [term], positions: .min...end, isDescending: false, in: self)
        var hasAny = false
        var failure: UploadError?
        while let record = try await due.next()?.record {
            hasAny = true
            let failed = await failing.attempt(record, body)
            failure = failure ?? failed
        }
        if let failure { throw failure }
        return hasAny
    }
}
