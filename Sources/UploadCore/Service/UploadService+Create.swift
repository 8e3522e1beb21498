internal import Foundation

extension UploadService {
    /// Creates an upload; one of length 0 is complete at once.
    ///
    /// - Parameters:
    ///   - new: What the client asks for.
    ///   - grant: What it may ask for; that it is genuine and not expired has been checked.
    /// - Returns: The upload as it is recorded.
    /// - Throws: `.forbidden` for another dialect's grant, `.tooLarge`, `.contentTypeRefused`, `.grantUsed`,
    ///   `.invalidRequest`, `.storageFull`, `.storageFailure`.
    package func create(_ new: NewUpload, under grant: Grant) async throws(UploadError) -> Upload {
        try await reporting(nil) { () async throws(UploadError) -> Upload in
            let length = try checkedLength(of: new, under: grant)
            let metadata = try checkedMetadata(of: new, under: grant)
            let now = self.now
            let upload = Upload(
                id: UploadID.generate(at: now),
                dialect: new.dialect,
                subject: grant.subject,
                principal: grant.id,
                length: length,
                metadata: metadata,
                createdAt: now,
                expiresAt: limits.lifetime.map { now.addingTimeInterval($0).wholeMilliseconds }
            )
            try await record(upload, consuming: grant.isOneTime ? grant : nil)
            observer.observe(.created(upload))
            guard length == 0 else { return upload }
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

    private func checkedLength(of new: NewUpload, under grant: Grant) throws(UploadError) -> Int64 {
        if let dialect = grant.dialect, dialect != new.dialect {
            throw UploadError(
                .forbidden(scope: nil),
                "This credential is for \(dialect) uploads, not for \(new.dialect)."
            )
        }
        guard let length = new.length else {
            throw UploadError(.invalidRequest, "The length of the upload must be given when it is created.")
        }
        guard length >= 0 else {
            throw UploadError(.invalidRequest, "The length of the upload must not be negative.")
        }
        let limit = min(limits.maximumBytes, grant.maximumBytes ?? .max)
        guard length <= limit else {
            throw UploadError(.tooLarge(limit: limit), "The upload has \(length) bytes; at most \(limit) are allowed.")
        }
        return length
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
