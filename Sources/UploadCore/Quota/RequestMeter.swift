internal import Bytes
internal import Synchronization
internal import SystemIO
internal import Tracing
package import UploadModel

/// What one request uses up of the limits of its clients, as far as they are known: its address at once, its key and its
/// subject when its credential is checked or its upload is found.
package final class RequestMeter: Sendable {
    @TaskLocal package static var current: RequestMeter?

    private struct Uses {
        var key: String?
        var subject: SubjectName?
        var pacers: [Pacer] = []
        /// The request counts among those that bring content, although it brings none.
        var isHeld = false
        var heldKey: String?
        var heldSubject: SubjectName?
        /// A credential was checked, or an upload found.
        var isKnown = false
        /// Bytes of content, also those before a client was known.
        var taken: Int64 = 0
        /// When more content may be taken, and the answer sent.
        var resumesAt: Nanoseconds = 0
        /// Bytes that may be taken before the next pause.
        var turn: Int64 = 0
        /// Others wait long for the same rate.
        var isCrowded = false
        var isInterrupted = false
        /// Tasks that outlive the request count for nobody.
        var isOver = false

        /// Counts bytes for a client, and what it owes besides.
        mutating func charge(_ pacer: Pacer, _ count: Int64, at now: Nanoseconds) {
            let wait = pacer.charge(count, now)
            resumesAt = max(resumesAt, now + wait)
            isCrowded = isCrowded || wait > RequestMeter.crowd
        }

        mutating func add(_ pacer: Pacer) {
            pacers.append(pacer)
            turn = 0
            charge(pacer, taken, at: MonotonicClock.now)
        }
    }

    private let keys: ClientLimits<String>
    private let subjects: ClientLimits<SubjectName>
    private let bringsContent: Bool
    /// Bytes to take at once while it is not known which rates apply; `nil` if none can.
    private let fullSlice: Int64?
    /// Whether the process is about to stop.
    private let isStopping: @Sendable () -> Bool
    private let uses = Mutex(Uses())

    /// - Parameters:
    ///   - keys: The limits of API keys, by id.
    ///   - subjects: The limits of subjects.
    ///   - pacer: Slows down the content of the client's address.
    ///   - bringsContent: Whether content follows the head.
    ///   - isStopping: Asked now and then; if so, nothing waits any more.
    package init(
        keys: ClientLimits<String>,
        subjects: ClientLimits<SubjectName>,
        pacer: Pacer?,
        bringsContent: Bool,
        isStopping: @escaping @Sendable () -> Bool = { false }
    ) {
        self.keys = keys
        self.subjects = subjects
        self.bringsContent = bringsContent
        self.isStopping = isStopping
        fullSlice = bringsContent ? Self.least(pacer?.slice, Self.least(keys.slice, subjects.slice)) : nil
        if let pacer { uses.withLock { $0.add(pacer) } }
    }

    private static func least(_ one: Int64?, _ other: Int64?) -> Int64? {
        guard let one, let other else { return one ?? other }
        return min(one, other)
    }

    /// Counts the current request for a key and a subject; each only once.
    ///
    /// - Throws: `.tooManyRequests`.
    package static func identify(key: String?, subject: String?) throws(UploadError) {
        note(key: key, subject: subject)
        try current?.identify(key: key, subject: subject)
    }

    /// Notes for the log who sent the current request, without counting it.
    package static func note(key: String?, subject: String?) {
        RequestNote.current?.identify(key: key, subject: subject)
    }

    private func identify(key: String?, subject: String?) throws(UploadError) {
        if isPaced { uses.withLock { $0.isKnown = true } }
        if let key, keys.isLimited, uses.withLock({ $0.key == nil && !$0.isOver }) {
            try keys.begin(key, bringsContent: bringsContent)
            let pacer = bringsContent ? keys.pacer(of: key) : nil
            uses.withLock { uses in
                uses.key = key
                if let pacer { uses.add(pacer) }
            }
        }
        if let subject, subjects.isLimited, uses.withLock({ $0.subject == nil && !$0.isOver }) {
            let name = SubjectName(subject)
            try subjects.begin(name, bringsContent: bringsContent)
            let pacer = bringsContent ? subjects.pacer(of: name) : nil
            uses.withLock { uses in
                uses.subject = name
                if let pacer { uses.add(pacer) }
            }
        }
    }

    /// Counts the current request among those that bring content, because it waits for somebody else, such as the app.
    ///
    /// - Throws: `.tooManyRequests`.
    package static func hold() throws(UploadError) { try current?.hold() }

    private func hold() throws(UploadError) {
        if bringsContent { return }
        let (key, subject) = uses.withLock { uses -> (String?, SubjectName?) in
            if uses.isHeld || uses.isOver { return (nil, nil) }
            uses.isHeld = true
            return (uses.key, uses.subject)
        }
        if let key {
            try keys.beginUpload(key)
            let isOver = uses.withLock { uses in
                if !uses.isOver { uses.heldKey = key }
                return uses.isOver
            }
            if isOver { keys.end(key) }
        }
        if let subject {
            try subjects.beginUpload(subject)
            let isOver = uses.withLock { uses in
                if !uses.isOver { uses.heldSubject = subject }
                return uses.isOver
            }
            if isOver { subjects.end(subject) }
        }
    }

    /// The request is over.
    package func end() {
        let (key, subject) = uses.withLock { uses in
            uses.isOver = true
            return bringsContent ? (uses.key, uses.subject) : (uses.heldKey, uses.heldSubject)
        }
        if let key { keys.end(key) }
        if let subject { subjects.end(subject) }
    }

    // MARK: Content

    /// Whether a rate can apply to the content.
    package var isPaced: Bool { fullSlice != nil }

    /// Whether content has to wait for a rate if all of it is taken now.
    package func delays(_ count: Int64) -> Bool {
        if fullSlice == nil { return false }
        let end = uses.withLock { $0.resumesAt }
        return count > slice || end > 0 && end > MonotonicClock.now
    }

    /// The most bytes to take at once, so that the requests of one client take turns; also before the client is known,
    /// because these bytes count for it later.
    package var slice: Int64 {
        guard let fullSlice else { return .max }
        return uses.withLock { uses in
            var slice = uses.isKnown ? Int64.max : fullSlice
            for pacer in uses.pacers { slice = min(slice, pacer.slice) }
            return uses.isCrowded ? max(slice / 16, min(slice, 1024)) : slice
        }
    }

    /// Counts content that was taken.
    package func took(_ count: Int64) {
        guard count > 0 else { return }
        uses.withLock { uses in
            uses.taken += count
            uses.turn = max(0, uses.turn - count)
            if uses.pacers.isEmpty { return }
            let now = MonotonicClock.now
            uses.isCrowded = false
            for pacer in uses.pacers { uses.charge(pacer, count, at: now) }
        }
    }

    /// Waits until more content may be taken; ends early after `interrupt`, and if the process stops.
    ///
    /// Nothing is read meanwhile, so that TCP slows down the client. No thread waits.
    ///
    /// - Returns: How many bytes may be taken before the next call waits. A client that sends small pieces thus has as much of a
    ///   shared rate as others.
    package func turn() async -> Int64 {
        let left = uses.withLock { $0.turn }
        if left > 0 { return min(left, slice) }
        await pause(untilInterrupted: true)
        let turn = slice
        uses.withLock { $0.turn = turn }
        return turn
    }

    /// Waits before the answer until what was taken is paid, so that a small content cannot pass at any rate.
    ///
    /// Thus what the clients of one rate owe is at most one slice of each running request.
    package func settle() async { await pause(untilInterrupted: false) }

    private func pause(untilInterrupted: Bool) async {
        while true {
            let (end, isInterrupted) = uses.withLock { ($0.resumesAt, $0.isInterrupted) }
            if end == 0 || isInterrupted && untilInterrupted { return }
            let now = MonotonicClock.now
            if now >= end || isStopping() { return }
            try? await Task.sleep(for: .nanoseconds(Int64(min(end - now, Self.longestSleep))))
            if Task.isCancelled { return }
        }
    }

    /// Ends pauses before content, because it is no longer wanted.
    package func interrupt() { uses.withLock { $0.isInterrupted = true } }

    /// Nanoseconds; an interruption is seen after at most this.
    private static let longestSleep: Nanoseconds = 250_000_000
    /// Nanoseconds; a request that has to wait longer reads less at once.
    ///
    /// So requests that share a rate wait less for each other.
    private static let crowd: Nanoseconds = 1_000_000_000
}
