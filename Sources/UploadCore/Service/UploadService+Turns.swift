/// How appends at the same time get on.
extension UploadService {
    /// What a new append knows of one that runs on this node.
    ///
    /// Whoever names just the offset that the running one has come to has learned it, and takes over at once: so does a client that
    /// comes back. All others can not be told from each other; those at an offset that can not be right disturb nobody.
    ///
    /// - Parameters:
    ///   - id: The upload.
    ///   - offset: Where the new one would begin.
    /// - Returns: How to see whether the running one brings bytes, for as long as which it is spared; `nil` to take over at once.
    /// - Throws: `.offsetMismatch`.
    func sparing(writerOf id: UploadID, at offset: Int64) async throws(UploadError) -> (@Sendable () async -> Int64?)? {
        let storage = storage
        let length: @Sendable () async -> Int64? = { try? await storage.currentLength(of: id) }
        guard let start = appends.start(of: id), let current = await length() else { return length }
        guard (start...max(start, current)).contains(offset) else {
            throw UploadError(
                .offsetMismatch(expected: start),
                "Another request is adding to the \(start) bytes of this upload; ask for the offset before sending more."
            )
        }
        return offset == current && current > start ? nil : length
    }
}
