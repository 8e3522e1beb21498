package import Bytes
internal import Digests
internal import SystemIO

#if canImport(Glibc)
internal import Glibc
package import UploadModel
#endif

/// Uploads in parts.
///
/// Parts of the same size, as nearly all are, have adjacent places in one file, which then only has to be renamed. A
/// part that does not fit its place, whose size is not known before its end, or whose place is taken by a recorded part,
/// gets a file of its own. Joining the parts copies it: only it, if its place is free by then, otherwise all parts.
extension DiskStorage: PartStorage {
    package var partStorage: (any PartStorage)? { self }

    package func createForParts(_ blob: NewBlob) async throws(UploadError) {
        let id = blob.id
        try await onPool { storage, io throws(SystemError) in
            _ = try storage.makeFile(storage.directory.partsPath(id), of: id, nil, io)
        }
    }

    package func storePart(
        _ part: NewPart,
        of id: UploadID,
        replacing replaced: String?,
        from source: any ByteSource,
        verifying verify: () async throws(UploadError) -> [UInt8]
    ) async throws(UploadError) -> String {
        try await storePart(part, of: id, replacing: replaced, interrupter: source.interrupter) {
            location throws(UploadError) in
            try await write(part, of: id, at: location, from: source, verifying: verify)
        }
    }

    /// Chooses a place for a part and has `write` fill it.
    ///
    /// - Returns: The location of the part.
    /// - Throws: `.notFound` once the parts are being joined; what `write` throws.
    func storePart(
        _ part: NewPart,
        of id: UploadID,
        replacing replaced: String?,
        interrupter: SourceInterrupter,
        _ write: (PartLocation) async throws(UploadError) -> Void
    ) async throws(UploadError) -> String {
        _ = try await places.unit(of: id) { () async throws(UploadError) -> Int64? in
            let hasRepeatedSize = places.hasRepeatedSize(part, of: id)
            return try await onBlob { storage, io throws(SystemError) in
                try storage.unit(of: id, beginning: part, hasRepeatedSize: hasRepeatedSize, io)
            }
        }
        let isRecorded =
            replaced.flatMap(PartLocation.init).map { $0.isPlace && $0.isThere(in: boot) } ?? (replaced != nil)
        guard let writer = places.begin(part, of: id, isRecorded: isRecorded, interrupter: interrupter) else {
            throw Self.joined
        }
        let place = writer.offset.map { PartLocation.Place.shared($0) } ?? .makeOwn(of: part.number)
        let location = PartLocation(place, unsynchronised: durability == .acknowledged ? nil : boot)
        do throws(UploadError) {
            try await write(location)
        } catch {
            if case .own(let name) = place { try? await removeOwn(name, of: id) }
            places.end(writer, of: id, isStored: false)
            if error.code == .notFound { places.forget(id) }
            throw error
        }
        places.end(writer, of: id, isStored: true)
        return location.text
    }

    package func removePart(_ number: Int, at location: String, of id: UploadID) async {
        switch PartLocation(location)?.place {
        // The next part in this place overwrites the bytes, or they are cut off.
        case .shared: places.release(number, of: id)
        // What cannot be removed now is removed with the blob.
        case .own(let name): try? await removeOwn(name, of: id)
        case nil: break
        }
    }

    package func isThere(_ part: PartRecord) -> Bool {
        PartLocation(part.location)?.isThere(in: boot) ?? true
    }

    package func isJoined(_ id: UploadID) async throws(UploadError) -> Bool {
        try await onPool { storage, io throws(SystemError) in
            if try io.exists(storage.directory.partsPath(id)) { return false }
            return try io.exists(storage.directory.blobPath(id))
        }
    }

    package func join(_ parts: [PartRecord], of id: UploadID) async throws(UploadError) {
        let total = try Self.total(of: parts)
        if try await isJoined(id) { return try await finishJoin(id, length: total) }
        await places.close(id)
        do throws(UploadError) {
            let unit = try await onBlob { storage, io throws(SystemError) in
                try NumberFile.value(at: storage.directory.layoutPath(id), io)
            }
            if let strays = Self.strays(among: parts, unit: unit) {
                try await copyToTheirPlaces(strays, of: id)
                try await onBlob { storage, io throws(SystemError) in
                    let file = try io.open(storage.directory.partsPath(id), O_WRONLY)
                    // The file is shorter than its records say.
                    guard try io.size(of: file) >= total else { throw SystemError("fstat", errno: EIO) }
                    switch storage.durability {
                    case .completed: try storage.synchronizeParts(of: id, file, io)
                    // Recorded parts are already durable, and strays are copied again if this fails.
                    case .acknowledged: if !strays.isEmpty { try io.synchronizeAll(of: file) }
                    case .none: break
                    }
                    try io.rename(storage.directory.partsPath(id), to: storage.directory.blobPath(id))
                }
            } else {
                try await copyTogether(parts, of: id)
            }
            try await finishJoin(id, length: total)
        } catch {
            places.reopen(id)
            throw error
        }
        places.forget(id)
    }

    /// The bytes of a recorded part that was not joined with others.
    ///
    /// - Parameters:
    ///   - part: Its record.
    ///   - id: The upload.
    /// - Returns: `nil` if another kind of storage has the part.
    /// - Throws: `.notFound`, `.storageFailure`.
    package func bytes(of part: PartRecord, of id: UploadID) async throws(UploadError) -> (any ByteSource)? {
        guard let location = PartLocation(part.location) else { return nil }
        let (file, start) = try await onBlob { storage, io throws(SystemError) in
            try storage.open(forReading: location, of: id, io)
        }
        return DiskSource(file, start..<start + part.size, pool: pool)
    }

    // MARK: Storing

    /// The recorded size of places, or a size derived from the part that begins now.
    ///
    /// Part 1 has the size of all parts except the last. The size of another part is used if a second part has it, or
    /// at once if it looks chosen by a client (a multiple of `chosenSizeUnit`): the last part rarely has such a size, and
    /// a wrong size only costs copying.
    private func unit(
        of id: UploadID,
        beginning part: NewPart,
        hasRepeatedSize: Bool,
        _ io: BlockingIO
    ) throws(SystemError) -> Int64? {
        let path = directory.layoutPath(id)
        if let unit = try NumberFile.value(at: path, io) { return unit }
        guard let size = part.size, size > 0, hasRepeatedSize || part.number == 1 || size % Self.chosenSizeUnit == 0
        else {
            return nil
        }
        // No layout file may remain for a blob that does not exist.
        _ = try io.size(of: directory.partsPath(id))
        try NumberFile.write(size, at: path, durableIn: durability == .none ? nil : shardPath(of: id), io)
        return size
    }

    private static let chosenSizeUnit: Int64 = 64 << 10

    private func write(
        _ part: NewPart,
        of id: UploadID,
        at location: PartLocation,
        from source: any ByteSource,
        verifying verify: () async throws(UploadError) -> [UInt8]
    ) async throws(UploadError) {
        let (file, offset) = try await onBlob { storage, io throws(SystemError) in
            try storage.open(location, of: id, io)
        }
        let outcome = await copy(
            from: source,
            to: file,
            at: offset,
            limit: part.size ?? Int64.max - offset,
            digest: nil
        )
        switch outcome.end {
        case .sourceFailed(let failure): throw UploadError(failure)
        case .fileFailed(let number): throw UploadError(SystemError("write", errno: number))
        case .endOfSource, .limitReached: break
        }
        if let size = part.size, outcome.moved != size { throw UploadError(partOf: size, received: outcome.moved) }
        _ = try await verify()
        guard durability == .acknowledged else { return }
        try await onBlob { storage, io throws(SystemError) in
            try storage.synchronizePart(file, at: location, of: id, io)
        }
    }

    /// Forces a part to stable storage, with its name if it has one.
    func synchronizePart(
        _ file: OpenFile,
        at location: PartLocation,
        of id: UploadID,
        _ io: BlockingIO
    ) throws(SystemError) {
        try io.synchronizeData(of: file)
        if !location.isPlace { try directorySyncs.synchronize(directory.ownPartsPath(id), io) }
    }

    func open(
        _ location: PartLocation,
        of id: UploadID,
        _ io: BlockingIO
    ) throws(SystemError) -> (OpenFile, Int64) {
        try checkRoom(io)
        switch location.place {
        case .shared(let offset): return (try io.open(directory.partsPath(id), O_WRONLY), offset)
        case .own(let name):
            // Fails unless the upload takes parts.
            _ = try io.size(of: directory.partsPath(id))
            let path = directory.ownPartsPath(id)
            try io.makeDirectory(path)
            // Also if the directory exists: another part may have created it just now.
            if durability != .none, !places.hasDurableDirectory(id) {
                try io.synchronizeDirectory(shardPath(of: id))
                places.noteDurableDirectory(id)
            }
            return (try io.open(path + "/" + name, O_WRONLY | O_CREAT | O_EXCL), 0)
        }
    }

    func open(
        forReading location: PartLocation,
        of id: UploadID,
        _ io: BlockingIO
    ) throws(SystemError) -> (OpenFile, Int64) {
        switch location.place {
        case .shared(let offset): (try io.open(directory.partsPath(id), O_RDONLY), offset)
        case .own(let name): (try io.open(directory.ownPartsPath(id) + "/" + name, O_RDONLY), 0)
        }
    }

    private func removeOwn(_ name: String, of id: UploadID) async throws(UploadError) {
        try await onPool { storage, io throws(SystemError) in
            try io.remove(storage.directory.ownPartsPath(id) + "/" + name)
        }
    }

    // MARK: Joining

    private static func total(of parts: [PartRecord]) throws(UploadError) -> Int64 {
        var total: Int64 = 0
        for part in parts {
            let (sum, overflow) = total.addingReportingOverflow(part.size)
            guard !overflow else {
                throw UploadError(.tooLarge(limit: .max), "The parts together have more bytes than a file can have.")
            }
            total = sum
        }
        return total
    }

    /// Forces the file of parts to stable storage if this was not done for each part.
    ///
    /// - Throws: Also if a sync failed before: it is unknown which parts are lost, and another sync would not report
    ///   it.
    private func synchronizeParts(of id: UploadID, _ file: OpenFile, _ io: BlockingIO) throws(SystemError) {
        let record = try io.durableRecord(of: file)
        guard !untrustedTails.contains(id), record == nil || record?.boot != nil else {
            throw SystemError("fsync", errno: EIO)
        }
        do throws(SystemError) {
            try io.synchronizeAll(of: file)
        } catch {
            untrustedTails.note(id, countingOnly: nil)
            try? io.setDurableRecord(DurableRecord(length: 0, boot: nil), of: file)
            throw error
        }
    }

    /// Parts in files of their own whose places are free, provided that all other parts are in their places.
    ///
    /// No other part has the place of a number, and at most one part with a number is recorded. Copying to these places
    /// therefore overwrites nothing that is needed, even if it is interrupted and other parts are completed later.
    ///
    /// - Parameters:
    ///   - parts: In order.
    ///   - unit: Bytes of each place; `nil` if not decided.
    /// - Returns: These parts and their places; `nil` if all parts must be copied.
    private static func strays(among parts: [PartRecord], unit: Int64?) -> [(part: PartRecord, place: Int64)]? {
        var strays: [(part: PartRecord, place: Int64)] = []
        var offset: Int64 = 0
        for part in parts {
            switch PartLocation(part.location)?.place {
            case .shared(offset): break
            case .own:
                guard let unit, part.size <= unit else { return nil }
                let (place, overflow) = Int64(part.number - 1).multipliedReportingOverflow(by: unit)
                guard !overflow, place == offset else { return nil }
                strays.append((part, place))
            case .shared, nil: return nil
            }
            offset += part.size
        }
        return strays
    }

    private func copyToTheirPlaces(
        _ strays: [(part: PartRecord, place: Int64)],
        of id: UploadID
    ) async throws(UploadError) {
        guard !strays.isEmpty else { return }
        let output = try await onBlob { storage, io throws(SystemError) in
            try io.open(storage.directory.partsPath(id), O_WRONLY)
        }
        for (part, place) in strays {
            guard let location = PartLocation(part.location) else { continue }
            let (input, start) = try await onBlob { storage, io throws(SystemError) in
                try storage.open(forReading: location, of: id, io)
            }
            try await copyInPieces(start..<start + part.size, of: input, to: output, at: place)
        }
    }

    private func copyTogether(_ parts: [PartRecord], of id: UploadID) async throws(UploadError) {
        let output = try await onPool { storage, io throws(SystemError) in
            try io.open(storage.directory.joiningPath(id), O_WRONLY | O_CREAT | O_TRUNC)
        }
        var offset: Int64 = 0
        for part in parts {
            guard let location = PartLocation(part.location) else {
                throw UploadError(.storageFailure, "The location of part \(part.number) cannot be read.")
            }
            let (input, start) = try await onBlob { storage, io throws(SystemError) in
                try storage.open(forReading: location, of: id, io)
            }
            try await copyInPieces(start..<start + part.size, of: input, to: output, at: offset)
            offset += part.size
        }
        try await onPool { storage, io throws(SystemError) in
            if storage.durability != .none { try io.synchronizeAll(of: output) }
            try io.rename(storage.directory.joiningPath(id), to: storage.directory.blobPath(id))
            // From here on the parts are not needed any more: `isJoined`.
            if storage.durability != .none { try io.synchronizeDirectory(storage.shardPath(of: id)) }
            try io.remove(storage.directory.partsPath(id))
        }
    }

    /// Removes the remains of the parts, including those that were not joined.
    private func finishJoin(_ id: UploadID, length: Int64) async throws(UploadError) {
        try await onBlob { storage, io throws(SystemError) in
            let file = try io.open(storage.directory.blobPath(id), O_WRONLY)
            let size = try io.size(of: file)
            guard size >= length else { throw SystemError("fstat", errno: EIO) }
            // Parts that were not named in the completion can be behind the joined ones.
            if size > length {
                try io.truncate(file, to: length)
                if storage.durability != .none { try io.synchronizeAll(of: file) }
            }
            try storage.removeParts(of: id, io)
            guard storage.durability != .none else { return }
            try io.synchronizeDirectory(storage.shardPath(of: id))
            storage.durable.note(id, length: length)
        }
    }

    /// Removes everything except the blob.
    func removeParts(of id: UploadID, _ io: BlockingIO) throws(SystemError) {
        try io.remove(directory.joiningPath(id))
        try io.remove(directory.partsPath(id))
        try io.removeDirectory(directory.ownPartsPath(id))
        try io.remove(directory.layoutPath(id))
    }

    private static let joined = UploadError(.notFound, "The parts of this upload are joined, and it takes no more.")
}
