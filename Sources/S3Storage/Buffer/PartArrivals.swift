package import Bytes
internal import Synchronization
internal import UploadModel

/// The requests whose bytes wait in memory or in the spool for the rest of their part, and how fast they come.
///
/// A part that has nearly all its bytes, and gets one more now and then, holds its memory for hours. So where others wait for
/// memory, the request is ended whose bytes would take the longest at the rate of its last seconds; what it has sent is kept,
/// and its client resumes.
package final class PartArrivals: Sendable {
    /// Seconds over which a rate is measured at least.
    package static let window = Duration.seconds(5)
    /// A request is ended only if what it holds would have taken so long at its rate.
    package static let longest = Duration.seconds(60)
    /// The same where another user waits, and the user of the request holds more than a share.
    package static let longestOfMany = Duration.seconds(10)
    /// Between two ends: what one held is not free at once.
    package static let pause = Duration.seconds(1)

    /// The bytes of one request.
    package final class Arrival: Sendable {
        private struct State {
            var received: Int64 = 0
            var held: Int64 = 0
            /// How long the client was waited for; the time that the gateway and the store take is not its.
            var waited = Duration.zero
            /// Since when it is waited for.
            var waitStart: ContinuousClock.Instant?
            /// At most two moments of `waited`, a window or more apart, with what had come until then.
            var marks: [(time: Duration, received: Int64)] = [(.zero, 0)]

            mutating func mark(_ time: Duration) {
                guard let last = marks.last, time - last.time >= PartArrivals.window else { return }
                marks = [last, (time, received)]
            }
        }

        fileprivate let interrupter: SourceInterrupter
        fileprivate let user: SubjectName?
        private let state = Mutex(State())

        fileprivate init(_ interrupter: SourceInterrupter, _ user: SubjectName?) {
            self.interrupter = interrupter
            self.user = user
        }

        fileprivate var held: Int64 { state.withLock { $0.held } }

        /// The next bytes are waited for.
        package func wait(at now: ContinuousClock.Instant = .now) { state.withLock { $0.waitStart = now } }

        /// They have come.
        package func add(_ count: Int, at now: ContinuousClock.Instant = .now) {
            state.withLock { state in
                if let start = state.waitStart.take() { state.waited += now - start }
                state.received += Int64(count)
                state.held += Int64(count)
                state.mark(state.waited)
            }
        }

        /// The part has all its bytes, and waits for the store only.
        package func closePart() { state.withLock { $0.held = 0 } }

        /// How long the held bytes would have taken at the rate of the last seconds; `nil` if it is too early to tell, or if
        /// the client is not waited for.
        fileprivate func age(at now: ContinuousClock.Instant) -> Double? {
            state.withLock { state in
                guard state.held > 0, let start = state.waitStart else { return nil }
                let time = state.waited + (now - start)
                guard let mark = state.marks.last(where: { time - $0.time >= PartArrivals.window }) else { return nil }
                let rate = Double(state.received - mark.received) / ((time - mark.time) / .seconds(1))
                state.mark(time)
                return rate > 0 ? Double(state.held) / rate : .infinity
            }
        }
    }

    private struct State {
        var arrivals: [ObjectIdentifier: Arrival] = [:]
        var lastEnd: ContinuousClock.Instant?
    }

    private let share: Int64
    private let state = Mutex(State())

    /// - Parameter share: The bytes of parts without their end that one user may hold before others come first.
    package init(share: Int64 = .max) { self.share = share }

    /// A request whose bytes are going to be held; it must be ended.
    package func begin(_ source: any ByteSource) -> Arrival {
        let arrival = Arrival(source.interrupter, StorageUser.current)
        state.withLock { $0.arrivals[ObjectIdentifier(arrival)] = arrival }
        return arrival
    }

    package func end(_ arrival: Arrival) {
        state.withLock { _ = $0.arrivals.removeValue(forKey: ObjectIdentifier(arrival)) }
    }

    /// Ends the slowest request, because another one waits for memory.
    ///
    /// - Returns: Whether one was slow enough.
    @discardableResult
    package func endSlowest(at now: ContinuousClock.Instant = .now) -> Bool {
        let waiting = StorageUser.current
        let slowest = state.withLock { state -> Arrival? in
            if let last = state.lastEnd, now - last < Self.pause { return nil }
            var held: [SubjectName: Int64] = [:]
            for arrival in state.arrivals.values {
                if let user = arrival.user, user != waiting { held[user, default: 0] += arrival.held }
            }
            let ages = state.arrivals.values.compactMap { arrival -> (Arrival, Double)? in
                let hasMany = arrival.user.flatMap { held[$0] } ?? 0 > share
                let most = (hasMany ? Self.longestOfMany : Self.longest) / .seconds(1)
                return arrival.age(at: now).flatMap { $0 >= most ? (arrival, $0) : nil }
            }
            guard let (arrival, _) = ages.max(by: { $0.1 < $1.1 }) else { return nil }
            state.arrivals[ObjectIdentifier(arrival)] = nil
            state.lastEnd = now
            return arrival
        }
        slowest?.interrupter.interrupt(as: .timedOut)
        return slowest != nil
    }
}
