internal import Bytes
internal import Digests
internal import UploadCore

/// Parts of clients whose vendor takes smaller parts than the store does.
///
/// Such a part is a side object until the upload is completed, as nobody knows before which parts are its neighbours. Then
/// neighbours are read and sent together, as one part of the store with the number of the first of them.
struct SmallPart: Sendable, Equatable {
    /// Of the side object, behind the prefix of its blob.
    let name: String
    /// 16 bytes.
    let md5: [UInt8]

    /// Before the names of all of them.
    static let namePrefix = "part-"
    /// No entity tag begins so: those of a store are in quotes, or hexadecimal.
    private static let mark = "side:"

    init(name: String, md5: [UInt8]) {
        self.name = name
        self.md5 = md5
    }

    /// The part at a location; `nil` if it is a part of the store.
    init?(location: String) {
        guard location.hasPrefix(Self.mark) else { return nil }
        let fields = location.dropFirst(Self.mark.count).split(separator: ":", omittingEmptySubsequences: false)
        guard fields.count == 2, let md5 = Hexadecimal.decode(String(fields[1])), md5.count == 16 else { return nil }
        self.init(name: String(fields[0]), md5: md5)
    }

    /// What is recorded in place of an entity tag.
    var location: String { "\(Self.mark)\(name):\(Hexadecimal.encode(md5))" }

    /// Parts of a client, each group of which becomes one part of the store.
    ///
    /// - Parameters:
    ///   - parts: In the order of their numbers.
    ///   - minimum: Bytes that the store wants of each part but the last one.
    ///   - size: Bytes with which a group of small parts is large enough.
    /// - Returns: All parts; those that the store has are alone.
    /// - Throws: `.invalidParts(.tooSmall)` if there is a small one between parts with which it can not be joined.
    static func groups(
        of parts: [BlobPart],
        minimum: Int64,
        size: Int64
    ) throws(UploadError) -> [ArraySlice<BlobPart>] {
        var groups: [ArraySlice<BlobPart>] = []
        var start = parts.startIndex
        var bytes: Int64 = 0
        /// Ends the group that is being filled, before `end`.
        func close(before end: Int) throws(UploadError) {
            defer { (start, bytes) = (end, 0) }
            guard start < end else { return }
            guard bytes < minimum, end < parts.endIndex else {
                groups.append(parts[start..<end])
                return
            }
            // Too little for a part of its own, and another one follows.
            guard let last = groups.last, SmallPart(location: last[last.startIndex].entityTag) != nil,
                SmallPart(location: parts[start].entityTag) != nil
            else {
                throw UploadError(partTooSmall: parts[start].number, size: bytes, minimum: minimum)
            }
            groups[groups.count - 1] = parts[last.startIndex..<end]
        }
        for index in parts.indices {
            if SmallPart(location: parts[index].entityTag) == nil {
                try close(before: index)
                bytes = parts[index].size
                try close(before: index + 1)
            } else {
                bytes += parts[index].size
                if bytes >= size { try close(before: index + 1) }
            }
        }
        try close(before: parts.endIndex)
        return groups
    }
}

extension S3Storage {
    /// Whether the store would not take this part if another one followed, or can not be given it because those before it may
    /// be such.
    func isSmall(_ part: NewPart) -> Bool {
        part.minimumSize < settings.minimumPartSize && part.size < settings.minimumPartSize
    }

    /// Keeps a part until its neighbours are known.
    ///
    /// - Parameters:
    ///   - content: Whole, with its digest.
    ///   - record: Whose it is.
    /// - Returns: Its location.
    /// - Throws: What the store's answer became.
    func putSmallPart(_ content: PartBuffer, of record: BlobRecord) async throws(UploadError) -> String {
        let side = try await putSide(content, of: record, named: SmallPart.namePrefix).get()
        return SmallPart(name: String(side.key.dropFirst(sidePrefix(of: record.id).count)), md5: side.md5).location
    }

    /// See `SmallPart.groups`.
    func groups(of parts: [BlobPart]) throws(UploadError) -> [ArraySlice<BlobPart>] {
        let minimum = settings.minimumPartSize
        // Each is in memory while it is sent.
        return try SmallPart.groups(
            of: parts,
            minimum: minimum,
            size: max(minimum, min(settings.partSize, Int64(memory.capacity / 4)))
        )
    }

    /// Makes parts of the store of those that are none.
    ///
    /// If the process dies it is done again from the beginning, and so it is by two who complete the same blob: the same bytes
    /// get the same numbers. The side objects are there until the blob is complete.
    ///
    /// - Parameters:
    ///   - record: One whose completion was begun.
    ///   - parts: As they are recorded.
    /// - Returns: Both, as they are recorded now.
    /// - Throws: `.interrupted` if somebody else changed the record meanwhile; what the store's answers became.
    func joiningSmall(
        _ record: BlobRecord,
        _ parts: [BlobPart]
    ) async throws(UploadError) -> (BlobRecord, [BlobPart]) {
        let groups = try groups(of: parts)
        guard parts.contains(where: { SmallPart(location: $0.entityTag) != nil }) else { return (record, parts) }
        let joined = try await withTaskGroup(of: Result<BlobPart, UploadError>.self) { tasks in
            var waiting = groups[...]
            var joined: [BlobPart] = []
            for _ in 0..<settings.parallelParts {
                guard let group = waiting.popFirst() else { break }
                tasks.addTask { await self.joined(group, of: record) }
            }
            while let result = await tasks.next() {
                switch result {
                case .success(let part): joined.append(part)
                case .failure(let error):
                    tasks.cancelAll()
                    return Result<[BlobPart], UploadError>.failure(error)
                }
                if let group = waiting.popFirst() { tasks.addTask { await self.joined(group, of: record) } }
            }
            return .success(joined.sorted { $0.number < $1.number })
        }.get()
        var record = record
        record.partCount = joined.count
        record.version = try await records.update(record, adding: joined, droppingFrom: 1)
        return (record, joined)
    }

    /// Lets parts come again if one of those that are recorded is lost.
    ///
    /// - Parameters:
    ///   - found: One whose completion was begun.
    ///   - parts: As they are recorded.
    ///   - error: Why they were not joined.
    /// - Throws: `.invalidParts(.unknown)`, which names the part; `.interrupted`.
    func reopen(_ found: BlobRecord, _ parts: [BlobPart], after error: UploadError) async throws(UploadError) {
        guard let lost = error.cause as? LostSide, found.state == .completing else { return }
        let prefix = sidePrefix(of: found.id)
        guard let part = parts.first(where: { SmallPart(location: $0.entityTag).map { prefix + $0.name } == lost.key })
        else { return }
        var record = found
        record.state = .open
        _ = try await records.update(record, adding: [], droppingFrom: 1)
        throw UploadError(
            .invalidParts(.unknown(number: part.number)),
            "The store of the server has lost part \(part.number); send it again.",
            cause: lost
        )
    }

    private func joined(
        _ group: ArraySlice<BlobPart>,
        of record: BlobRecord
    ) async -> Result<BlobPart, UploadError> {
        var sides: [SideObject] = []
        for part in group {
            guard let small = SmallPart(location: part.entityTag) else { return .success(part) }
            sides.append(
                SideObject(key: sidePrefix(of: record.id) + small.name, length: part.size, md5: small.md5)
            )
        }
        do throws(UploadError) {
            return .success(try await self.part(group[group.startIndex].number, of: sides, in: record))
        } catch {
            return .failure(error)
        }
    }
}
