internal import Foundation

/// How fast an upload gets its bytes, from looks at its offset now and then.
///
/// The rate is an average in which what was seen three seconds ago weighs a third (1/e) of what is seen now, however often
/// somebody looks. So a bar moves evenly, and follows a change within seconds.
package struct ProgressMeter: Sendable {
    package private(set) var offset: Int64
    private var seenAt: ContinuousClock.Instant
    private var movedAt: ContinuousClock.Instant
    /// Of rates, each by its weight.
    private var sum = 0.0
    private var weight = 0.0

    /// - Parameters:
    ///   - offset: Bytes that the upload has.
    ///   - time: When it had them.
    package init(offset: Int64, at time: ContinuousClock.Instant) {
        self.offset = offset
        seenAt = time
        movedAt = time
    }

    /// Takes a look into account.
    ///
    /// - Parameters:
    ///   - offset: Bytes that the upload has; fewer than before where some were taken back, which says nothing of its speed.
    ///   - time: Now; a look that is not later than the one before is none.
    package mutating func see(_ offset: Int64, at time: ContinuousClock.Instant) {
        let seconds = (time - seenAt) / .seconds(1)
        guard seconds > 0 else { return }
        let bytes = offset - self.offset
        self.offset = offset
        seenAt = time
        guard bytes >= 0 else { return }
        if bytes > 0 {
            movedAt = time
        } else if time - movedAt >= Self.patience {
            // Begins anew when bytes come again.
            (sum, weight) = (0, 0)
            return
        }
        let kept = exp(-seconds / Self.memory)
        sum = sum * kept + Double(bytes) / seconds * (1 - kept)
        weight = weight * kept + (1 - kept)
    }

    /// Bytes a second; 0 after some seconds without a byte, and before the second look.
    package var bytesPerSecond: Int64 { weight > 0 ? Int64(min(sum / weight, 1e18)) : 0 }

    /// Seconds until the upload has `length` bytes, rounded up; `nil` while it stands still.
    package func secondsLeft(until length: Int64) -> Int64? {
        let rate = bytesPerSecond
        guard rate > 0 else { return nil }
        let left = max(0, length - offset)
        return left / rate + (left % rate == 0 ? 0 : 1)
    }

    /// Seconds.
    private static let memory = 3.0
    /// An upload without a byte for so long stands still.
    private static let patience = Duration.seconds(5)
}
