internal import Foundation
internal import Synchronization

extension UploadService {
    /// Creates an upload; one of length 0 is complete at once unless somebody has to say so, and so is a final one whose
    /// parts are.
    ///
    /// - Parameters:
    ///   - new: What the client asks for.
    ///   - grant: What it may ask for; that it is genuine and not expired has been checked.
    /// - Returns: The upload as it is recorded.
    /// - Throws: `.forbidden` for another dialect's grant, `.tooLarge`, `.contentTypeRefused`, `.grantUsed`,
    ///   `.quotaExceeded`, `.rejected` by a hook, `.unavailable` if it can not be asked, `.invalidRequest`, `.storageFull`,
    ///   `.storageFailure`; for a part of a final upload `.notFound`, `.gone`.
    package func create(_ new: NewUpload, under grant: Grant) async throws(UploadError) -> Upload {
        try await reporting(nil) { () async throws(UploadError) -> Upload in
            try checkWritable()
            guard grant.subject.map(SubjectText.isValid) ?? true else {
                throw UploadError(.invalidRequest, "The subject \(SubjectText.rule).")
            }
            let accounts = grant.accounts
            let terms = try await terms(for: accounts)
            let most = [grant.maximumBytes, terms.uploadBytes].compactMap { $0 }.min()
            let length = try await checkedLength(of: new, under: grant, limit: most)
            let metadata = try checkedMetadata(of: new, under: grant, terms)
            let now = self.now
            let isFinal = new.concatenation?.parts != nil
            var upload = Upload(
                id: UploadID.generate(at: now),
                key: new.object?.name.key,
                bucket: new.object?.name.bucket,
                attributes: new.object?.attributes,
                takesParts: new.object?.takesParts ?? false,
                dialect: new.dialect,
                subject: grant.subject,
                principal: grant.id,
                issuer: grant.issuer,
                length: length,
                maximumBytes: most,
                reservedBytes: isFinal ? 0 : length ?? 0,
                completesWhenFull: new.completesWhenFull,
                metadata: metadata,
                concatenation: new.concatenation,
                expectedDigests: new.expectedDigests,
                createdAt: now,
                expiresAt: limits.lifetime.map { now.addingTimeInterval($0).wholeMilliseconds }
            )
            let changes = try await hooks.willCreate(upload)
            upload.alias = changes.alias
            // An object has the key under which its client will ask for it.
            if new.object == nil { upload.key = changes.key }
            if let metadata = changes.metadata { upload.metadata = UploadMetadata(describing: metadata) }
            upload = try await record(
                upload,
                in: grant.bucket,
                consuming: grant.isOneTime ? grant : nil,
                under: terms,
                pulling: new.pull?.job(for: upload)
            )
            observer.observe(.created(upload))
            bell.ring()
            if isFinal { return try await joined(upload) }
            guard length == 0, new.completesWhenFull else { return upload }
            do throws(UploadError) {
                return try await complete(upload)
            } catch {
                // What is empty is not what was announced, and has ended.
                if error.code == .contentTypeRefused || error.code == .digestMismatch { throw error }
                // It exists, and the next request for it or the sweep completes it.
                report(error, of: upload.id)
                return upload
            }
        }
    }

    /// The blob first: a record without a blob must never be seen.
    private func record(
        _ upload: Upload,
        in bucket: String?,
        consuming grant: Grant?,
        under terms: QuotaTerms,
        pulling job: PullJob?
    ) async throws(UploadError) -> Upload {
        unrecorded.withLock { _ = $0.insert(upload.id) }
        defer { unrecorded.withLock { _ = $0.remove(upload.id) } }
        var blob = NewBlob(of: upload)
        blob.bucket = bucket
        if upload.takesParts {
            try await partStorage.createForParts(blob)
        } else {
            try await storage.create(blob)
        }
        do throws(UploadError) {
            let event = event(.created, of: upload)
            if let job {
                try await state.insert(upload, consuming: grant, under: terms, recording: event, pulling: job)
            } else {
                try await state.insert(upload, consuming: grant, under: terms, recording: event)
            }
            return upload
        } catch {
            switch await outcome(of: upload.id, after: error) {
            case .recorded: return upload
            case .unknown:
                if let grant { remember(upload, of: grant) }
                throw error
            case .notRecorded: break
            }
            do throws(UploadError) {
                try await storage.remove(upload.id)
            } catch let second {
                report(second, of: upload.id)
            }
            if error.code == .grantUsed, let grant, let before = try await recordedBefore(upload, by: grant) {
                return before
            }
            throw error
        }
    }

    /// Nothing remains of a final upload that could not be joined: its client does not learn its URL.
    private func joined(_ upload: Upload) async throws(UploadError) -> Upload {
        do throws(UploadError) {
            return try await leases.withLease(on: upload.id, interrupter: nil) {
                () async throws(UploadError) -> Upload in
                try await settled(upload.id)
            }
        } catch {
            do throws(UploadError) {
                try await leases.withLease(on: upload.id, interrupter: nil) { () async throws(UploadError) in
                    try await end(upload, as: .terminated)
                }
            } catch let second {
                if second.code != .gone { report(second, of: upload.id) }
            }
            throw error
        }
    }

    private func checkedLength(
        of new: NewUpload,
        under grant: Grant,
        limit: Int64?
    ) async throws(UploadError) -> Int64? {
        if let dialect = grant.dialect, dialect != new.dialect {
            throw UploadError(
                .forbidden(scope: nil),
                "This credential is for \(dialect) uploads, not for \(new.dialect)."
            )
        }
        var length = new.length
        if let parts = new.concatenation?.parts { length = try await lengthOfFinal(parts) }
        guard let length else { return nil }
        try check(length: length, limit: min(limits.maximumBytes, limit ?? .max))
        return length
    }

    /// Checks a length that a client declares, with the creation or later.
    func check(length: Int64, limit: Int64) throws(UploadError) {
        guard length >= 0 else {
            throw UploadError(.invalidRequest, "The length of the upload must not be negative.")
        }
        guard length <= limit else {
            throw UploadError(.tooLarge(limit: limit), "The upload has \(length) bytes; at most \(limit) are allowed.")
        }
    }

    private func checkedMetadata(
        of new: NewUpload,
        under grant: Grant,
        _ terms: QuotaTerms
    ) throws(UploadError) -> UploadMetadata {
        var metadata = new.metadata
        // Two names for one thing: what the app says under one, the client must not say under the other.
        for names in [["filename", "name"], ["filetype", "type"]]
        where names.contains(where: { grant.metadata[$0] != nil }) {
            for name in names { metadata.values[name] = nil }
        }
        metadata.values.merge(grant.metadata) { _, ofApp in ofApp }
        // A partial upload is no file; what is said of the file comes with the final one.
        if new.concatenation?.role == .partial { return metadata }
        if !grant.contentTypes.isEmpty {
            try MediaTypePattern.check(metadata.contentType, against: grant.contentTypes)
        }
        // Of what is fetched the origin tells name and type, which are checked then: see `describe`.
        if new.pull == nil { for policy in terms.policies.values { try policy.check(metadata) } }
        return metadata
    }
}

extension Grant {
    /// The accounts of uploads under it; see `Upload.accounts`.
    fileprivate var accounts: [Account] {
        [subject.map { Account(.subject, $0) }, issuer.map { Account(.key, $0) }].compactMap { $0 }
    }
}
