import Foundation
import Synchronization
import UploadModel

/// A clock that changes only when it is set.
final class AccessClock: WallClock {
    private let moment = Mutex(Date(timeIntervalSince1970: 1_700_000_000))

    var now: Date { moment.withLock { $0 } }

    func advance(by seconds: TimeInterval) {
        moment.withLock { $0 = $0.addingTimeInterval(seconds) }
    }
}
