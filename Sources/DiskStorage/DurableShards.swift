internal import Synchronization
internal import SystemIO

/// The shards whose directories are known to survive a power cut.
///
/// The existence of a directory is not enough: another call may have created it without a sync of its parent yet.
final class DurableShards: Sendable {
    private struct Contents {
        var names: Set<String> = []
        var isListed = false
    }

    private let contents = Mutex(Contents())
    /// All that were there at some time; none is ever removed.
    private let seen = Mutex<Set<String>>([])

    /// Creates the directory of a shard if it is missing, and makes its name durable.
    func make(_ shard: String, in directory: DataDirectory, _ io: BlockingIO) throws(SystemError) {
        let (isKnown, isListed) = contents.withLock { ($0.names.contains(shard), $0.isListed) }
        if isKnown { return }
        // One sync makes all existing directories durable.
        var names: [String] = isListed ? [] : try directory.shards(io)
        if !names.contains(shard) {
            try directory.makeShard(shard, io)
            names.append(shard)
        }
        try directory.synchronizeShards(io)
        contents.withLock { contents in
            contents.names.formUnion(names)
            contents.isListed = true
        }
    }

    /// The shards that were there before and are gone, with all blobs in them; the next call looks again.
    func lost(in directory: DataDirectory, _ io: BlockingIO) throws(SystemError) -> Set<String> {
        let found = try directory.shards(io)
        return seen.withLock { seen in
            seen.formUnion(found)
            return seen.subtracting(found)
        }
    }

    /// Drops a shard that turned out to be missing.
    func forget(_ shard: String) {
        contents.withLock { _ = $0.names.remove(shard) }
    }
}
