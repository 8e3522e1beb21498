internal import DiskStorage
internal import Foundation
package import GatewayKit
package import SettingsKit
internal import SQLiteState
internal import Stores
internal import SystemIO
internal import UploadModel

/// Copies a data directory while a gateway serves, for `sluice backup`.
///
/// ```
/// <backup>/
///   20260131T235959Z/     a complete copy, with the names of a data directory; files that did not change are links to
///                         the same file of the copy before
///     manifest            SHA-256 of the files, as sha256sum reads them
///     sums/<xy>           the same for blobs/<xy>
///   unfinished/           a copy that is being made, or was cut off
/// ```
///
/// The state is copied first, as of one moment, and then the bytes. Bytes are created before their record, so that each
/// record of the copy had its bytes at that moment. What the gateway removes meanwhile is then removed from the copied
/// state as well. Bytes without a record in the copied state are left out.
package struct DirectoryBackup: Sendable {
    private let settings: Settings
    private let report: @Sendable (String) -> Void

    /// - Parameters:
    ///   - settings: The settings of the gateway.
    ///   - report: Receives what was done, one line each.
    package init(_ settings: Settings, report: @escaping @Sendable (String) -> Void) {
        self.settings = settings
        self.report = report
    }

    static let unfinished = "unfinished"
    static let manifest = "manifest"
    static let sums = "sums"

    /// - Parameters:
    ///   - target: Directory with the backups; made if it is missing.
    ///   - kept: How many copies to keep, with the new one.
    /// - Returns: Whether each record of the copy has its bytes.
    /// - Throws: `StartFailure` with a message for the operator; copies made before are left as they are.
    package func run(to target: String, keeping kept: Int) async throws(StartFailure) -> Bool {
        guard settings.database.url == nil else {
            throw StartFailure(
                """
                the state is in PostgreSQL (database.url), so this command cannot copy it. Run pg_dump first; then copy the bytes: \
                `blobs` and `store` of the data directory, or the bucket by the means of the store. Keep the master secret too
                """
            )
        }
        ProcessSetup.prepare()
        let root = settings.general.dataDirectory
        let source = try starting { () throws(DataDirectoryError) in try DataDirectory(reading: root) }
        try Settings.makePrivate(target, "backup directory")
        let lock = try inFile { io throws(SystemError) in
            let lock = try io.open(target + "/lock", O_RDWR | O_CREAT)
            try io.lock(lock)
            return lock
        }
        defer { withExtendedLifetime(lock) {} }
        let previous = Self.copies(in: target).last
        let folder = target + "/" + Self.unfinished
        do {
            if FileManager.default.fileExists(atPath: folder) { try FileManager.default.removeItem(atPath: folder) }
        } catch {
            throw StartFailure("\(folder) cannot be removed: \(error.localizedDescription)")
        }
        try Settings.makePrivate(folder, "backup directory")
        let name = Self.name(after: previous)
        let (isComplete, copy): (Bool, ChecksummedCopy)
        do throws(StartFailure) {
            (isComplete, copy) = try await fill(folder, from: source, previous.map { target + "/" + $0 })
            try inFile { io throws(SystemError) in try io.synchronizeFileSystem(of: folder) }
        } catch {
            // Its space may be what the gateway lacks.
            try? FileManager.default.removeItem(atPath: folder)
            throw StartFailure("\(error); nothing was added to \(target)")
        }
        try inFile { io throws(SystemError) in
            try io.rename(folder, to: target + "/" + name)
            try io.synchronizeDirectory(target)
        }
        for old in Self.copies(in: target).dropLast(max(kept, 1)) {
            try? FileManager.default.removeItem(atPath: target + "/" + old)
        }
        report("\(target)/\(name): \(copy.copied) files copied (\(copy.copiedBytes) bytes), \(copy.linked) unchanged")
        report(note)
        return isComplete
    }

    /// The complete copies, oldest first.
    static func copies(in target: String) -> [String] {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: target)) ?? []
        return names.filter { $0.utf8.count == 16 && $0.hasSuffix("Z") && $0.dropFirst(8).first == "T" }.sorted()
    }

    /// The time in UTC; later than the copy before, whatever the clock says.
    private static func name(after previous: String?) -> String {
        let formatter = DateFormatter()
        formatter.locale = Locale(identifier: "en_US_POSIX")
        formatter.timeZone = TimeZone(secondsFromGMT: 0)
        formatter.dateFormat = "yyyyMMdd'T'HHmmss'Z'"
        let now = Date()
        guard let previous, let last = formatter.date(from: previous) else { return formatter.string(from: now) }
        return formatter.string(from: max(now, last.addingTimeInterval(1)))
    }

    private var note: String {
        var notes: [String] = []
        if settings.general.masterSecret == nil {
            notes.append("it contains the master secret, so keep it as safe as the data directory")
        } else {
            notes.append("the master secret comes from the settings and is not in it: keep it too")
        }
        if settings.general.storage == .s3 {
            notes.append("the bytes are in the store: copy the bucket by its own means now, after this command")
        }
        return notes.joined(separator: "; ")
    }

    // MARK: Copying

    private func fill(
        _ folder: String,
        from source: DataDirectory,
        _ previous: String?
    ) async throws(StartFailure) -> (isComplete: Bool, ChecksummedCopy) {
        var copy = ChecksummedCopy()
        var sums: [(path: String, sum: String)] = []
        for name in DataDirectory.copiedNames where FileManager.default.fileExists(atPath: source.root + "/" + name) {
            sums.append(
                (
                    name,
                    try copying { () throws(SystemError) in
                        try copy.copy(source.root + "/" + name, to: folder + "/" + name)
                    }
                )
            )
        }
        let statePath = DataDirectory.statePath(in: folder)
        let (live, lock) = try await copyState(to: statePath, from: source, &copy)
        defer {
            live?.close()
            withExtendedLifetime(lock) {}
        }
        let state = try GatewayState.made(at: statePath)
        var isComplete = true
        do throws(StartFailure) {
            if settings.general.storage == .disk {
                sums += try await copyBlobs(of: state, to: folder, from: source, previous, &copy)
                isComplete = try await adjust(state, in: folder, to: live ?? state)
            }
            state.close()
        } catch {
            state.close()
            throw error
        }
        sums.append(("state.sqlite", try copying { () throws(SystemError) in try copy.sum(of: statePath) }))
        try copying { () throws(SystemError) in try copy.write(sums, to: folder + "/" + Self.manifest) }
        return (isComplete, copy)
    }

    /// Copies the state as of one moment.
    ///
    /// SQLite writes beside a state that it reads. If the disk is full or read-only, the files are copied as they are,
    /// unless a gateway runs.
    ///
    /// - Returns: The gateway's state; or, if its files were copied, the lock that keeps a gateway from changing the bytes.
    private func copyState(
        to path: String,
        from source: DataDirectory,
        _ copy: inout ChecksummedCopy
    ) async throws(StartFailure) -> (live: SQLiteState?, lock: OpenFile?) {
        let failure: StartFailure
        do throws(StartFailure) {
            let live = try GatewayState.file(of: settings)
            do throws(StartFailure) {
                try await reading { () async throws(UploadError) in try await live.copy(to: path) }
                return (live, nil)
            } catch {
                live.close()
                throw error
            }
        } catch {
            failure = error
        }
        let io = copy.io
        guard let lock = try? io.open(source.root + "/lock", O_RDONLY), (try? io.lock(lock)) != nil else {
            throw failure
        }
        for suffix in ["", "-wal"] where FileManager.default.fileExists(atPath: source.statePath + suffix) {
            _ = try copying { () throws(SystemError) in
                try copy.copy(source.statePath + suffix, to: path + suffix)
            }
        }
        return (nil, lock)
    }

    private func copyBlobs(
        of state: SQLiteState,
        to folder: String,
        from source: DataDirectory,
        _ previous: String?,
        _ copy: inout ChecksummedCopy
    ) async throws(StartFailure) -> [(path: String, sum: String)] {
        let blobs = DataDirectory.blobsPath(in: source.root)
        let io = copy.io
        let pool = BlockingPool(threads: 1, label: "sluice.block")
        let disk = DiskStorage(directory: source, durability: settings.storageDurability, pool: pool)
        let shards = try copying { () throws(SystemError) in
            try io.makeDirectory(DataDirectory.blobsPath(in: folder))
            try io.makeDirectory(folder + "/" + Self.sums)
            return try io.entries(of: blobs).filter { $0.utf8.count == 2 }.sorted()
        }
        var all: [(path: String, sum: String)] = []
        for shard in shards {
            let names = try copying { () throws(SystemError) in try io.entries(of: blobs + "/" + shard) }
            let ids = Set(names.compactMap(DataDirectory.owner)).sorted { $0.text < $1.text }
            let needed = try await reading { () async throws(UploadError) in try await state.needed(ids) }
            let place = "blobs/" + shard
            let known = previous.flatMap { try? copy.sums(at: $0 + "/" + Self.sums + "/" + shard) } ?? [:]
            _ = try copying { () throws(SystemError) in try io.makeDirectory(folder + "/" + place) }
            var sums: [(path: String, sum: String)] = []
            for id in ids where needed.contains(id) {
                sums += try await copyBlob(id, disk, place, from: source.root, previous, known, to: folder, &copy)
            }
            let path = Self.sums + "/" + shard
            try copying { () throws(SystemError) in try copy.write(sums, to: folder + "/" + path) }
            all.append((path, try copying { () throws(SystemError) in try copy.sum(of: folder + "/" + path) }))
        }
        return all
    }

    /// How often the files of an upload are copied again because they were renamed or removed meanwhile.
    private static let attempts = 5

    private func copyBlob(
        _ id: UploadID,
        _ disk: DiskStorage,
        _ place: String,
        from root: String,
        _ previous: String?,
        _ known: [String: String],
        to folder: String,
        _ copy: inout ChecksummedCopy
    ) async throws(StartFailure) -> [(path: String, sum: String)] {
        for _ in 0..<Self.attempts {
            let length = try await reading { () async throws(UploadError) in try await disk.storedLength(of: id) }
            do throws(SystemError) {
                var sums: [(path: String, sum: String)] = []
                for name in try Self.files(of: id, in: root + "/" + place, copy.io) {
                    let path = place + "/" + name
                    let target = folder + "/" + path
                    if name.contains("/") { try copy.io.makeDirectory((target as NSString).deletingLastPathComponent) }
                    if let previous, let sum = known[path],
                        try copy.link(root + "/" + path, asIn: previous + "/" + path, to: target)
                    {
                        sums.append((path, sum))
                    } else {
                        let first = name == id.text ? length : nil
                        sums.append((path, try copy.copy(root + "/" + path, to: target, first: first)))
                    }
                }
                return sums
            } catch {
                // Its parts were joined, or it was removed.
                guard error.errno == ENOENT else { throw StartFailure("the bytes of \(id): \(error)") }
            }
            try copying { () throws(SystemError) in
                for name in try Self.files(of: id, in: folder + "/" + place, copy.io) {
                    try copy.io.remove(folder + "/" + place + "/" + name)
                }
            }
        }
        return []
    }

    /// The files of an upload, also those in a directory of its own; without marks, because only verified bytes are
    /// copied.
    private static func files(of id: UploadID, in shard: String, _ io: BlockingIO) throws(SystemError) -> [String] {
        var files: [String] = []
        for suffix in ["", ".parts", ".layout", ".joining"] where try io.exists(shard + "/" + id.text + suffix) {
            files.append(id.text + suffix)
        }
        let own = id.text + ".own"
        if try io.exists(shard + "/" + own) { files += try io.entries(of: shard + "/" + own).map { own + "/" + $0 } }
        return files
    }

    // MARK: State

    /// Removes from the copied state what the gateway removed while the bytes were copied.
    ///
    /// - Returns: Whether each record has its bytes.
    private func adjust(_ state: SQLiteState, in folder: String, to live: SQLiteState) async throws(StartFailure)
        -> Bool
    {
        let directory = try starting { () throws(DataDirectoryError) in try DataDirectory(reading: folder) }
        let pool = BlockingPool(threads: 1, label: "sluice.block")
        let disk = DiskStorage(directory: directory, durability: settings.storageDurability, pool: pool)
        return try await reading { () async throws(UploadError) in
            try await state.markPartsDurable()
            var isComplete = true
            var query = UploadQuery(states: [.open, .completed], limit: 500)
            while true {
                let page = try await state.uploads(query)
                guard let last = page.last else { return isComplete }
                for upload in page where try await !adjust(upload, state, disk, live) { isComplete = false }
                query.before = last.id
            }
        }
    }

    private func adjust(
        _ upload: Upload,
        _ state: SQLiteState,
        _ disk: DiskStorage,
        _ live: SQLiteState
    ) async throws(UploadError) -> Bool {
        let id = upload.id
        if upload.state == .open, upload.concatenation?.parts != nil { return true }
        if upload.state == .open, upload.takesParts {
            do throws(UploadError) {
                try await adjustParts(of: id, state, disk)
                return true
            } catch  where error.code == .notFound {}
        } else if let stored = try await disk.storedLength(of: id) {
            guard upload.state == .completed, stored != upload.length else { return true }
        }
        let now = try await live.uploads([id])[id]
        guard let now, now.isAlive else {
            let ended = now?.state ?? .terminated
            let date = now?.endedAt ?? Date()
            let event = EventRecord(
                id: "msg_" + UploadID.generate(at: date).text,
                kind: ended == .expired ? .expired : .terminated,
                upload: now ?? upload,
                request: nil,
                occurredAt: date,
                delivery: nil
            )
            _ = try await state.end(id, from: upload.state, as: ended, at: date, received: 0, recording: event)
            return true
        }
        report("\(id): its bytes are not those of its record; see `sluice verify`")
        return false
    }

    private func adjustParts(of id: UploadID, _ state: SQLiteState, _ disk: DiskStorage) async throws(UploadError) {
        if try await disk.storedLength(of: id) != nil, try await disk.isJoined(id) { return }
        var last = 0
        while true {
            let page = try await state.objectParts(of: id, after: last, limit: 100)
            let missing = try await disk.missingParts(among: page, of: id)
            let there = page.filter { !missing.contains($0.number) }
            let replaced = try await disk.replacedParts(among: there, of: id)
            let lost = (missing + replaced).sorted()
            if !lost.isEmpty {
                try await state.forgetParts(lost, of: id)
                report(
                    "\(id): parts \(lost) were replaced meanwhile; its client has to send them again after a restore"
                )
            }
            guard let end = page.last else { return }
            last = end.number
        }
    }

    // MARK: Errors

    private func inFile<Success>(
        _ body: (BlockingIO) throws(SystemError) -> Success
    ) throws(StartFailure) -> Success {
        try copying { () throws(SystemError) in try body(.onCallingThread) }
    }
}

/// Converts a failure of a system call.
func copying<Success>(_ body: () throws(SystemError) -> Success) throws(StartFailure) -> Success {
    do throws(SystemError) {
        return try body()
    } catch {
        if error.call == "flock" { throw StartFailure("another backup into this directory is running") }
        throw StartFailure("the copy failed: \(error)")
    }
}

private func reading<Success>(
    _ body: () async throws(UploadError) -> Success
) async throws(StartFailure) -> Success {
    do throws(UploadError) {
        return try await body()
    } catch {
        throw StartFailure(error.message + (error.cause.map { " (\($0))" } ?? ""))
    }
}
