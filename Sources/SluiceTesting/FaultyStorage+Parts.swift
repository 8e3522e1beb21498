package import Bytes
internal import UploadCore
package import UploadModel

extension FaultyStorage: PartStorage {
    package var partStorage: (any PartStorage)? { base.partStorage == nil ? nil : self }

    private var parts: any PartStorage {
        get throws(UploadError) {
            guard let parts = base.partStorage else {
                throw UploadError(.storageFailure, "The storage below takes no parts.")
            }
            return parts
        }
    }

    package func createForParts(_ blob: NewBlob) async throws(UploadError) {
        try await plan.step(.createForParts)
        try await parts.createForParts(blob)
    }

    package func storePart(
        _ part: NewPart,
        of id: UploadID,
        replacing replaced: String?,
        from source: any ByteSource,
        verifying verify: () async throws(UploadError) -> [UInt8]
    ) async throws(UploadError) -> String {
        try await plan.step(.storePart)
        return try await parts.storePart(part, of: id, replacing: replaced, from: source, verifying: verify)
    }

    package var wholePartStorage: (any WholePartStorage)? { base.partStorage?.wholePartStorage == nil ? nil : self }

    package func removePart(_ number: Int, at location: String, of id: UploadID) async {
        await (try? parts)?.removePart(number, at: location, of: id)
    }

    package func join(_ records: [PartRecord], of id: UploadID) async throws(UploadError) {
        try await plan.step(.join)
        try await parts.join(records, of: id)
    }

    package func isJoined(_ id: UploadID) async throws(UploadError) -> Bool {
        try await plan.step(.isJoined)
        return try await parts.isJoined(id)
    }
}

extension FaultyStorage: WholePartStorage {
    package func storePart(
        _ part: NewPart,
        of id: UploadID,
        replacing replaced: String?,
        content: [UInt8],
        hashing hash: @escaping @Sendable ([UInt8]) -> Void,
        verifying verify: () async throws(UploadError) -> [UInt8]
    ) async throws(UploadError) -> String {
        try await plan.step(.storeWholePart)
        guard let whole = try parts.wholePartStorage else {
            throw UploadError(.storageFailure, "The storage below takes no whole parts.")
        }
        return try await whole.storePart(
            part,
            of: id,
            replacing: replaced,
            content: content,
            hashing: hash,
            verifying: verify
        )
    }
}
