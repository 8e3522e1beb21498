internal import Bytes
internal import Foundation
package import UploadModel

/// Uploads whose bytes arrive in numbered parts, several at a time.
///
/// Parts need no lease: each is stored in a place of its own, and recorded only while the upload is open. Completing or
/// ending the upload requires the lease.
package final class PartService: Sendable {
    typealias Records = UploadRecords & PartRecords

    private let context: ServiceContext
    private let state: any Records
    private let ledger: UploadLedger
    private let lifecycle: UploadLifecycle
    private let wholeContents = WholeContents(largest: 256 << 10, most: 16 << 20)

    init(
        _ context: ServiceContext,
        state: any Records,
        ledger: UploadLedger,
        lifecycle: UploadLifecycle
    ) {
        self.context = context
        self.state = state
        self.ledger = ledger
        self.lifecycle = lifecycle
    }

    /// The record of an upload, and its part of a number, for `putPart`.
    ///
    /// - Throws: `.notFound`, `.storageFailure`.
    package func recorded(
        _ id: UploadID,
        withPart number: Int
    ) async throws(UploadError) -> (upload: Upload, part: PartRecord?) {
        try await context.reporting(id) { () async throws(UploadError) -> (upload: Upload, part: PartRecord?) in
            guard let (upload, part) = try await state.upload(id, withPart: number) else { throw UploadError.noUpload }
            return (upload, part)
        }
    }

    /// Stores a part; replaces one with the same number, which is kept until then.
    ///
    /// - Parameters:
    ///   - number: See `PartRecord.numbers`.
    ///   - upload: An upload in parts, as recorded a moment ago. What is recorded when the part has arrived decides
    ///     whether it is taken.
    ///   - stored: Its part with this number, as recorded with it.
    ///   - content: The bytes.
    ///   - minimumSize: The client's minimum size in bytes for every part but the last.
    /// - Returns: The recorded part.
    /// - Throws: `.notFound`, `.gone`, `.notOpen` once it is complete; `.invalidRequest` for an invalid number;
    ///   `.tooLarge`, `.quotaExceeded`; `.checksumMismatch`, `.lengthConflict`; `.storageFull`, `.storageFailure`; the
    ///   error of a failed source.
    package func putPart(
        _ number: Int,
        of upload: Upload,
        replacing stored: PartRecord?,
        _ content: ObjectContent,
        minimumSize: Int64
    ) async throws(UploadError) -> PartRecord {
        let id = upload.id
        return try await context.reporting(id) { () async throws(UploadError) -> PartRecord in
            try context.checkWritable()
            guard PartRecord.numbers.contains(number) else {
                throw UploadError(.invalidRequest, "The number of a part must be from 1 to 10,000.")
            }
            try check(upload)
            try RequestMeter.identify(key: upload.issuer, subject: upload.subject)
            let coming = try await ledger.admit(content.size ?? 0, as: number, of: upload, replacing: stored)
            defer { ledger.giveUp(coming) }
            let new = NewPart(number: number, size: content.size, minimumSize: minimumSize)
            let (location, size, digests) = try await StorageUser.storing(for: upload.subject) {
                () async throws(UploadError) -> (String, Int64, ContentDigests) in
                try await store(new, of: upload, as: coming, content)
            }
            let part = try await recorded(coming, at: location, of: upload, size, digests)
            var current = upload
            current.updatedAt = part.storedAt
            context.observer.observe(.appended(current, bytes: part.size))
            _ = await lifecycle.renewedExpiry(of: current)
            return part
        }
    }

    private func store(
        _ part: NewPart,
        of upload: Upload,
        as coming: UploadLedger.ComingPart,
        _ content: ObjectContent
    ) async throws(UploadError) -> (location: String, size: Int64, ContentDigests) {
        if let size = part.size {
            let (location, digests) = try await store(part, of: upload.id, replacing: coming.stored, content)
            return (location, size, digests)
        }
        let source = AdmittedSource(content.source) { [ledger] count throws(UploadError) in
            try await ledger.admit(count, more: coming, of: upload)
        }
        do throws(UploadError) {
            let content = ObjectContent(source, size: nil) { () async throws(UploadError) in
                try await content.digests()
            }
            let (location, digests) = try await store(part, of: upload.id, replacing: coming.stored, content)
            return (location, source.count, digests)
        } catch {
            throw source.refusal ?? error
        }
    }

    private func store(
        _ part: NewPart,
        of id: UploadID,
        replacing before: PartRecord?,
        _ content: ObjectContent
    ) async throws(UploadError) -> (location: String, ContentDigests) {
        var digests: ContentDigests?
        func verify() async throws(UploadError) -> [UInt8] {
            let found = try await content.digests()
            digests = found
            return found.md5
        }
        let location: String
        do throws(UploadError) {
            let storage = try lifecycle.partStorage
            if let whole = storage.wholePartStorage, let plain = content.plain, let size = part.size,
                RequestMeter.current?.delays(size) != true, wholeContents.take(size)
            {
                defer { wholeContents.giveBack(size) }
                location = try await whole.storePart(
                    part,
                    of: id,
                    replacing: before?.location,
                    content: try await Self.gather(plain.source, Int(size)),
                    hashing: plain.hash,
                    verifying: verify
                )
            } else {
                location = try await storage.storePart(
                    part,
                    of: id,
                    replacing: before?.location,
                    from: content.source,
                    verifying: verify
                )
            }
        } catch  where error.code == .notFound {
            throw try await refusal(ofPartOf: id)
        }
        guard let digests else { throw UploadError(.storageFailure, "The storage did not verify the part.") }
        return (location, digests)
    }

    /// All bytes of a small part.
    private static func gather(_ source: any ByteSource, _ size: Int) async throws(UploadError) -> [UInt8] {
        // Usually they come within a moment, and can then be read at once.
        _ = await source.arrives(size)
        let (bytes, failure) = await source.gather(size)
        if let failure { throw UploadError(failure) }
        guard bytes.count == size else { throw UploadError(partOf: Int64(size), received: Int64(bytes.count)) }
        return bytes
    }

    /// Why an upload that was open a moment ago accepts no part.
    private func refusal(ofPartOf id: UploadID) async throws(UploadError) -> UploadError {
        guard let upload = try await state.upload(id) else { return UploadError.noUpload }
        switch upload.state {
        case .terminated, .expired: return UploadError.uploadEnded
        case .completed: return Self.noMoreParts
        case .open where upload.attributes?.isHeld == true:
            return UploadError(.notOpen, "The parts are already joined; complete the upload or abort it.")
        case .open:
            return UploadError(
                .busy,
                "The upload is being completed; if that fails, it accepts parts again: try again in a few seconds."
            )
        }
    }

    private static let noMoreParts = UploadError(.notOpen, "The upload is complete and takes no more parts.")

    private func recorded(
        _ coming: UploadLedger.ComingPart,
        at location: String,
        of upload: Upload,
        _ size: Int64,
        _ digests: ContentDigests
    ) async throws(UploadError) -> PartRecord {
        let number = coming.number
        let part = PartRecord(
            number: number,
            size: size,
            md5: digests.md5,
            crc64: digests.crc64,
            checksum: digests.checksum,
            location: location,
            storedAt: context.now
        )
        do throws(UploadError) {
            let replaced = try await ledger.record(part, coming)
            if let replaced { try await lifecycle.partStorage.removePart(number, at: replaced.location, of: upload.id) }
            return part
        } catch {
            switch error.code {
            // The part was not recorded. After other errors it may have been, so its bytes must stay.
            case .gone, .busy, .interrupted:
                try await lifecycle.partStorage.removePart(number, at: location, of: upload.id)
            default: break
            }
            throw error.code == .gone ? try await refusal(ofPartOf: upload.id) : error
        }
    }

    /// Stored parts in ascending order of their numbers.
    ///
    /// - Parameters:
    ///   - id: An upload in parts.
    ///   - number: Only parts with greater numbers.
    ///   - limit: Maximum number of parts.
    /// - Returns: The upload with its size, and the parts.
    /// - Throws: `.notFound`, `.gone`, `.notOpen` once it is complete; `.storageFailure`.
    package func parts(
        of id: UploadID,
        after number: Int,
        limit: Int
    ) async throws(UploadError) -> (Upload, [PartRecord]) {
        try await context.reporting(id) { () async throws(UploadError) -> (Upload, [PartRecord]) in
            let bytes = try await state.partBytes(of: id)
            let parts = try await lifecycle.recordedParts(of: id, after: number, limit: limit)
            // Check afterwards: if the upload was completed or ended meanwhile, its parts are forgotten.
            var upload = try await openForParts(id)
            upload.offset = bytes
            return (upload, parts)
        }
    }

    /// A page of open uploads in parts.
    package func partUploads(_ query: PartUploadQuery) async throws(UploadError) -> [Upload] {
        try await context.reporting(nil) { () async throws(UploadError) -> [Upload] in
            try await state.partUploads(query)
        }
    }

    /// Completes an upload by joining its parts to an object.
    ///
    /// If the process dies or the storage takes long, the next request or the sweep finishes what was started. An
    /// upload that is already complete is returned unchanged.
    ///
    /// - Parameters:
    ///   - named: The parts in ascending order of their numbers.
    ///   - id: An upload in parts.
    ///   - minimumSize: Minimum size in bytes of every part but the last; the storage may require more for some.
    ///   - condition: What must hold for the current object with the name.
    ///   - describe: Builds the object's attributes from the requested ones and the parts.
    /// - Returns: The completed upload.
    /// - Throws: `.invalidParts`; `.conditionFailed`; `.notFound`, `.gone`, `.busy`; the errors of `append` that
    ///   concern completion.
    package func completeParts(
        _ named: [NamedPart],
        of id: UploadID,
        minimumSize: Int64,
        if condition: ObjectCondition?,
        describe: (inout ObjectAttributes, [PartRecord]) throws(UploadError) -> Void
    ) async throws(UploadError) -> Upload {
        try await context.reporting(id) { () async throws(UploadError) -> Upload in
            try context.checkWritable()
            let upload = try await lifecycle.leases.withLease(on: id, interrupter: nil) {
                () async throws(UploadError) -> Upload in
                let upload = try await lifecycle.reconciled(id)
                guard upload.takesParts else { throw UploadError.noUpload }
                if upload.state == .completed {
                    guard upload.attributes?.partSizes?.count == named.count else { throw UploadError.noUpload }
                    return upload
                }
                let parts = try await stored(named, of: id, minimumSize)
                var attributes = upload.attributes ?? ObjectAttributes()
                if let joined = attributes.completing, joined != PartNumbers(named.lazy.map(\.number)) {
                    throw UploadError.invalidParts(
                        .unnamed,
                        "The parts were already joined when the upload was first completed; list the same parts."
                    )
                }
                attributes.isHeld = nil
                attributes.partSizes = PartSizes(parts.lazy.map(\.size))
                try describe(&attributes, parts)
                attributes.completing = PartNumbers(parts.lazy.map(\.number))
                attributes.condition = condition
                return try await lifecycle.complete(upload, of: parts, attributes)
            }
            return try await lifecycle.finished(upload)
        }
    }

    /// The stored parts that match the listed ones.
    private func stored(
        _ named: [NamedPart],
        of id: UploadID,
        _ minimumSize: Int64
    ) async throws(UploadError) -> [PartRecord] {
        guard let last = named.last else {
            throw UploadError.invalidParts(.empty, "List the parts that the object is made of.")
        }
        for (part, next) in zip(named, named.dropFirst()) where next.number <= part.number {
            throw UploadError.invalidParts(.order, "The parts must be in the order of their numbers, each once.")
        }
        let all = Dictionary(uniqueKeysWithValues: try await lifecycle.allParts(of: id).map { ($0.number, $0) })
        var parts: [PartRecord] = []
        for name in named {
            guard let part = all[name.number], part.entityTag == name.entityTag.lowercasedASCII(),
                name.checksum == nil || name.checksum == part.checksum
            else {
                throw UploadError.invalidParts(
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

    /// An open upload in parts that is not being completed.
    private func openForParts(_ id: UploadID) async throws(UploadError) -> Upload {
        guard let upload = try await state.upload(id) else { throw UploadError.noUpload }
        try check(upload)
        return upload
    }

    private func check(_ upload: Upload) throws(UploadError) {
        guard upload.takesParts else { throw UploadError.noUpload }
        switch upload.state {
        case .terminated, .expired: throw UploadError.uploadEnded
        case .completed: throw Self.noMoreParts
        case .open: break
        }
        guard !lifecycle.isOver(upload) else { throw UploadError.uploadEnded }
    }
}
