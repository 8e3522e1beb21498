package import Bytes
internal import Signing
internal import Synchronization
package import UploadModel

/// Uploads in parts. Each part becomes a part of the store's multipart upload if it is large enough (see `SmallPart`).
extension S3Storage: PartStorage {
    package var partStorage: (any PartStorage)? { self }

    package func createForParts(_ blob: NewBlob) async throws(UploadError) {
        try await create(blob, partSize: 0)
        do throws(UploadError) {
            // Now, because parts can arrive at several nodes at the same time.
            _ = try await withMultipart(try await record(of: blob.id))
        } catch {
            // A multipart upload that the store may have created is found by its key.
            try? await remove(blob.id)
            throw error
        }
    }

    package func storePart(
        _ part: NewPart,
        of id: UploadID,
        replacing replaced: String?,
        from source: any ByteSource,
        verifying verify: () async throws(UploadError) -> [UInt8]
    ) async throws(UploadError) -> String {
        let record = try await record(of: id)
        guard record.state == .open, record.multipart != nil else {
            throw Self.joined
        }
        guard part.number <= settings.maximumParts else {
            throw UploadError(.invalidRequest, "The store accepts part numbers up to \(settings.maximumParts).")
        }
        // The part is kept until the store has confirmed it.
        let room = Int64(memory.capacity) + spool.capacity
        // Content of a user without a length is bounded by nothing else, and nobody may have all.
        let share = part.size == nil && StorageUser.current != nil ? room / 2 : room
        let most = min(S3Settings.largestPart, share)
        guard part.size ?? 0 <= most else { throw Self.tooLarge(most) }
        let buffer = PartBuffer()
        defer { memory.release(buffer.discard()) }
        if let size = part.size { buffer.setLength(size) }
        let isSmall = part.size.map { self.isSmall(part, $0) }
        var upload: PartUpload?
        do throws(UploadError) {
            let last = try await receive(part.size, upTo: most, from: source, into: buffer) { rest, taken, beginning in
                // If the head of the request needs a digest, it cannot be sent before the part is complete.
                guard upload == nil, isSmall == false, !settings.sendsContentMD5,
                    Self.arrivesSoon(rest, after: taken, since: beginning)
                else { return }
                upload = PartUpload(part: part.number, buffer, record, self)
            }
            // The store must not get all bytes of a part that is refused, because it would replace the previous one.
            let md5 = try await verify()
            // Nor a late part: some stores make no object while there is a part that is not named.
            guard try await self.record(of: id).state == .open else { throw Self.joined }
            guard try await keep(last, in: buffer, relieving: { false }) else { throw AppendSession.tooSlow }
            buffer.close()
            buffer.setMD5(md5)
            if isSmall ?? self.isSmall(part, buffer.count) { return try await putSmallPart(buffer, of: record) }
            return try await (upload ?? PartUpload(part: part.number, buffer, record, self)).entityTag()
        } catch {
            buffer.stopReaders()
            upload?.cancel()
            await upload?.wait()
            throw error
        }
    }

    /// Receives all bytes of a part and buffers them, except the last piece.
    ///
    /// - Parameters:
    ///   - size: Size of the part in bytes, if known.
    ///   - most: Its maximum size.
    ///   - source: Pulled to its end.
    ///   - buffer: The buffer of the part.
    ///   - look: Called for a known size with the number of bytes still to come, the number received, and the start time.
    /// - Returns: The last piece.
    /// - Throws: The failure of the source; `.lengthConflict`, `.tooLarge`; `.unavailable` if there was no room in time.
    private func receive(
        _ size: Int64?,
        upTo most: Int64,
        from source: any ByteSource,
        into buffer: PartBuffer,
        _ look: (Int64, Int64, ContinuousClock.Instant) -> Void
    ) async throws(UploadError) -> [UInt8] {
        let beginning = ContinuousClock.now
        var taken: Int64 = 0
        let arrival = arrivals.begin(source)
        defer { arrivals.end(arrival) }
        while true {
            let piece: [UInt8]
            do throws(SourceFailure) {
                let room = Int(min(Self.receivedAtOnce, (size ?? .max) - taken))
                arrival.wait()
                piece = room > 0 ? try await source.next(maximum: room) ?? [] : []
                arrival.add(piece.count)
            } catch {
                throw UploadError(error)
            }
            taken += Int64(piece.count)
            if taken == size || size == nil && piece.isEmpty { return piece }
            if let size, piece.isEmpty { throw UploadError(partOf: size, received: taken) }
            guard taken <= most else { throw Self.tooLarge(most) }
            guard try await keep(piece, in: buffer, relieving: { false }) else { throw AppendSession.tooSlow }
            if let size { look(size - taken, taken, beginning) }
        }
    }

    private static func tooLarge(_ most: Int64) -> UploadError {
        UploadError(.tooLarge(limit: most), "The server accepts parts of up to \(most) bytes; send smaller ones.")
    }

    private static let joined = UploadError(.notFound, "The parts of this upload are joined; it accepts no more parts.")

    private static let receivedAtOnce: Int64 = 128 << 10

    /// The store keeps one part per number; only tail objects can exist in addition.
    package func removePart(_ number: Int, at location: String, of id: UploadID) async {
        guard let part = SmallPart(location: location), let record = try? await records.blob(id) else { return }
        // Nothing waits for it, and remains are removed with the upload.
        inBackground { [self] in try? await client.delete(tailPrefix(of: id) + part.name, in: record.bucket) }
    }

    package func join(_ parts: [PartRecord], of id: UploadID) async throws(UploadError) {
        var record = try await record(of: id)
        guard record.state == .open else { return }
        let stored = parts.map { BlobPart(number: $0.number, size: $0.size, entityTag: $0.location) }
        _ = try groups(of: stored)
        record.state = .completing
        record.partCount = parts.count
        record.partBytes = parts.reduce(0) { $0 + $1.size }
        record.crc32c = nil
        // `synchronize` makes the store combine them, now or after a restart.
        _ = try await records.update(record, adding: stored, droppingFrom: 1)
        joins.withLock { joins in
            if joins.count >= Self.maximumPristine { joins = [] }
            joins.insert(id)
        }
    }

    package func isJoined(_ id: UploadID) async throws(UploadError) -> Bool {
        guard let record = try await records.blob(id) else { return false }
        return record.state != .open
    }
}
