internal import Bytes
internal import Digests
internal import UploadModel

/// Parts from clients whose vendor allows smaller parts than the store.
///
/// Such a part is a tail object until the upload is completed, because its neighbours are not known before. Then
/// neighbours are read and sent together, as one part of the store with the number of the first of them.
struct SmallPart: Sendable, Equatable {
    /// Name of the tail object, after the prefix of its blob.
    let name: String
    /// 16 bytes.
    let md5: [UInt8]

    /// Prefix of all such names.
    static let namePrefix = "part-"
    /// No entity tag begins like this: tags of a store are quoted or hexadecimal.
    private static let mark = "side:"

    init(name: String, md5: [UInt8]) {
        self.name = name
        self.md5 = md5
    }

    /// The small part at a location; `nil` if the location belongs to a part of the store.
    init?(location: String) {
        guard location.hasPrefix(Self.mark) else { return nil }
        let fields = location.dropFirst(Self.mark.count).split(separator: ":", omittingEmptySubsequences: false)
        guard fields.count == 2, let md5 = Hexadecimal.decode(String(fields[1])), md5.count == 16 else { return nil }
        self.init(name: String(fields[0]), md5: md5)
    }

    /// Recorded instead of an entity tag.
    var location: String { "\(Self.mark)\(name):\(Hexadecimal.encode(md5))" }

    /// Groups the parts of a client; each group becomes one part of the store.
    ///
    /// - Parameters:
    ///   - parts: Ordered by number.
    ///   - minimum: Minimum size that the store requires of each part except the last.
    ///   - size: Size at which a group of small parts is complete.
    /// - Returns: All parts; parts that the store already has are alone in their group.
    /// - Throws: `.invalidParts(.tooSmall)` if a small part is between parts with which it cannot be combined.
    static func groups(
        of parts: [BlobPart],
        minimum: Int64,
        size: Int64
    ) throws(UploadError) -> [ArraySlice<BlobPart>] {
        var groups: [ArraySlice<BlobPart>] = []
        var start = parts.startIndex
        var bytes: Int64 = 0
        /// Closes the current group before `end`.
        func close(before end: Int) throws(UploadError) {
            defer { (start, bytes) = (end, 0) }
            guard start < end else { return }
            guard bytes < minimum, end < parts.endIndex else {
                groups.append(parts[start..<end])
                return
            }
            // Too small for a part of its own, and another one follows.
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
    /// Whether the store would refuse this part if another one followed, or cannot receive it yet because parts before
    /// it may be too small.
    func isSmall(_ part: NewPart, _ size: Int64) -> Bool {
        part.minimumSize < settings.minimumPartSize && size < settings.minimumPartSize
    }

    /// Stores a part until its neighbours are known.
    ///
    /// - Parameters:
    ///   - content: Complete, with its digest.
    ///   - record: The blob.
    /// - Returns: Its location.
    /// - Throws: Failures of the store.
    func putSmallPart(_ content: PartBuffer, of record: BlobRecord) async throws(UploadError) -> String {
        let tail = try await putTail(content, of: record, named: SmallPart.namePrefix).get()
        return SmallPart(name: String(tail.key.dropFirst(tailPrefix(of: record.id).count)), md5: tail.md5).location
    }

    /// See `SmallPart.groups`.
    func groups(of parts: [BlobPart]) throws(UploadError) -> [ArraySlice<BlobPart>] {
        let minimum = settings.minimumPartSize
        // Each group is in memory while it is sent.
        return try SmallPart.groups(
            of: parts,
            minimum: minimum,
            size: max(minimum, min(settings.partSize, Int64(memory.capacity / 4)))
        )
    }

    /// Makes parts of the store from small parts.
    ///
    /// After a crash it starts again from the beginning, and two nodes can do it for the same blob: the same bytes get
    /// the same numbers. The tail objects remain until the blob is complete.
    ///
    /// - Parameters:
    ///   - record: A blob whose completion has begun.
    ///   - parts: The recorded parts.
    /// - Returns: Record and parts as they are recorded now.
    /// - Throws: `.interrupted` if another node changed the record meanwhile; failures of the store.
    func combiningSmallParts(
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

    /// Reopens the upload if a recorded part is lost, so that the client can send it again.
    ///
    /// - Parameters:
    ///   - found: A blob whose completion has begun.
    ///   - parts: The recorded parts.
    ///   - error: Why they were not combined.
    /// - Throws: `.invalidParts(.unknown)` with the number of the part; `.interrupted`.
    func reopen(_ found: BlobRecord, _ parts: [BlobPart], after error: UploadError) async throws(UploadError) {
        guard let lost = error.cause as? LostTail, found.state == .completing else { return }
        let prefix = tailPrefix(of: found.id)
        guard let part = parts.first(where: { SmallPart(location: $0.entityTag).map { prefix + $0.name } == lost.key })
        else { return }
        var record = found
        record.state = .open
        _ = try await records.update(record, adding: [], droppingFrom: 1)
        throw UploadError(
            .invalidParts(.unknown(number: part.number)),
            "The server's store has lost part \(part.number); send it again.",
            cause: lost
        )
    }

    private func joined(
        _ group: ArraySlice<BlobPart>,
        of record: BlobRecord
    ) async -> Result<BlobPart, UploadError> {
        var tails: [TailObject] = []
        for part in group {
            guard let small = SmallPart(location: part.entityTag) else { return .success(part) }
            tails.append(
                TailObject(key: tailPrefix(of: record.id) + small.name, length: part.size, md5: small.md5)
            )
        }
        do throws(UploadError) {
            return .success(try await self.part(group[group.startIndex].number, of: tails, in: record))
        } catch {
            return .failure(error)
        }
    }
}
