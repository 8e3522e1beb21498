package import Bytes

/// A storage that accepts the bytes of a blob in parts, in any order and several at a time.
///
/// Once its parts are joined, the blob counts as synchronised (see `BlobStorage`); before that it has no bytes. Such
/// blobs are listed and removed like all others.
package protocol PartStorage: BlobStorage {
    /// Creates a blob that takes parts and survives a crash.
    ///
    /// - Throws: The same errors as `create`.
    func createForParts(_ blob: NewBlob) async throws(UploadError)

    /// Stores a part in a place of its own, separate from all recorded and incoming parts, even those with the same
    /// number.
    ///
    /// - Parameters:
    ///   - part: Describes the incoming part.
    ///   - id: The blob.
    ///   - replaced: Location of the recorded part with this number, if any; that part is left unchanged.
    ///   - source: Pulled until its end; fewer bytes than announced are an error. If the size is not known, the source
    ///     counts its bytes and fails when there are too many.
    ///   - verify: Called once, after the last byte; returns the MD5 of the bytes, and throws if they must not be
    ///     stored.
    /// - Returns: The location of the part; its bytes are as durable as the settings require for acknowledged bytes.
    /// - Throws: `.notFound` if there is no such blob or its parts were joined; what `verify` throws; the failure of
    ///   the source; `.storageFull`, `.storageFailure`.
    func storePart(
        _ part: NewPart,
        of id: UploadID,
        replacing replaced: String?,
        from source: any ByteSource,
        verifying verify: () async throws(UploadError) -> [UInt8]
    ) async throws(UploadError) -> String

    /// Frees the space of a stored part that is not, or no longer, recorded.
    func removePart(_ number: Int, at location: String, of id: UploadID) async

    /// Joins the bytes of recorded parts, in order, into the blob; aborts parts that are still arriving.
    ///
    /// The join is atomic, wherever the process dies. If the parts were joined before, it only finishes what remains.
    /// Parts that are not listed are lost.
    ///
    /// - Throws: `.notFound`; `.invalidParts(.tooSmall)`; `.invalidParts(.unnamed)`, here or from `synchronize`, in
    ///   which case nothing was joined and parts may be added again; `.storageFull`, `.storageFailure`.
    func join(_ parts: [PartRecord], of id: UploadID) async throws(UploadError)

    /// Whether a recorded, unjoined part still exists; a power cut loses one that was not durable.
    func isThere(_ part: PartRecord) -> Bool

    /// Whether the parts were joined.
    func isJoined(_ id: UploadID) async throws(UploadError) -> Bool

    /// The interface for parts that are stored whole; `nil` if the storage gains nothing by that.
    var wholePartStorage: (any WholePartStorage)? { get }
}

/// Stores small parts in one step.
package protocol WholePartStorage: Sendable {
    /// Like `PartStorage.storePart`, for a part of known size whose bytes are all in memory.
    ///
    /// - Parameters:
    ///   - part: Describes the part; it has as many bytes as `content`.
    ///   - id: The blob.
    ///   - replaced: Location of the recorded part with this number, if any; that part is left unchanged.
    ///   - content: All bytes.
    ///   - hash: Called once, before `verify`, on a thread that may be busy for long.
    ///   - verify: As for `storePart`.
    /// - Returns: The location of the part; its bytes are as durable as the settings require for acknowledged bytes.
    /// - Throws: As `storePart`.
    func storePart(
        _ part: NewPart,
        of id: UploadID,
        replacing replaced: String?,
        content: [UInt8],
        hashing hash: @escaping @Sendable ([UInt8]) -> Void,
        verifying verify: () async throws(UploadError) -> [UInt8]
    ) async throws(UploadError) -> String
}

extension PartStorage {
    package var wholePartStorage: (any WholePartStorage)? { nil }

    package func isThere(_ part: PartRecord) -> Bool { true }
}

/// Describes a part before its bytes arrive.
package struct NewPart: Sendable, Equatable {
    /// See `PartRecord.numbers`.
    package var number: Int
    /// Bytes; `nil` if only the end of the source reveals it.
    package var size: Int64?
    /// The client's minimum size in bytes for every part but the last; a smaller one can only be the last.
    package var minimumSize: Int64

    package init(number: Int, size: Int64?, minimumSize: Int64) {
        self.number = number
        self.size = size
        self.minimumSize = minimumSize
    }
}
