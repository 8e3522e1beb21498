import Foundation
import Synchronization
import UploadCore

/// A clock that stands until it is set.
final class AccessClock: WallClock {
    private let moment = Mutex(Date(timeIntervalSince1970: 1_700_000_000))

    var now: Date { moment.withLock { $0 } }

    func advance(by seconds: TimeInterval) {
        moment.withLock { $0 = $0.addingTimeInterval(seconds) }
    }
}

/// A state store that has keys and nothing else, and counts how often it is asked for one.
final class AccessState: StateStore {
    private struct Content {
        var keys: [[UInt8]: APIKey] = [:]
        var reads = 0
        var failure: UploadError?
    }

    private let content = Mutex(Content())

    var reads: Int { content.withLock { $0.reads } }

    func fail(with error: UploadError?) { content.withLock { $0.failure = error } }

    func insert(_ key: APIKey) async throws(UploadError) { content.withLock { $0.keys[key.digest] = key } }

    func key(digest: [UInt8]) async throws(UploadError) -> APIKey? {
        let (key, failure) = content.withLock { content in
            content.reads += 1
            return (content.keys[digest], content.failure)
        }
        if let failure { throw failure }
        return key
    }

    func keys() async throws(UploadError) -> [APIKey] { content.withLock { Array($0.keys.values) } }

    func revokeKey(_ id: String, at now: Date) async throws(UploadError) -> Bool {
        content.withLock { content in
            guard let digest = content.keys.first(where: { $0.value.id == id })?.key else { return false }
            content.keys[digest]?.revokedAt = now
            return true
        }
    }

    func insert(_ upload: Upload, consuming grant: Grant?) async throws(UploadError) { throw Self.absent }
    func upload(_ id: UploadID) async throws(UploadError) -> Upload? { throw Self.absent }
    func uploads(_ query: UploadQuery) async throws(UploadError) -> [Upload] { throw Self.absent }
    func uploads(_ ids: [UploadID]) async throws(UploadError) -> [UploadID: Upload] { throw Self.absent }
    func openFinals(of part: UploadID) async throws(UploadError) -> [UploadID] { throw Self.absent }
    func complete(_ upload: Upload, as media: Media?) async throws(UploadError) -> Bool { throw Self.absent }
    func end(_ id: UploadID, as state: Upload.State, at now: Date) async throws(UploadError) -> Bool {
        throw Self.absent
    }
    func setLength(of id: UploadID, to length: Int64, updatedAt: Date) async throws(UploadError) -> Bool {
        throw Self.absent
    }
    func setExpiry(of id: UploadID, to date: Date?, updatedAt: Date) async throws(UploadError) { throw Self.absent }
    func expiredUploads(at now: Date, limit: Int) async throws(UploadError) -> [UploadID] { throw Self.absent }
    func forgetEnded(before date: Date) async throws(UploadError) { throw Self.absent }
    func needed(_ ids: [UploadID]) async throws(UploadError) -> Set<UploadID> { throw Self.absent }
    func media(_ id: UploadID) async throws(UploadError) -> Media? { throw Self.absent }
    func check() async throws(UploadError) {}

    private static let absent = UploadError(.unavailable, "not part of this store")
}
