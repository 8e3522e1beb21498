internal import Bytes
internal import Foundation
internal import Synchronization

/// Uploads whose bytes come in numbered parts, several at a time.
///
/// Parts need no lease: each is stored where no other one is, and recorded only while the upload is open. Whoever completes
/// or ends the upload has the lease.
extension UploadService {
    /// Stores a part in place of one with the same number, which is kept until then.
    ///
    /// - Parameters:
    ///   - number: See `PartRecord.numbers`.
    ///   - id: An upload that takes parts.
    ///   - content: The bytes.
    ///   - minimumSize: Bytes that each part but the last one must have, as the client knows.
    /// - Returns: As it is recorded.
    /// - Throws: `.notFound`, `.gone`, `.notOpen` once it is complete; `.invalidRequest` for a number that can not be;
    ///   `.tooLarge`, `.quotaExceeded`; `.checksumMismatch`, `.lengthConflict`; `.storageFull`, `.storageFailure`; what became
    ///   of the source.
    package func putPart(
        _ number: Int,
        of id: UploadID,
        _ content: ObjectContent,
        minimumSize: Int64
    ) async throws(UploadError) -> PartRecord {
        try await reporting(id) { () async throws(UploadError) -> PartRecord in
            try checkWritable()
            guard PartRecord.numbers.contains(number) else {
                throw UploadError(.invalidRequest, "A part has a number from 1 to 10,000.")
            }
            guard let size = content.size else {
                throw UploadError(.invalidRequest, "The size of a part must be told before its bytes.")
            }
            let upload = try await openForParts(id)
            let (before, ticket) = try await makeRoom(for: size, in: upload, as: number)
            defer { comingParts.remove(ticket, of: id, isStored: false) }
            let (location, digests) = try await stored(
                NewPart(number: number, size: size, minimumSize: minimumSize),
                of: id,
                replacing: before,
                content
            )
            let part = try await recorded(number, at: location, of: upload, size, digests, ticket)
            var current = upload
            current.updatedAt = part.storedAt
            observer.observe(.appended(current, bytes: part.size))
            _ = await renewedExpiry(of: current)
            return part
        }
    }

    private func stored(
        _ part: NewPart,
        of id: UploadID,
        replacing before: PartRecord?,
        _ content: ObjectContent
    ) async throws(UploadError) -> (location: String, ContentDigests) {
        var digests: ContentDigests?
        let location: String
        do throws(UploadError) {
            location = try await partStorage.storePart(
                part,
                of: id,
                replacing: before?.location,
                from: content.source
            ) { () async throws(UploadError) -> [UInt8] in
                let found = try await content.digests()
                digests = found
                return found.md5
            }
        } catch  where error.code == .notFound {
            throw try await refusal(ofPartOf: id)
        }
        guard let digests else { throw UploadError(.storageFailure, "The storage did not look at the part.") }
        return (location, digests)
    }

    /// Why an upload takes no part that was open a moment ago.
    private func refusal(ofPartOf id: UploadID) async throws(UploadError) -> UploadError {
        guard let upload = try await state.upload(id) else { return Self.notFound }
        switch upload.state {
        case .terminated, .expired: return Self.gone
        case .completed: return Self.noMoreParts
        case .open where upload.attributes?.isHeld == true:
            return UploadError(.notOpen, "The parts were put together; complete the upload, or give it up.")
        case .open:
            return UploadError(
                .busy,
                "The upload is being completed; if that fails it takes parts again, so try again in a few seconds."
            )
        }
    }

    private static let noMoreParts = UploadError(.notOpen, "The upload is complete and takes no more parts.")

    private func recorded(
        _ number: Int,
        at location: String,
        of upload: Upload,
        _ size: Int64,
        _ digests: ContentDigests,
        _ ticket: UInt64
    ) async throws(UploadError) -> PartRecord {
        let part = PartRecord(
            number: number,
            size: size,
            md5: digests.md5,
            crc64: digests.crc64,
            checksum: digests.checksum,
            location: location,
            storedAt: now
        )
        do throws(UploadError) {
            let replaced = try await edits.withTurn(at: upload.id) { () async throws(UploadError) -> PartRecord? in
                let replaced = try await state.putPart(part, of: upload.id)
                comingParts.remove(ticket, of: upload.id, isStored: true)
                return replaced
            }
            if let replaced { try await partStorage.removePart(number, at: replaced.location, of: upload.id) }
            return part
        } catch {
            switch error.code {
            // It was not recorded; if it may have been, its bytes must stay.
            case .gone, .busy, .interrupted: try await partStorage.removePart(number, at: location, of: upload.id)
            default: break
            }
            throw error.code == .gone ? try await refusal(ofPartOf: upload.id) : error
        }
    }

    /// Parts that are stored, by their numbers.
    ///
    /// - Parameters:
    ///   - id: An upload that takes parts.
    ///   - number: Those after it.
    ///   - limit: At most so many.
    /// - Returns: The upload with its bytes, and the parts.
    /// - Throws: `.notFound`, `.gone`, `.notOpen` once it is complete; `.storageFailure`.
    package func parts(
        of id: UploadID,
        after number: Int,
        limit: Int
    ) async throws(UploadError) -> (Upload, [PartRecord]) {
        try await reporting(id) { () async throws(UploadError) -> (Upload, [PartRecord]) in
            let bytes = try await state.partBytes(of: id)
            let parts = try await recordedParts(of: id, after: number, limit: limit)
            // After that: of one that was completed or ended meanwhile the parts are forgotten.
            var upload = try await openForParts(id)
            upload.offset = bytes
            return (upload, parts)
        }
    }

    /// Parts that are recorded and that no power cut has taken.
    private func recordedParts(
        of id: UploadID,
        after number: Int,
        limit: Int
    ) async throws(UploadError) -> [PartRecord] {
        var found: [PartRecord] = []
        var last = number
        while found.count < limit {
            let wanted = limit - found.count
            let page = try await state.objectParts(of: id, after: last, limit: wanted)
            found += try page.filter(partStorage.isThere)
            guard page.count == wanted, let end = page.last else { break }
            last = end.number
        }
        return found
    }

    /// A page of open uploads that take parts.
    package func partUploads(_ query: PartUploadQuery) async throws(UploadError) -> [Upload] {
        try await reporting(nil) { () async throws(UploadError) -> [Upload] in try await state.partUploads(query) }
    }

    /// Makes an object of parts.
    ///
    /// Should the process die, or the storage take long, what was begun is finished by the next request or the sweep. One that
    /// is complete already is returned as it is.
    ///
    /// - Parameters:
    ///   - named: The parts, in the order of their numbers.
    ///   - id: An upload that takes parts.
    ///   - minimumSize: Bytes that each part but the last one must have; the storage may want more of some.
    ///   - condition: What must hold of the object that has the name.
    ///   - describe: Makes the attributes of the object of what was asked for and its parts.
    /// - Returns: Completed.
    /// - Throws: `.invalidParts`; `.conditionFailed`; `.notFound`, `.gone`, `.busy`; as `append` for what completes an upload.
    package func completeParts(
        _ named: [NamedPart],
        of id: UploadID,
        minimumSize: Int64,
        if condition: ObjectCondition?,
        describe: (inout ObjectAttributes, [PartRecord]) throws(UploadError) -> Void
    ) async throws(UploadError) -> Upload {
        try await reporting(id) { () async throws(UploadError) -> Upload in
            try checkWritable()
            let upload = try await leases.withLease(on: id, interrupter: nil) {
                () async throws(UploadError) -> Upload in
                let upload = try await settled(id)
                guard upload.takesParts else { throw Self.notFound }
                if upload.state == .completed {
                    guard upload.attributes?.partSizes?.count == named.count else { throw Self.notFound }
                    return upload
                }
                let parts = try await stored(named, of: id, minimumSize)
                var attributes = upload.attributes ?? ObjectAttributes()
                if let joined = attributes.completing, joined != named.map(\.number) {
                    throw Self.invalid(
                        .unnamed,
                        "The parts were put together when the upload was completed before; name the same ones."
                    )
                }
                attributes.isHeld = nil
                attributes.partSizes = parts.map(\.size)
                try describe(&attributes, parts)
                attributes.completing = parts.map(\.number)
                attributes.condition = condition
                return try await complete(upload, of: parts, attributes)
            }
            return try await finished(upload)
        }
    }

    /// The parts that are named, as they are stored.
    private func stored(
        _ named: [NamedPart],
        of id: UploadID,
        _ minimumSize: Int64
    ) async throws(UploadError) -> [PartRecord] {
        guard let last = named.last else { throw Self.invalid(.empty, "Name the parts that the object is made of.") }
        for (part, next) in zip(named, named.dropFirst()) where next.number <= part.number {
            throw Self.invalid(.order, "The parts must be in the order of their numbers, each once.")
        }
        let all = Dictionary(uniqueKeysWithValues: try await allParts(of: id).map { ($0.number, $0) })
        var parts: [PartRecord] = []
        for name in named {
            guard let part = all[name.number], part.entityTag == name.entityTag.lowercased(),
                name.checksum == nil || name.checksum == part.checksum
            else {
                throw Self.invalid(
                    .unknown(number: name.number),
                    "There is no part \(name.number), or it has another entity tag or checksum; send it again."
                )
            }
            guard part.size >= minimumSize || name == last else {
                throw UploadError(partTooSmall: part.number, size: part.size, minimum: minimumSize)
            }
            parts.append(part)
        }
        return parts
    }

    static func invalid(_ problem: PartsProblem, _ text: String) -> UploadError {
        UploadError(.invalidParts(problem), text)
    }

    func allParts(of id: UploadID) async throws(UploadError) -> [PartRecord] {
        try await recordedParts(of: id, after: 0, limit: PartRecord.numbers.upperBound)
    }

    /// An open upload that takes parts, and is not being completed.
    private func openForParts(_ id: UploadID) async throws(UploadError) -> Upload {
        guard let upload = try await state.upload(id), upload.takesParts else { throw Self.notFound }
        switch upload.state {
        case .terminated, .expired: throw Self.gone
        case .completed: throw Self.noMoreParts
        case .open: break
        }
        guard !isOver(upload) else { throw Self.gone }
        return upload
    }

    /// Checks that a part has room in its upload, reserves that where bytes are limited, and counts the part as coming.
    ///
    /// What the other parts have is only looked at where it can matter: the state looks at each of them. Whether all of them
    /// together are too many is seen once more when they are joined.
    ///
    /// - Returns: The part that is stored under the number, and the place in `comingParts`.
    private func makeRoom(
        for size: Int64,
        in upload: Upload,
        as number: Int
    ) async throws(UploadError) -> (stored: PartRecord?, ticket: UInt64) {
        let limit = mostBytes(of: upload)
        guard size >= 0 else { throw UploadError(.invalidRequest, "A part can not have fewer than no bytes.") }
        guard size <= limit else { throw Self.tooLarge(limit) }
        let terms = try await terms(for: upload.accounts)
        return try await edits.withTurn(at: upload.id) { () async throws(UploadError) -> (PartRecord?, UInt64) in
            let before = try await state.objectPart(number, of: upload.id)
            let part = ComingParts.Part(number: number, size: size, stored: before?.size ?? 0)
            if terms.limitsBytes || upload.maximumBytes != nil {
                let stored = try await state.partBytes(of: upload.id)
                guard let wanted = comingParts.total(of: upload.id, having: stored, with: part), wanted <= limit else {
                    throw Self.tooLarge(limit)
                }
                if terms.limitsBytes, let recorded = try await state.upload(upload.id),
                    wanted > recorded.reservedBytes
                {
                    _ = try await reserve(wanted, for: recorded, under: terms, isWhole: true)
                }
            }
            return (before, comingParts.add(part, of: upload.id))
        }
    }

    static func tooLarge(_ limit: Int64) -> UploadError {
        UploadError(.tooLarge(limit: limit), "The upload may have at most \(limit) bytes.")
    }

    /// The storage, where it takes parts; nothing that takes parts is recorded where it does not.
    var partStorage: any PartStorage {
        get throws(UploadError) {
            guard let storage = storage as? any PartStorage else {
                throw UploadError(.invalidRequest, "The storage of this server takes no uploads in parts.")
            }
            return storage
        }
    }
}

extension PartRecord {
    /// The MD5 in hexadecimal.
    package var entityTag: String { Hexadecimal.encode(md5) }
}
