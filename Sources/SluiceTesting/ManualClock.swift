package import Foundation
internal import Synchronization
internal import UploadModel

/// A clock that changes only when a test sets it.
package final class ManualClock: WallClock {
    private let time: Mutex<Date>

    package init(_ start: Date = Date(timeIntervalSince1970: 1_750_000_000)) {
        time = Mutex(start)
    }

    package var now: Date { time.withLock { $0 } }

    package func advance(by seconds: TimeInterval) {
        time.withLock { $0.addTimeInterval(seconds) }
    }

    package func set(to date: Date) {
        time.withLock { $0 = date }
    }
}
