/// A storage whose bytes can be compared with records, beside a running gateway and without changing anything.
package protocol InspectedStorage: MarkedStorage {
    /// The bytes that a blob has now, as the file system or the store says.
    ///
    /// - Returns: In bytes; `nil` if there is no such blob, or its parts are not joined.
    /// - Throws: `.unavailable`, `.storageFailure`.
    func storedLength(of id: UploadID) async throws(UploadError) -> Int64?

    /// The numbers of recorded parts whose bytes are missing or incomplete; none once they are joined.
    ///
    /// - Throws: `.notFound` if nothing is stored for the upload; `.unavailable`, `.storageFailure`.
    func missingParts(among parts: [PartRecord], of id: UploadID) async throws(UploadError) -> [Int]
}
