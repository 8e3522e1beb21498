internal import Digests
internal import Synchronization

/// Nonces of recent requests, kept as long as these could be replayed.
///
/// Per node: a replay at another node is not detected.
package final class UsedNonces: Sendable {
    package enum Outcome: Sendable, Equatable {
        case new, used
        /// It cannot be stored, because the memory is full.
        case full
    }

    /// Half of a SHA-256, because nonces may have any length.
    private struct Name: Hashable {
        let first, second: UInt64

        init(_ nonce: String, of accessKeyID: String) {
            let hash = Digest.hash("\(accessKeyID)\n\(nonce)".utf8, .sha256)
            func number(_ bytes: ArraySlice<UInt8>) -> UInt64 { bytes.reduce(0) { $0 << 8 | UInt64($1) } }
            (first, second) = (number(hash[0..<8]), number(hash[8..<16]))
        }
    }

    private struct Contents {
        var expiries: [Name: Int64] = [:]
        /// When expired nonces were last removed.
        var cleaned: Int64 = 0
    }

    /// Seconds between two removals of expired nonces, because each one scans all of them.
    private static let cleaningInterval: Int64 = 60

    private let capacity: Int
    private let contents = Mutex(Contents())

    /// - Parameter capacity: Maximum number of nonces, at 40 bytes or slightly more each; at least 1.
    package init(capacity: Int = 1 << 18) { self.capacity = max(1, capacity) }

    /// Records a nonce unless it is already in use and not expired.
    ///
    /// - Parameters:
    ///   - nonce: From a request with a verified signature, so that only authenticated callers can fill the memory.
    ///   - accessKeyID: The signer; another one may use the same nonce.
    ///   - expiry: Last second in which the request is accepted, Unix seconds.
    ///   - now: Unix seconds.
    /// - Returns: `.full` instead of dropping a nonce that is not expired.
    package func use(_ nonce: String, of accessKeyID: String, until expiry: Int64, at now: Int64) -> Outcome {
        let name = Name(nonce, of: accessKeyID)
        return contents.withLock { contents in
            if let used = contents.expiries[name], used >= now { return .used }
            if abs(now - contents.cleaned) >= Self.cleaningInterval {
                contents.expiries = contents.expiries.filter { $0.value >= now }
                contents.cleaned = now
            }
            guard contents.expiries.count < capacity || contents.expiries[name] != nil else { return .full }
            contents.expiries[name] = expiry
            return .new
        }
    }
}
