internal import Synchronization

/// The shards whose directories survive a power cut, as far as this process knows.
///
/// That a directory is there does not tell it: another creation may have made it and not yet synchronised its parent.
final class DurableShards: Sendable {
    private struct Contents {
        var names: Set<String> = []
        var isListed = false
    }

    private let contents = Mutex(Contents())

    /// Makes the directory of a shard, if it is missing, and its name durable.
    func make(_ shard: String, in directory: DataDirectory) throws(SystemCallError) {
        let (isKnown, isListed) = contents.withLock { ($0.names.contains(shard), $0.isListed) }
        if isKnown { return }
        // All that are there become durable by one sync.
        var names: [String] = isListed ? [] : try directory.shards()
        if !names.contains(shard) {
            try directory.makeShard(shard)
            names.append(shard)
        }
        try directory.synchronizeShards()
        contents.withLock { contents in
            contents.names.formUnion(names)
            contents.isListed = true
        }
    }

    /// For one that turns out to be missing.
    func forget(_ shard: String) {
        contents.withLock { _ = $0.names.remove(shard) }
    }
}
