internal import UploadModel

/// How concurrent appends share an upload.
extension UploadService {
    /// Decides how a new append treats one that is running on this node.
    ///
    /// A client that names the exact offset that the running append has reached, such as one that reconnects, has asked
    /// for it and takes over at once. All other clients look alike; those with an impossible offset disturb no writer.
    ///
    /// - Parameters:
    ///   - id: The upload.
    ///   - offset: The offset of the new append.
    /// - Returns: How to check whether the running append receives bytes, which protects it; `nil` to take over at
    ///   once.
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
