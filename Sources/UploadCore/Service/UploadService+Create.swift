internal import Foundation

extension UploadService {
    /// Creates an upload; one of length 0 is complete at once unless somebody has to say so, and so is a final one whose
    /// parts are.
    ///
    /// - Parameters:
    ///   - new: What the client asks for.
    ///   - grant: What it may ask for; that it is genuine and not expired has been checked.
    /// - Returns: The upload as it is recorded.
    /// - Throws: `.forbidden` for another dialect's grant, `.tooLarge`, `.contentTypeRefused`, `.grantUsed`,
    ///   `.invalidRequest`, `.storageFull`, `.storageFailure`; for a part of a final upload `.notFound`, `.gone`.
    package func create(_ new: NewUpload, under grant: Grant) async throws(UploadError) -> Upload {
        try await reporting(nil) { () async throws(UploadError) -> Upload in
            let length = try await checkedLength(of: new, under: grant)
            let metadata = try checkedMetadata(of: new, under: grant)
            let now = self.now
            let upload = Upload(
                id: UploadID.generate(at: now),
                dialect: new.dialect,
                subject: grant.subject,
                principal: grant.id,
                length: length,
                maximumBytes: grant.maximumBytes,
                completesWhenFull: new.completesWhenFull,
                metadata: metadata,
                concatenation: new.concatenation,
                createdAt: now,
                expiresAt: limits.lifetime.map { now.addingTimeInterval($0).wholeMilliseconds }
            )
            try await record(upload, consuming: grant.isOneTime ? grant : nil)
            observer.observe(.created(upload))
            if new.concatenation?.parts != nil { return try await joined(upload) }
            guard length == 0, new.completesWhenFull else { return upload }
            do throws(UploadError) {
                return try await complete(upload)
            } catch {
                // It exists, and the next request for it or the sweep completes it.
                report(error, of: upload.id)
                return upload
            }
        }
    }

    /// The blob first: a record without a blob must never be seen.
    private func record(_ upload: Upload, consuming grant: Grant?) async throws(UploadError) {
        try await storage.create(upload.id)
        do throws(UploadError) {
            try await state.insert(upload, consuming: grant)
        } catch {
            do throws(UploadError) {
                try await storage.remove(upload.id)
            } catch let second {
                report(second, of: upload.id)
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
                try await terminate(upload.id)
            } catch let second {
                if second.code != .gone { report(second, of: upload.id) }
            }
            throw error
        }
    }

    private func checkedLength(of new: NewUpload, under grant: Grant) async throws(UploadError) -> Int64? {
        if let dialect = grant.dialect, dialect != new.dialect {
            throw UploadError(
                .forbidden(scope: nil),
                "This credential is for \(dialect) uploads, not for \(new.dialect)."
            )
        }
        var length = new.length
        if let parts = new.concatenation?.parts { length = try await lengthOfFinal(parts) }
        guard let length else { return nil }
        try check(length: length, limit: min(limits.maximumBytes, grant.maximumBytes ?? .max))
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

    private func checkedMetadata(of new: NewUpload, under grant: Grant) throws(UploadError) -> UploadMetadata {
        var metadata = new.metadata
        // Two names for one thing: what the app says under one, the client must not say under the other.
        for names in [["filename", "name"], ["filetype", "type"]]
        where names.contains(where: { grant.metadata[$0] != nil }) {
            for name in names { metadata.values[name] = nil }
        }
        metadata.values.merge(grant.metadata) { _, ofApp in ofApp }
        guard grant.contentTypes.isEmpty || grant.allows(contentType: metadata.contentType) else {
            let allowed = grant.contentTypes.joined(separator: ", ")
            throw UploadError(
                .contentTypeRefused,
                "The media type must be declared in the metadata (filetype) and be one of: \(allowed)."
            )
        }
        return metadata
    }
}

extension Grant {
    /// Whether a declared media type, with or without parameters, is among the allowed ones (RFC 9110 §8.3.1).
    func allows(contentType: String?) -> Bool {
        guard let essence = contentType?.split(separator: ";", omittingEmptySubsequences: false).first else {
            return false
        }
        let wanted = essence.trimmingCharacters(in: .whitespaces).lowercased()
        let parts = wanted.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 2, parts.allSatisfy({ !$0.isEmpty }) else { return false }
        return contentTypes.contains { allowed in
            let allowed = allowed.lowercased()
            return allowed == wanted || allowed == "\(parts[0])/*" || allowed == "*/*"
        }
    }
}
