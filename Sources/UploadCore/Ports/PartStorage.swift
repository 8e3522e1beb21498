package import Bytes

/// A storage that takes the bytes of a blob in parts, in any order and several at a time.
///
/// Once the parts are joined, the blob is one that was synchronised, see `BlobStorage`; before that it has no bytes. Blobs
/// that take parts are listed and removed as all others.
package protocol PartStorage: BlobStorage {
    /// Makes a blob that takes parts, and survives a crash.
    ///
    /// - Throws: As `create`.
    func createForParts(_ blob: NewBlob) async throws(UploadError)

    /// Stores a part where no other part is that is recorded or on its way, also one with the same number.
    ///
    /// - Parameters:
    ///   - part: What comes.
    ///   - id: The blob.
    ///   - replaced: Where the recorded part with this number is, if there is one; it stays as it is.
    ///   - source: Pulled until its end; fewer bytes than announced are an error.
    ///   - verify: Called once, after the last byte has come; gives their MD5, and throws if they are not to be stored.
    /// - Returns: Where the part is; its bytes are as durable as the settings ask of what is acknowledged.
    /// - Throws: `.notFound` if there is no such blob, or its parts were joined; what `verify` throws; what became
    ///   of the source; `.storageFull`,
    ///   `.storageFailure`.
    func storePart(
        _ part: NewPart,
        of id: UploadID,
        replacing replaced: String?,
        from source: any ByteSource,
        verifying verify: () async throws(UploadError) -> [UInt8]
    ) async throws(UploadError) -> String

    /// Gives back what a part takes that was stored and is not recorded, or not any more.
    func removePart(_ number: Int, at location: String, of id: UploadID) async

    /// Makes the bytes of recorded parts, one behind the other, the blob; ends parts that are on their way.
    ///
    /// Either all of it happens or nothing, wherever the process dies; if they were joined before, what is left of that is done.
    /// Parts that are not among them are lost.
    ///
    /// - Throws: `.notFound`; `.invalidParts(.tooSmall)`; `.invalidParts(.unnamed)`, here or by `synchronize`, and then nothing
    ///   was joined and parts may come again; `.storageFull`, `.storageFailure`.
    func join(_ parts: [PartRecord], of id: UploadID) async throws(UploadError)

    /// Whether a recorded part that was not joined with others is still there; one that was not durable is lost by a power cut.
    func isThere(_ part: PartRecord) -> Bool

    /// Whether the parts were joined.
    func isJoined(_ id: UploadID) async throws(UploadError) -> Bool
}

extension PartStorage {
    package func isThere(_ part: PartRecord) -> Bool { true }
}

/// What a storage is told of a part before it comes.
package struct NewPart: Sendable, Equatable {
    /// See `PartRecord.numbers`.
    package var number: Int
    /// Bytes.
    package var size: Int64
    /// Bytes that a part must have, as its client knows, where another one follows; one with fewer can only be the last.
    package var minimumSize: Int64

    package init(number: Int, size: Int64, minimumSize: Int64) {
        self.number = number
        self.size = size
        self.minimumSize = minimumSize
    }
}
