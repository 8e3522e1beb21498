internal import Synchronization
internal import UploadCore

/// Lets one after the other write or remove the object under a key that an app chose: between the look at what is there and its
/// removal no other upload of this process can put its object there.
///
/// Other nodes are kept from it by the entity tag that the store compares, if it does.
final class KeyTurns: Sendable {
    private struct Place: Hashable {
        var bucket: String
        var key: String
    }

    /// Who waits, by place; an entry without any while nobody does.
    private let waiters = Mutex<[Place: [CheckedContinuation<Void, Never>]]>([:])

    /// Runs `body` when nobody else is at the key of the record; at once for a key that no other upload can have.
    func take<Success, Failure: Error>(
        _ record: BlobRecord,
        _ body: () async throws(Failure) -> Success
    ) async throws(Failure) -> Success {
        if record.hasKeyOfItsOwn { return try await body() }
        let place = Place(bucket: record.bucket, key: record.key)
        await enter(place)
        defer { leave(place) }
        return try await body()
    }

    /// How many wait.
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
