internal import Synchronization

/// The keys of transfers that are to be done in this process, and of those that are being done.
///
/// One user has at most half of the places, and those who have the fewest come first.
final class VimeoTransferQueue: Sendable {
    private struct Contents {
        /// In the order of their arrival.
        var waiting: [String] = []
        var running: Set<String> = []
        /// To be looked at again when they end.
        var again: Set<String> = []

        /// The number of transfers that are being done for the user of a key.
        func places(ofUserOf key: String) -> Int {
            running.count { VimeoTransferQueue.user(of: $0) == VimeoTransferQueue.user(of: key) }
        }
    }

    private let places: Int
    private let contents = Mutex(Contents())

    /// - Parameter places: The number of transfers at once.
    init(places: Int) { self.places = places }

    /// See `VimeoUser.prefix`.
    private static func user(of key: String) -> Substring { key.prefix { $0 != "/" } }

    func add(_ key: String) {
        contents.withLock { contents in
            if contents.running.contains(key) {
                contents.again.insert(key)
            } else if !contents.waiting.contains(key) {
                contents.waiting.append(key)
            }
        }
    }

    /// - Returns: The next transfer; `nil` if there is none, or no place for one.
    func take() -> String? {
        contents.withLock { contents in
            guard contents.running.count < places else { return nil }
            let counts = contents.waiting.map(contents.places(ofUserOf:))
            guard let next = counts.indices.min(by: { counts[$0] < counts[$1] }), counts[next] < max(1, places / 2)
            else { return nil }
            let key = contents.waiting.remove(at: next)
            contents.running.insert(key)
            return key
        }
    }

    func end(_ key: String) {
        contents.withLock { contents in
            contents.running.remove(key)
            if contents.again.remove(key) != nil { contents.waiting.append(key) }
        }
    }
}
