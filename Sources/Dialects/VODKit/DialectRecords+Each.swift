package import UploadModel

extension DialectRecords {
    /// Does something with each record of a kind, in the order of their keys; those that fail do not keep the others
    /// waiting.
    ///
    /// - Parameters:
    ///   - kind: The kind.
    ///   - prefix: Only keys that begin with these bytes.
    ///   - body: May remove the record.
    /// - Returns: Whether there were any.
    /// - Throws: The first failure of `body`, at the end; `.unavailable`, `.storageFailure`.
    package func each(
        _ kind: String,
        prefix: String = "",
        _ body: (DialectRecord) async throws(UploadError) -> Void
    ) async throws(UploadError) -> Bool {
        var last: String?
        var failure: UploadError?
        while true {
            let page = try await records(kind, prefix: prefix, after: last, limit: 100)
            for record in page {
                last = record.key
                do throws(UploadError) {
                    try await body(record)
                } catch {
                    failure = failure ?? error
                }
            }
            guard page.count < 100 else { continue }
            if let failure { throw failure }
            return last != nil
        }
    }
}
