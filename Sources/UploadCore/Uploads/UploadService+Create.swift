internal import Bytes
internal import Foundation
internal import Synchronization
package import UploadModel

extension UploadService {
    /// Creates an upload; one of length 0 is complete at once unless completion must be explicit, and so is a final
    /// upload whose parts are complete.
    ///
    /// - Parameters:
    ///   - new: The client's request.
    ///   - grant: What the client may upload; already checked for authenticity and expiry.
    /// - Returns: The recorded upload.
    /// - Throws: `.forbidden` for a grant of another dialect, `.tooLarge`, `.contentTypeRefused`, `.grantUsed`,
    ///   `.quotaExceeded`, `.rejected` by a hook, `.unavailable` if the hook cannot be reached, `.invalidRequest`,
    ///   `.storageFull`, `.storageFailure`; for a part of a final upload `.notFound`, `.gone`.
    package func create(_ new: NewUpload, under grant: Grant) async throws(UploadError) -> Upload {
        try await context.reporting(nil) { () async throws(UploadError) -> Upload in
            try check(grant)
            let effectiveLimits = try await ledger.effectiveLimits(for: grant)
            var upload = try await checkedUpload(new, under: grant, effectiveLimits)
            let changes = try await hooks.willCreate(upload)
            upload.alias = changes.alias
            // An object keeps the key under which its client will request it.
            if new.object == nil { upload.key = changes.key }
            if let metadata = changes.metadata {
                upload.metadata = UploadMetadata(describing: metadata)
                upload.attributes?.replaceMetadata(by: metadata)
            }
            upload = try await record(
                upload,
                in: grant.bucket,
                consuming: grant.isOneTime ? grant : nil,
                under: effectiveLimits,
                pulling: new.pull?.job(for: upload, isDecided: changes.metadata != nil)
            )
            context.observer.observe(.created(upload))
            events.bell.ring()
            if new.concatenation?.parts != nil { return try await joined(upload) }
            guard upload.length == 0, new.completesWhenFull else { return upload }
            do throws(UploadError) {
                return try await lifecycle.complete(upload)
            } catch {
                // Empty content does not match what was announced; the upload has ended.
                if error.code == .contentTypeRefused || error.code == .digestMismatch { throw error }
                // It exists; the next request for it or the sweep completes it.
                context.report(error, of: upload.id)
                return upload
            }
        }
    }

    /// - Throws: `.invalidRequest` for an invalid subject; the reason why changes are refused.
    func check(_ grant: Grant) throws(UploadError) {
        try context.checkWritable()
        guard grant.subject.map(SubjectText.isValid) ?? true else {
            throw UploadError(.invalidRequest, "The subject \(SubjectText.rule).")
        }
    }

    /// The upload that a client requests, if it may create it; nothing is recorded.
    func checkedUpload(
        _ new: NewUpload,
        under grant: Grant,
        _ effectiveLimits: EffectiveLimits
    ) async throws(UploadError) -> Upload {
        let most = [grant.maximumBytes, effectiveLimits.uploadBytes].compactMap { $0 }.min()
        let (length, reserved) = try await checkedLength(of: new, under: grant, limit: most)
        let metadata = try checkedMetadata(of: new, under: grant, effectiveLimits)
        var attributes = new.object?.attributes
        attributes?.agree(with: grant.metadata)
        // Where the app names the file, the field is gone.
        if attributes?.headers["content-disposition"] != nil, let object = new.object {
            for policy in effectiveLimits.policies.values { try policy.check(fileNames: object.fileNames) }
        }
        let now = self.now
        return Upload(
            id: new.id ?? UploadID.generate(at: now),
            key: new.object?.name.key,
            bucket: new.object?.name.bucket,
            attributes: attributes,
            takesParts: new.object?.takesParts ?? false,
            dialect: new.dialect,
            subject: grant.subject,
            principal: grant.id,
            issuer: grant.issuer,
            length: length,
            maximumBytes: most,
            reservedBytes: reserved,
            completesWhenFull: new.completesWhenFull,
            metadata: metadata,
            concatenation: new.concatenation,
            expectedDigests: new.expectedDigests,
            createdAt: now,
            // Bytes that come later never make it shorter.
            expiresAt: context.limits.lifetime.map { lifetime in
                now.addingTimeInterval(max(lifetime, new.keptFor ?? 0)).wholeMilliseconds
            }
        )
    }

    /// Creates the blob before the record: a record without a blob must never be visible.
    private func record(
        _ upload: Upload,
        in bucket: String?,
        consuming grant: Grant?,
        under effectiveLimits: EffectiveLimits,
        pulling job: PullJob?
    ) async throws(UploadError) -> Upload {
        unrecorded.insert(upload.id)
        defer { unrecorded.remove(upload.id) }
        var blob = NewBlob(of: upload)
        blob.bucket = bucket
        if upload.takesParts {
            try await lifecycle.partStorage.createForParts(blob)
        } else {
            try await storage.create(blob)
        }
        do throws(UploadError) {
            let event = events.event(.created, of: upload)
            // Before anyone can know of it, and so before any change.
            lifecycle.recents.add(upload)
            if let job {
                try await state.insert(upload, consuming: grant, under: effectiveLimits, recording: event, pulling: job)
            } else {
                try await state.insert(upload, consuming: grant, under: effectiveLimits, recording: event)
            }
            return upload
        } catch {
            lifecycle.recents.forget(upload.id)
            if try await isRecorded(upload, consuming: grant, after: error) { return upload }
            if error.code == .grantUsed, let grant, let before = try await recordedBefore(upload, by: grant) {
                return before
            }
            throw error
        }
    }

    /// Determines whether an upload was recorded although recording it failed; if it was not, removes its blob.
    ///
    /// - Throws: `error`, if that is unknown; the blob is then kept.
    func isRecorded(
        _ upload: Upload,
        consuming grant: Grant?,
        after error: UploadError
    ) async throws(UploadError) -> Bool {
        switch await outcome(of: upload.id, after: error) {
        case .recorded: return true
        case .unknown:
            if let grant { remember(upload, of: grant) }
            throw error
        case .notRecorded: break
        }
        do throws(UploadError) {
            try await storage.remove(upload.id)
        } catch let second {
            context.report(second, of: upload.id)
        }
        return false
    }

    /// Joins the parts of a new final upload; on failure removes the upload, because its client does not learn its URL.
    private func joined(_ upload: Upload) async throws(UploadError) -> Upload {
        do throws(UploadError) {
            return try await leases.withLease(on: upload.id, interrupter: nil) {
                () async throws(UploadError) -> Upload in
                try await lifecycle.reconciled(upload.id)
            }
        } catch {
            do throws(UploadError) {
                try await leases.withLease(on: upload.id, interrupter: nil) { () async throws(UploadError) in
                    try await lifecycle.end(upload, as: .terminated)
                }
            } catch let second {
                if second.code != .gone { context.report(second, of: upload.id) }
            }
            throw error
        }
    }

    /// - Returns: The length of a new upload, if it is known, and the bytes to reserve when it is created.
    private func checkedLength(
        of new: NewUpload,
        under grant: Grant,
        limit: Int64?
    ) async throws(UploadError) -> (length: Int64?, reserved: Int64) {
        if let dialect = grant.dialect, dialect != new.dialect {
            throw UploadError(
                .forbidden(scope: nil),
                "This credential is for \(dialect) uploads, not for \(new.dialect)."
            )
        }
        var (length, reserved) = (new.length, new.length ?? 0)
        if let parts = new.concatenation?.parts {
            (length, reserved) = try await lifecycle.sizeOfFinal(parts, for: grant.subject)
        }
        guard let length else { return (nil, 0) }
        try ledger.check(length: length, limit: min(context.limits.maximumBytes, limit ?? .max))
        return (length, reserved)
    }

    private func checkedMetadata(
        of new: NewUpload,
        under grant: Grant,
        _ effectiveLimits: EffectiveLimits
    ) throws(UploadError) -> UploadMetadata {
        var metadata = new.metadata
        // Both names mean the same: a client must not contradict under one name what the app says under the other.
        for names in UploadMetadata.synonyms where names.contains(where: { grant.metadata[$0] != nil }) {
            for name in names { metadata.values[name] = nil }
        }
        // Fields of objects have their names in lower case.
        if new.object != nil { for name in grant.metadata.keys { metadata.values[name.lowercasedASCII()] = nil } }
        metadata.values.replace(with: grant.metadata)
        try MetadataText.check(metadata.values)
        // A partial upload is no file; metadata of the file comes with the final upload.
        if new.concatenation?.role == .partial { return metadata }
        if !grant.contentTypes.isEmpty {
            try MediaTypePattern.check(metadata.contentType, against: grant.contentTypes)
        }
        // The origin of fetched content provides name and type, which are checked then: see `describe`.
        if new.pull == nil { for policy in effectiveLimits.policies.values { try policy.check(metadata) } }
        return metadata
    }
}

extension Grant {
    /// The accounts of uploads under this grant; see `Upload.accounts`.
    var accounts: [Account] {
        [subject.map { Account(.subject, $0) }, issuer.map { Account(.key, $0) }].compactMap { $0 }
    }
}
