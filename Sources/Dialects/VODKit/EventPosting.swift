internal import Synchronization
internal import UploadCore
internal import UploadModel

/// Posts events to apps' servers, several at once.
///
/// Each keeps its place until it is answered; the places of others are filled again meanwhile, so a receiver that does not
/// answer delays nobody else's events.
struct EventPosting<Claimed: Sendable>: Sendable {
    /// Other nodes may have left events whose claim has ended.
    static var longestPause: Duration { .seconds(5) }

    private let places: Int
    private let bell: EventBell
    private let host: @Sendable (Claimed) -> String
    private let report: @Sendable (UploadError) -> Void

    /// - Parameters:
    ///   - places: The number of posts at once.
    ///   - bell: Rings for new events.
    ///   - host: Where an event goes.
    ///   - report: Of what has failed.
    init(
        places: Int,
        bell: EventBell,
        host: @escaping @Sendable (Claimed) -> String = { _ in "" },
        report: @escaping @Sendable (UploadError) -> Void
    ) {
        self.places = places
        self.bell = bell
        self.host = host
        self.report = report
    }

    /// Posts until the task is cancelled.
    ///
    /// - Parameters:
    ///   - claim: Claims so many events at most, of those after a place, beside those that are being posted to each host.
    ///   - send: Posts one, and records the outcome.
    func run(
        claim: (_ limit: Int, _ after: DialectPlace?, _ running: [String: Int]) async throws(UploadError) ->
            ClaimedRecords<Claimed>,
        send: @escaping @Sendable (Claimed) async throws(UploadError) -> Void
    ) async {
        let running = Running()
        await withDiscardingTaskGroup { group in
            // Each look goes on where the last one has ended, so that those at the front do not come first each time.
            var last: DialectPlace?
            while !Task.isCancelled {
                let count = bell.count
                let now = running.byHost
                let free = places - now.values.reduce(0, +)
                // The end of a post rings.
                var isIdle = free == 0
                let start = ContinuousClock.now
                if free > 0 {
                    do throws(UploadError) {
                        let found = try await claim(free, last, now)
                        isIdle = found.claimed.isEmpty && last == nil
                        last = found.last
                        if let failure = found.failure { report(failure) }
                        for one in found.claimed {
                            let host = host(one)
                            running.begin(host)
                            group.addTask {
                                do throws(UploadError) { try await send(one) } catch { report(error) }
                                running.end(host)
                                bell.ring()
                            }
                        }
                    } catch {
                        report(error)
                        (last, isIdle) = (nil, true)
                    }
                }
                try? await Task.sleep(for: Polling.pause(after: .now - start, atLeast: .zero))
                if isIdle { await bell.wait(after: count, timeout: Self.longestPause) }
            }
        }
    }
}

/// The number of posts to each host.
private final class Running: Sendable {
    private let counts = Mutex<[String: Int]>([:])

    var byHost: [String: Int] { counts.withLock { $0 } }

    func begin(_ host: String) { counts.withLock { $0[host, default: 0] += 1 } }

    func end(_ host: String) { counts.withLock { $0[host] = $0[host].flatMap { $0 > 1 ? $0 - 1 : nil } } }
}
