internal import Bytes
internal import Synchronization
internal import SystemIO
package import UploadModel

/// What one request uses up of the limits of its clients, as far as they are known: its address at once, its key and its
/// subject when its credential is checked or its upload is found.
package final class RequestMeter: Sendable {
    @TaskLocal package static var current: RequestMeter?

    private struct Uses {
        var key: String?
        var subject: SubjectName?
        var pacers: [Pacer] = []
        /// When more content may be taken.
        var resumesAt: Nanoseconds = 0
        var isInterrupted = false
        /// Tasks that outlive the request count for nobody.
        var isOver = false
    }

    private let keys: ClientLimits<String>
    private let subjects: ClientLimits<SubjectName>
    private let bringsContent: Bool
    private let uses = Mutex(Uses())

    /// - Parameters:
    ///   - keys: The limits of API keys, by id.
    ///   - subjects: The limits of subjects.
    ///   - pacer: Slows down the content of the client's address.
    ///   - bringsContent: Whether content follows the head.
    package init(
        keys: ClientLimits<String>,
        subjects: ClientLimits<SubjectName>,
        pacer: Pacer?,
        bringsContent: Bool
    ) {
        self.keys = keys
        self.subjects = subjects
        self.bringsContent = bringsContent
        if let pacer { uses.withLock { $0.pacers.append(pacer) } }
    }

    /// Counts the current request for a key and a subject; each only once.
    ///
    /// - Throws: `.tooManyRequests`.
    package static func identify(key: String?, subject: String?) throws(UploadError) {
        try current?.identify(key: key, subject: subject)
    }

    private func identify(key: String?, subject: String?) throws(UploadError) {
        if let key, keys.isLimited, uses.withLock({ $0.key == nil && !$0.isOver }) {
            try keys.begin(key, bringsContent: bringsContent)
            let pacer = keys.pacer(of: key)
            uses.withLock { uses in
                uses.key = key
                if let pacer { uses.pacers.append(pacer) }
            }
        }
        if let subject, subjects.isLimited, uses.withLock({ $0.subject == nil && !$0.isOver }) {
            let name = SubjectName(subject)
            try subjects.begin(name, bringsContent: bringsContent)
            let pacer = subjects.pacer(of: name)
            uses.withLock { uses in
                uses.subject = name
                if let pacer { uses.pacers.append(pacer) }
            }
        }
    }

    /// The request is over.
    package func end() {
        let (key, subject) = uses.withLock { uses in
            uses.isOver = true
            return (uses.key, uses.subject)
        }
        guard bringsContent else { return }
        if let key { keys.end(key) }
        if let subject { subjects.end(subject) }
    }

    // MARK: Content

    /// The most bytes to take at once; `nil` if nothing slows down this request.
    package var slice: Int64? { uses.withLock { $0.pacers.map(\.slice).min() } }

    /// Counts content that was taken.
    package func took(_ count: Int64) {
        uses.withLock { uses in
            let wait = uses.pacers.map { $0.charge(count) }.max() ?? 0
            uses.resumesAt = MonotonicClock.now + wait
        }
    }

    /// Waits until more content may be taken; ends early after `interrupt`.
    ///
    /// Nothing is read meanwhile, so that TCP slows down the client. No thread waits.
    package func pause() async {
        while true {
            let (end, isInterrupted) = uses.withLock { ($0.resumesAt, $0.isInterrupted) }
            let now = MonotonicClock.now
            if isInterrupted || now >= end { return }
            try? await Task.sleep(for: .nanoseconds(Int64(min(end - now, Self.longestSleep))))
            if Task.isCancelled { return }
        }
    }

    /// Ends pauses, because the content is no longer wanted.
    package func interrupt() { uses.withLock { $0.isInterrupted = true } }

    /// Nanoseconds; an interruption is seen after at most this.
    private static let longestSleep: Nanoseconds = 250_000_000
}
