package import Foundation
internal import Synchronization
internal import UploadCore
package import UploadModel

extension InMemoryState {
    package func insert(
        _ upload: Upload,
        consuming grant: Grant?,
        under effectiveLimits: EffectiveLimits,
        recording event: EventRecord
    ) async throws(UploadError) {
        try transaction { tables throws(UploadError) in
            if let grant { try tables.use(grant) }
            try tables.check(upload.writingRight)
            if let alias = upload.alias, tables.uploads.values.contains(where: { $0.alias == alias }) {
                throw UploadError.aliasTaken
            }
            if let bucket = upload.bucket, tables.buckets[Array(bucket.utf8)] == nil { throw UploadError.noBucket }
            try tables.charge(Accounting.creating(upload), createdAt: upload.createdAt, under: effectiveLimits)
            tables.uploads[upload.id] = upload
            tables.add(event)
        }
    }

    package func insert(
        _ upload: Upload,
        consuming grant: Grant?,
        under effectiveLimits: EffectiveLimits,
        recording event: EventRecord,
        pulling job: PullJob
    ) async throws(UploadError) {
        try await insert(upload, consuming: grant, under: effectiveLimits, recording: event)
        tables.withLock { $0.pulls[job.uploadID] = job }
    }

    package func insertComplete(
        _ upload: Upload,
        as media: Media,
        replacing replaced: UploadID?,
        consuming grant: Grant?,
        under effectiveLimits: EffectiveLimits,
        recording events: [EventRecord]
    ) async throws(UploadError) {
        try transaction { tables throws(UploadError) in
            if let grant { try tables.use(grant) }
            try tables.exercise(upload.writingRight, by: upload)
            if let bucket = upload.bucket, tables.buckets[Array(bucket.utf8)] == nil { throw UploadError.noBucket }
            guard media.objectName.flatMap(tables.object)?.id == replaced else { throw UploadError.objectChanged }
            let object = replaced.flatMap { tables.uploads[$0] }
            for step in Accounting.storing(upload, replacing: object) {
                try tables.charge(step, createdAt: upload.createdAt, under: effectiveLimits)
            }
            if let object { tables.end(object, as: .terminated, at: upload.updatedAt) }
            tables.uploads[upload.id] = upload
            tables.media[upload.id] = media
            for event in events { tables.add(event) }
        }
    }

    package func endRight(_ id: String, recordedUntil end: Date) async throws(UploadError) {
        tables.withLock { $0.usedGrants[id] = max($0.usedGrants[id] ?? end, end) }
    }

    package func hasEnded(right id: String) async throws(UploadError) -> Bool {
        tables.withLock { $0.usedGrants[id] != nil }
    }

    package func upload(_ id: UploadID) async throws(UploadError) -> Upload? {
        tables.withLock { $0.uploads[id] }
    }

    package func upload(alias: String) async throws(UploadError) -> UploadID? {
        tables.withLock { $0.uploads.values.first { $0.alias == alias }?.id }
    }

    package func uploads(_ query: UploadQuery) async throws(UploadError) -> [Upload] {
        tables.withLock { tables in
            let matching = tables.uploads.values.filter { upload in
                (query.states.isEmpty || query.states.contains(upload.state))
                    && (query.subject == nil || upload.subject == query.subject)
                    && (query.issuer == nil || upload.issuer == query.issuer)
                    && (query.dialect == nil || upload.dialect == query.dialect)
                    && query.before.map { upload.id.text < $0.text } ?? true
                    && query.oldest.map { upload.id.text >= $0.text } ?? true
                    && query.createdAfter.map { upload.createdAt >= $0 } ?? true
                    && query.createdBefore.map { upload.createdAt < $0 } ?? true
            }
            return Array(matching.sorted { $0.id.text > $1.id.text }.prefix(query.limit))
        }
    }

    package func end(of query: UploadQuery, reading count: Int) async throws(UploadError) -> UploadID? {
        guard query.readsOthers else { return nil }
        return tables.withLock { tables in
            query.orders.compactMap { column, value in
                let ids = tables.uploads.values.filter { upload in
                    let found =
                        switch column {
                        case "subject": upload.subject
                        case "issuer": upload.issuer
                        case "dialect": upload.dialect
                        default: upload.state.rawValue
                        }
                    return found == value && upload.id.text >= query.lowestID ?? ""
                        && query.endOfIDs.map { upload.id.text < $0 } ?? true
                }.map(\.id).sorted { $0.text > $1.text }
                return ids.dropFirst(count - 1).first
            }.max { $0.text < $1.text }
        }
    }

    package func uploads(_ ids: [UploadID]) async throws(UploadError) -> [UploadID: Upload] {
        tables.withLock { tables in tables.uploads.filter { ids.contains($0.key) } }
    }

    package func openFinals(of part: UploadID) async throws(UploadError) -> [UploadID] {
        tables.withLock { tables in
            tables.uploads.values.filter { $0.state == .open && $0.concatenation?.parts?.contains(part) == true }
                .map(\.id).sorted { $0.text < $1.text }
        }
    }

    package func complete(
        _ completed: Upload,
        as media: Media?,
        replacing replaced: UploadID?,
        under effectiveLimits: EffectiveLimits,
        recording events: [EventRecord]
    ) async throws(UploadError) -> Bool {
        try transaction { tables throws(UploadError) in
            guard var upload = tables.uploads[completed.id], upload.state == .open else { return false }
            guard upload.metadata == completed.metadata else { throw UploadError.metadataChanged }
            try tables.exercise(upload.writingRight, by: completed)
            let parts = Set(upload.concatenation?.parts ?? []).compactMap { tables.uploads[$0] }
            guard media?.objectName.flatMap(tables.object)?.id == replaced else { throw UploadError.objectChanged }
            let object = replaced.flatMap { tables.uploads[$0] }
            let size = completed.length ?? 0
            let changes = Accounting.completing(upload, size: size, parts: parts, replacing: object)
            try tables.charge(changes, createdAt: upload.createdAt, under: effectiveLimits)
            if let object { tables.end(object, as: .terminated, at: completed.updatedAt) }
            for part in parts { tables.uploads[part.id]?.reservedBytes = 0 }
            upload.state = .completed
            upload.length = completed.length
            upload.offset = completed.length ?? 0
            upload.reservedBytes = completed.reservedBytes
            upload.updatedAt = completed.updatedAt
            upload.endedAt = completed.endedAt
            upload.expiresAt = completed.expiresAt
            upload.attributes = completed.attributes
            tables.uploads[upload.id] = upload
            tables.objectParts[upload.id] = nil
            tables.media[upload.id] = media
            for event in events { tables.add(event) }
            return true
        }
    }

    package func end(
        _ id: UploadID,
        from expected: Upload.State,
        as state: Upload.State,
        at now: Date,
        received: Int64,
        recording event: EventRecord
    ) async throws(UploadError) -> Bool {
        try transaction { tables throws(UploadError) in
            guard let upload = tables.uploads[id], upload.isAlive, upload.state == expected else { return false }
            let named = upload.state == .completed ? upload.concatenation?.parts ?? [] : []
            let parts = Set(named).compactMap { tables.uploads[$0] }
            let changes = Accounting.ending(upload, received: received, parts: parts)
            try tables.charge(changes, createdAt: upload.createdAt, under: nil)
            for part in parts where part.isReleased { tables.uploads[part.id]?.reservedBytes = part.length ?? 0 }
            tables.end(upload, as: state, at: now)
            tables.add(event)
            return true
        }
    }

    package func setMetadata(
        of id: UploadID,
        from before: UploadMetadata,
        to metadata: UploadMetadata,
        updatedAt: Date,
        recording event: EventRecord
    ) async throws(UploadError) -> Bool {
        try transaction { tables throws(UploadError) in
            guard let upload = tables.uploads[id], upload.state == .open || upload.state == .completed
            else { return false }
            guard upload.metadata == before else { throw UploadError.metadataChanged }
            tables.uploads[id]?.metadata = metadata
            tables.uploads[id]?.updatedAt = updatedAt
            tables.media[id]?.metadata = metadata.values
            tables.media[id]?.filename = metadata.filename
            tables.media[id]?.contentType = metadata.contentType
            tables.add(event)
            return true
        }
    }

    package func setAttributes(
        of id: UploadID,
        to attributes: ObjectAttributes
    ) async throws(UploadError) -> Bool {
        tables.withLock { tables in
            guard let state = tables.uploads[id]?.state, state == .open || state == .completed else { return false }
            tables.uploads[id]?.attributes = attributes
            tables.media[id]?.attributes = attributes
            return true
        }
    }

    package func setExpiry(of id: UploadID, to date: Date?, updatedAt: Date) async throws(UploadError) {
        tables.withLock { tables in
            guard tables.uploads[id]?.state == .open else { return }
            tables.uploads[id]?.expiresAt = date
            tables.uploads[id]?.updatedAt = updatedAt
        }
    }
}
