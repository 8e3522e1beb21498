internal import UploadModel

/// Joins parts to a whole.
///
/// The completion is recorded before anything is joined. If nothing was joined, it is rolled back; if the parts were
/// joined, the next request completes the upload, unless it was refused.
extension UploadLifecycle {
    /// Completes an upload in parts; requires the lease.
    func complete(
        _ upload: Upload,
        of parts: [PartRecord],
        _ attributes: ObjectAttributes
    ) async throws(UploadError) -> Upload {
        // A failure that can be detected now must not cost the client its parts.
        if let condition = attributes.condition, let name = upload.objectName,
            !condition.holds(for: try await state.object(name))
        {
            throw UploadError(.conditionFailed, "The request's condition on the object with this key does not hold.")
        }
        var upload = upload
        upload.attributes = attributes
        upload.offset = try ledger.totalSize(of: parts, in: upload)
        // From here on no part is accepted, and after a crash the list of parts is known.
        guard try await state.setAttributes(of: upload.id, to: attributes) else { throw UploadError.uploadEnded }
        do throws(UploadError) {
            let parts = try await unchanged(parts, of: upload.id)
            try await bytesOf(upload.id) { id throws(UploadError) in try await partStorage.join(parts, of: id) }
            return try await complete(upload)
        } catch {
            // If this fails too, the next holder of the lease does it.
            switch try? await partStorage.isJoined(upload.id) {
            case false: _ = try? await reopened(upload)
            case true: await hold(upload, after: error)
            case nil: break
            }
            throw error
        }
    }

    /// Ensures that an upload whose completion was refused does not become an object later, without a request.
    ///
    /// Requires the lease.
    private func hold(_ upload: Upload, after error: UploadError) async {
        switch error.code {
        case .conditionFailed, .rejected, .quotaExceeded, .tooLarge: break
        // Failed rather than refused, or ended: the next holder of the lease continues.
        default: return
        }
        guard var attributes = upload.attributes else { return }
        attributes.isHeld = true
        do throws(UploadError) {
            _ = try await state.setAttributes(of: upload.id, to: attributes)
        } catch {
            context.report(error, of: upload.id)
        }
    }

    /// The stored parts, now that no more are accepted.
    ///
    /// - Parameters:
    ///   - parts: As recorded before.
    ///   - id: Their upload.
    /// - Returns: The same parts with their current locations.
    /// - Throws: `.invalidParts(.unknown)` if one was replaced by different bytes.
    private func unchanged(_ parts: [PartRecord], of id: UploadID) async throws(UploadError) -> [PartRecord] {
        let all = Dictionary(uniqueKeysWithValues: try await allParts(of: id).map { ($0.number, $0) })
        var found: [PartRecord] = []
        for part in parts {
            guard let now = all[part.number], now.md5 == part.md5, now.size == part.size else {
                throw UploadError.invalidParts(
                    .unknown(number: part.number),
                    "Part \(part.number) was replaced while the upload was being completed; list it with its current entity tag."
                )
            }
            found.append(now)
        }
        return found
    }

    /// Reopens an upload whose completion was started without joining anything: new parts are accepted, and other parts
    /// may be listed.
    ///
    /// Requires the lease.
    private func reopened(_ upload: Upload) async throws(UploadError) -> Upload {
        var upload = upload
        upload.attributes?.takeBackCompletion()
        guard let attributes = upload.attributes,
            try await state.setAttributes(of: upload.id, to: attributes)
        else { throw UploadError.uploadEnded }
        return upload
    }

    /// The current state of an open upload in parts; finishes a completion that was started, or rolls it back if
    /// nothing was joined.
    ///
    /// Requires the lease.
    func reconciledParts(of open: Upload) async throws(UploadError) -> Upload {
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
            // The parts as they were joined, whatever happened to each since.
            let parts = try await state.objectParts(of: upload.id, after: 0, limit: PartRecord.numbers.upperBound)
                .filter { numbers.contains($0.number) }
            // The condition was checked when the completion was started.
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
            throw UploadError.uploadEnded
        }
        upload.offset = try await state.partBytes(of: upload.id)
        return upload
    }

    /// Recorded parts that still exist after a power cut.
    func recordedParts(
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

    func allParts(of id: UploadID) async throws(UploadError) -> [PartRecord] {
        try await recordedParts(of: id, after: 0, limit: PartRecord.numbers.upperBound)
    }

    /// The storage for parts.
    ///
    /// Without one, no upload in parts is ever recorded.
    var partStorage: any PartStorage {
        get throws(UploadError) {
            guard let takingParts else {
                throw UploadError(.invalidRequest, "The storage of this server does not support uploads in parts.")
            }
            return takingParts
        }
    }
}

extension UploadError {
    static func invalidParts(_ problem: PartsProblem, _ text: String) -> UploadError {
        UploadError(.invalidParts(problem), text)
    }
}
