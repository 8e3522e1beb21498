/// How parts become a whole.
///
/// The completion is recorded before anything is joined. What was not joined is taken back; what was is completed by whoever comes
/// next, unless it was refused.
extension UploadService {
    /// To be called with the lease.
    func complete(
        _ upload: Upload,
        of parts: [PartRecord],
        _ attributes: ObjectAttributes
    ) async throws(UploadError) -> Upload {
        // What can be seen now must not cost the parts.
        if let condition = attributes.condition, let name = upload.objectName,
            !condition.holds(for: try await state.object(name))
        {
            throw UploadError(.conditionFailed, "What the request expects of the object with this key does not hold.")
        }
        var upload = upload
        upload.attributes = attributes
        guard let size = Int64.sum(parts.map(\.size)), size <= mostBytes(of: upload) else {
            throw Self.tooLarge(mostBytes(of: upload))
        }
        upload.offset = size
        // No part comes from here on, and whoever comes after a crash knows which they are.
        guard try await state.setAttributes(of: upload.id, to: attributes) else { throw Self.gone }
        do throws(UploadError) {
            let parts = try await unchanged(parts, of: upload.id)
            try await bytesOf(upload.id) { id throws(UploadError) in try await partStorage.join(parts, of: id) }
            return try await complete(upload)
        } catch {
            // If this fails, too, the next one who has the lease does it.
            switch try? await partStorage.isJoined(upload.id) {
            case false: _ = try? await reopened(upload)
            case true: await hold(upload, after: error)
            case nil: break
            }
            throw error
        }
    }

    /// Sees to it that an upload whose completion was refused does not become an object later, when nobody asks for that any more.
    ///
    /// To be called with the lease.
    private func hold(_ upload: Upload, after error: UploadError) async {
        switch error.code {
        case .conditionFailed, .rejected, .quotaExceeded, .tooLarge: break
        // Not refused but failed, or ended: whoever comes next goes on.
        default: return
        }
        guard var attributes = upload.attributes else { return }
        attributes.isHeld = true
        do throws(UploadError) {
            _ = try await state.setAttributes(of: upload.id, to: attributes)
        } catch {
            report(error, of: upload.id)
        }
    }

    /// Parts as they are stored, now that no more come.
    ///
    /// - Parameters:
    ///   - parts: As they were recorded before.
    ///   - id: Of their upload.
    /// - Returns: The same bytes, where they are now.
    /// - Throws: `.invalidParts(.unknown)` if one was replaced by others.
    private func unchanged(_ parts: [PartRecord], of id: UploadID) async throws(UploadError) -> [PartRecord] {
        let all = Dictionary(uniqueKeysWithValues: try await allParts(of: id).map { ($0.number, $0) })
        var found: [PartRecord] = []
        for part in parts {
            guard let now = all[part.number], now.md5 == part.md5, now.size == part.size else {
                throw Self.invalid(
                    .unknown(number: part.number),
                    "Part \(part.number) was replaced while the upload was completed; name it as it is now."
                )
            }
            found.append(now)
        }
        return found
    }

    /// An upload whose completion was begun, and nothing was joined: parts may come again, and others may be named.
    ///
    /// To be called with the lease.
    private func reopened(_ upload: Upload) async throws(UploadError) -> Upload {
        var upload = upload
        upload.attributes?.completing = nil
        upload.attributes?.condition = nil
        guard let attributes = upload.attributes,
            try await state.setAttributes(of: upload.id, to: attributes)
        else { throw Self.gone }
        return upload
    }

    /// An open upload that takes parts as it is; finishes a completion that was begun, or takes it back if nothing was joined.
    ///
    /// To be called with the lease.
    func settledParts(of open: Upload) async throws(UploadError) -> Upload {
        var upload = open
        if let numbers = upload.attributes?.completing, !isOver(upload) {
            guard try await partStorage.isJoined(upload.id) else {
                upload = try await reopened(upload)
                upload.offset = try await state.partBytes(of: upload.id)
                return upload
            }
            if upload.attributes?.isHeld == true {
                upload.offset = try await state.partBytes(of: upload.id)
                return upload
            }
            let chosen = Set(numbers)
            // As they were joined, whatever became of them apart from each other.
            let parts = try await state.objectParts(of: upload.id, after: 0, limit: PartRecord.numbers.upperBound)
                .filter { chosen.contains($0.number) }
            // It was looked at when the completion was begun.
            upload.offset = Int64.sum(parts.map(\.size)) ?? .max
            try await partStorage.join(parts, of: upload.id)
            do throws(UploadError) {
                return try await complete(upload)
            } catch {
                await hold(upload, after: error)
                throw error
            }
        }
        if isOver(upload) {
            try await end(upload, as: .expired)
            throw Self.gone
        }
        upload.offset = try await state.partBytes(of: upload.id)
        return upload
    }
}
