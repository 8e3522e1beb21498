internal import Bytes
internal import HTTPWire
internal import Synchronization
internal import UploadCore
internal import UploadModel

/// Delivers upload events to any number of listeners.
///
/// One task reads new events and polls running uploads for all listeners, and only while there are any. Each event is
/// serialised once. A listener has no queue but a position in the sequence of events. It reads from there what is still
/// in memory; if it is too far behind, it reads from the state store, as after a reconnect. So a slow listener misses
/// no event and costs no memory. It gets only the newest progress.
final class EventFeed: Sendable {
    /// The next thing for a listener.
    enum News: Sendable {
        case text([UInt8], endsUpload: Bool)
        /// It has to read the events up to `through` itself, and then call `advance`.
        case behind(after: Int64, through: Int64)
        /// Nothing for a while: send something, so that no intermediary closes the connection.
        case quiet
        case over
    }

    struct ListenerID: Hashable, Sendable {
        fileprivate let number: UInt64
    }

    fileprivate struct Entry {
        let sequence: Int64
        let kind: EventRecord.Kind
        let upload: UploadID
        let subject: String?
        let text: [UInt8]
    }

    fileprivate struct Listener {
        let filter: EventFilter
        /// The last event that was delivered or filtered out.
        var cursor: Int64
        var look: UInt64
        var lastSentAt: ContinuousClock.Instant
        var isOver = false
        var isQuiet = false
        var waiter: CheckedContinuation<Void, Never>?
    }

    fileprivate struct Contents {
        var listeners: [ListenerID: Listener] = [:]
        var lastNumber: UInt64 = 0
        var poller: Task<Void, Never>?
        /// Incremented for each poller; results of older ones are discarded.
        var generation: UInt64 = 0
        /// The newest events in order: all known ones after `base`.
        var entries: [Entry] = []
        var bytes = 0
        var base: Int64 = 0
        var head: Int64 = 0
        /// The newest progress of each upload, and the poll that found it.
        var progress: [UploadID: (line: ProgressBoard.Line, look: UInt64)] = [:]
        var look: UInt64 = 0
    }

    private let service: EventService
    private let contents = Mutex(Contents())

    init(service: EventService) {
        self.service = service
    }

    // MARK: Listeners

    /// Adds a listener; it must be closed.
    ///
    /// - Parameters:
    ///   - filter: Which events it receives.
    ///   - cursor: Only later events.
    /// - Returns: The id of the listener.
    /// - Throws: `.storageFailure`, `.unavailable`.
    func open(_ filter: EventFilter, after cursor: Int64) async throws(UploadError) -> ListenerID {
        let newest = try await service.lastEvent()
        return contents.withLock { contents in
            if contents.poller == nil {
                contents.generation += 1
                contents.entries = []
                contents.bytes = 0
                contents.base = newest
                contents.head = newest
                contents.progress = [:]
                let generation = contents.generation
                contents.poller = Task.detached { [self] in await poll(generation) }
            }
            contents.lastNumber += 1
            let id = ListenerID(number: contents.lastNumber)
            contents.listeners[id] = Listener(filter: filter, cursor: cursor, look: 0, lastSentAt: .now)
            return id
        }
    }

    /// Callable from any thread; the listener gets `.over` from now on.
    func end(_ id: ListenerID) {
        contents.withLock { contents in
            contents.listeners[id]?.isOver = true
            return contents.listeners[id]?.takeWaiter()
        }?.resume()
    }

    func close(_ id: ListenerID) {
        let idle = contents.withLock { contents -> Task<Void, Never>? in
            contents.listeners[id] = nil
            guard contents.listeners.isEmpty else { return nil }
            contents.entries = []
            contents.progress = [:]
            defer { contents.poller = nil }
            return contents.poller
        }
        idle?.cancel()
    }

    /// Waits for the next thing for the listener.
    func next(_ id: ListenerID) async -> News {
        while true {
            if let news = contents.withLock({ $0.take(for: id) }) { return news }
            await withCheckedContinuation { continuation in
                let mustWait = contents.withLock { contents in
                    guard let listener = contents.listeners[id], !listener.isOver, !listener.isQuiet,
                        listener.cursor >= contents.head, listener.look == contents.look
                    else { return false }
                    contents.listeners[id]?.waiter = continuation
                    return true
                }
                if !mustWait { continuation.resume() }
            }
        }
    }

    /// The listener has received all events up to `sequence` by other means.
    func advance(_ id: ListenerID, to sequence: Int64) {
        contents.withLock { $0.listeners[id]?.cursor = sequence }
    }

    // MARK: The poller

    private func poll(_ generation: UInt64) async {
        var board = ProgressBoard()
        var nextLook = ContinuousClock.now
        while !Task.isCancelled {
            let rings = service.bell.count
            var lines: [ProgressBoard.Line] = []
            let isLook = ContinuousClock.now >= nextLook
            if isLook {
                nextLook = .now + Self.lookInterval
                // The service has reported an error; the next look tries again.
                try? await service.keepEvents()
                let wanted = contents.withLock { Interest($0.listeners.values.lazy.map(\.filter)) }
                lines = await board.look(service) { wanted.contains($0) }
            }
            // After the poll: the creation of every upload seen is among these events, and its end if that came before.
            let hasNews = await readEvents(generation, &board, lines)
            if isLook { endLook(generation, board.uploads) }
            // Groups a burst into a few pieces.
            if hasNews { try? await Task.sleep(for: Self.pause) }
            let left = nextLook - .now
            if left > .zero { await service.bell.wait(after: rings, timeout: left) }
        }
    }

    /// Publishes new events, and `lines` together with the last of them.
    private func readEvents(
        _ generation: UInt64,
        _ board: inout ProgressBoard,
        _ lines: [ProgressBoard.Line]
    ) async -> Bool {
        var hasNews = false
        while !Task.isCancelled {
            let head = contents.withLock { $0.head }
            let page: [EventRecord]
            do throws(UploadError) {
                page = try await service.events(EventQuery(after: head, limit: Self.pageSize))
            } catch {
                // The service has reported the error. Without these events, progress could be delivered out of order.
                return hasNews
            }
            let entries = page.map { event in
                Entry(
                    sequence: event.sequence,
                    kind: event.kind,
                    upload: event.upload.id,
                    subject: event.upload.subject,
                    text: event.kind == .progress ? [] : EventText.event(event)
                )
            }
            for entry in entries where entry.kind.endsUpload { board.end(entry.upload) }
            let isLast = page.count < Self.pageSize
            publish(entries, isLast ? lines : [], generation)
            hasNews = hasNews || !entries.isEmpty
            if isLast { return hasNews }
        }
        return hasNews
    }

    private func publish(_ entries: [Entry], _ lines: [ProgressBoard.Line], _ generation: UInt64) {
        if entries.isEmpty, lines.isEmpty { return }
        let waiters = contents.withLock { contents in
            contents.generation == generation ? contents.publish(entries, lines) : []
        }
        for waiter in waiters { waiter.resume() }
    }

    /// Drops progress of idle uploads, and wakes listeners that received nothing for long.
    private func endLook(_ generation: UInt64, _ uploads: Set<UploadID>) {
        let now = ContinuousClock.now
        let waiters = contents.withLock { contents in
            guard contents.generation == generation else { return [] as [CheckedContinuation<Void, Never>] }
            contents.progress = contents.progress.filter { uploads.contains($0.key) }
            var waiters: [CheckedContinuation<Void, Never>] = []
            for (id, listener) in contents.listeners where now - listener.lastSentAt >= Self.longestSilence {
                contents.listeners[id]?.isQuiet = true
                if let waiter = contents.listeners[id]?.takeWaiter() { waiters.append(waiter) }
            }
            return waiters
        }
        for waiter in waiters { waiter.resume() }
    }

    private static let lookInterval = Duration.seconds(1)
    private static let pause = Duration.milliseconds(50)
    private static let longestSilence = Duration.seconds(15)
    private static let pageSize = 200
    /// Maximum events kept in memory.
    fileprivate static let mostEntries = 2048
    fileprivate static let mostBytes = 4 << 20
    /// Maximum size of a piece for a listener, in bytes; one event may exceed it.
    fileprivate static let pieceBytes = 32 << 10
}

/// Uploads whose progress any listener wants.
private struct Interest {
    private var isInAll = false
    private var uploads: Set<UploadID> = []
    private var subjects: Set<SubjectName> = []

    init(_ filters: some Sequence<EventFilter>) {
        for filter in filters where filter.hasProgress {
            if let upload = filter.upload {
                uploads.insert(upload)
            } else if let subject = filter.subject {
                subjects.insert(SubjectName(subject))
            } else {
                isInAll = true
            }
        }
    }

    func contains(_ upload: Upload) -> Bool {
        isInAll || uploads.contains(upload.id) || upload.subject.map { subjects.contains(SubjectName($0)) } ?? false
    }
}

extension EventFeed.Listener {
    fileprivate mutating func takeWaiter() -> CheckedContinuation<Void, Never>? {
        defer { waiter = nil }
        return waiter
    }
}

extension EventFeed.Entry {
    fileprivate func isMeant(for filter: EventFilter) -> Bool {
        filter.kinds.contains(kind) && filter.matches(upload, subject)
    }
}

extension ProgressBoard.Line {
    fileprivate func isMeant(for filter: EventFilter) -> Bool {
        filter.hasProgress && filter.matches(upload, subject)
    }
}

extension EventFeed.Contents {
    /// The next thing for a listener, or `nil`.
    fileprivate mutating func take(for id: EventFeed.ListenerID) -> EventFeed.News? {
        guard var listener = listeners[id], !listener.isOver else { return .over }
        if listener.cursor < base { return .behind(after: listener.cursor, through: base) }
        defer { listeners[id] = listener }
        var text: [UInt8] = []
        var endsUpload = false
        for entry in entries[index(after: listener.cursor)...] {
            listener.cursor = entry.sequence
            guard entry.isMeant(for: listener.filter) else { continue }
            text += entry.text
            endsUpload = endsUpload || entry.kind.endsUpload
            if text.count >= EventFeed.pieceBytes || (endsUpload && listener.filter.upload != nil) { break }
        }
        listener.cursor = max(listener.cursor, entries.isEmpty ? head : listener.cursor)
        if listener.cursor >= head, listener.look != look {
            if let upload = listener.filter.upload {
                if let (line, seen) = progress[upload], seen > listener.look, line.isMeant(for: listener.filter) {
                    text += line.text
                }
            } else {
                for (line, seen) in progress.values where seen > listener.look && line.isMeant(for: listener.filter) {
                    text += line.text
                }
            }
            listener.look = look
        }
        if text.isEmpty, !listener.isQuiet { return nil }
        listener.isQuiet = false
        listener.lastSentAt = .now
        return text.isEmpty ? .quiet : .text(text, endsUpload: endsUpload)
    }

    /// - Returns: The waiting listeners that want some of it.
    fileprivate mutating func publish(
        _ new: [EventFeed.Entry],
        _ lines: [ProgressBoard.Line]
    ) -> [CheckedContinuation<Void, Never>] {
        entries += new
        bytes += new.reduce(0) { $0 + $1.text.count }
        head = new.last?.sequence ?? head
        forgetOldest()
        look += 1
        for line in lines { progress[line.upload] = (line, look) }
        for entry in new where entry.kind.endsUpload { progress[entry.upload] = nil }
        let lines = lines.filter { progress[$0.upload] != nil }

        var waiters: [CheckedContinuation<Void, Never>] = []
        for (id, listener) in listeners where listener.waiter != nil {
            let isNews =
                new.contains { $0.isMeant(for: listener.filter) } || lines.contains { $0.isMeant(for: listener.filter) }
            if isNews {
                if let waiter = listeners[id]?.takeWaiter() { waiters.append(waiter) }
            } else {
                // It was up to date, and wants nothing of this.
                listeners[id]?.cursor = max(listener.cursor, head)
                listeners[id]?.look = look
            }
        }
        return waiters
    }

    private mutating func forgetOldest() {
        var count = 0
        while entries.count - count > EventFeed.mostEntries || (bytes > EventFeed.mostBytes && count < entries.count) {
            bytes -= entries[count].text.count
            base = entries[count].sequence
            count += 1
        }
        entries.removeFirst(count)
    }

    private func index(after sequence: Int64) -> Int {
        var range = entries.indices
        while let middle = range.isEmpty ? nil : range.lowerBound + range.count / 2 {
            if entries[middle].sequence <= sequence {
                range = middle + 1..<range.upperBound
            } else {
                range = range.lowerBound..<middle
            }
        }
        return range.lowerBound
    }
}
