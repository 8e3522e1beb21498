internal import Foundation
internal import UploadModel

/// Measures how fast an upload receives bytes, by sampling its offset.
///
/// The rate is a weighted average: a sample from three seconds ago counts a third (1/e) as much as a current one,
/// however often the offset is sampled. A progress bar therefore moves evenly, and follows a change within seconds.
package struct ProgressMeter: Sendable {
    package private(set) var offset: Int64
    private var seenAt: ContinuousClock.Instant
    private var movedAt: ContinuousClock.Instant
    /// Weighted sum of rates.
    private var sum = 0.0
    private var weight = 0.0

    /// - Parameters:
    ///   - offset: The upload's offset.
    ///   - time: When the upload had this offset.
    package init(offset: Int64, at time: ContinuousClock.Instant) {
        self.offset = offset
        seenAt = time
        movedAt = time
    }

    /// Adds a sample.
    ///
    /// - Parameters:
    ///   - offset: The upload's offset; lower than before if bytes were removed, which does not affect the rate.
    ///   - time: The current time; a sample that is not later than the previous one is ignored.
    package mutating func see(_ offset: Int64, at time: ContinuousClock.Instant) {
        let seconds = (time - seenAt) / .seconds(1)
        guard seconds > 0 else { return }
        let bytes = offset - self.offset
        self.offset = offset
        seenAt = time
        guard bytes >= 0 else { return }
        if bytes > 0 {
            movedAt = time
        } else if time - movedAt >= Self.waitTimeout {
            // Starts again with the next bytes.
            (sum, weight) = (0, 0)
            return
        }
        let kept = exp(-seconds / Self.memory)
        sum = sum * kept + Double(bytes) / seconds * (1 - kept)
        weight = weight * kept + (1 - kept)
    }

    /// Bytes per second; 0 after some seconds without a byte, and before the second sample.
    package var bytesPerSecond: Int64 { weight > 0 ? Int64(min(sum / weight, 1e18)) : 0 }

    /// Seconds until the upload has `length` bytes, rounded up; `nil` while it is stalled.
    package func secondsLeft(until length: Int64) -> Int64? {
        let rate = bytesPerSecond
        guard rate > 0 else { return nil }
        let left = max(0, length - offset)
        return left / rate + (left % rate == 0 ? 0 : 1)
    }

    /// Time constant of the average, in seconds.
    private static let memory = 3.0
    /// An upload without a byte for this long is stalled.
    private static let waitTimeout = Duration.seconds(5)
}
