internal import Synchronization
internal import UploadModel

/// Serialises writes and removals of the object at a key that an app chose.
///
/// Otherwise another upload of this process could store its object there after a removal has checked the old one and
/// before it removes it.
///
/// Other nodes are kept out by the entity tag, if the store compares it.
final class KeyLocks: Sendable {
    private struct Place: Hashable {
        var bucket: String
        var key: String
    }

    /// Waiting tasks by place; an empty list means that the place is taken and nothing waits.
    private let waiters = Mutex<[Place: [CheckedContinuation<Void, Never>]]>([:])

    /// Runs `body` while nothing else uses the key of the record; at once if no other upload can have the key.
    func withLock<Success, Failure: Error>(
        _ record: BlobRecord,
        _ body: () async throws(Failure) -> Success
    ) async throws(Failure) -> Success {
        if record.hasKeyOfItsOwn { return try await body() }
        let place = Place(bucket: record.bucket, key: record.key)
        await enter(place)
        defer { leave(place) }
        return try await body()
    }

    /// Number of waiting tasks.
    var waiterCount: Int { waiters.withLock { $0.values.reduce(0) { $0 + $1.count } } }

    private func enter(_ place: Place) async {
        await withCheckedContinuation { continuation in
            let isFree = waiters.withLock { waiters in
                guard waiters[place] == nil else {
                    waiters[place]?.append(continuation)
                    return false
                }
                waiters[place] = []
                return true
            }
            if isFree { continuation.resume() }
        }
    }

    private func leave(_ place: Place) {
        let next = waiters.withLock { waiters -> CheckedContinuation<Void, Never>? in
            guard waiters[place]?.isEmpty == false else {
                waiters[place] = nil
                return nil
            }
            return waiters[place]?.removeFirst()
        }
        next?.resume()
    }
}
