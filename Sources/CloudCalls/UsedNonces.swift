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

        init(_ text: String) {
            let hash = Digest.hash(text.utf8, .sha256)
            func number(_ bytes: ArraySlice<UInt8>) -> UInt64 { bytes.reduce(0) { $0 << 8 | UInt64($1) } }
            (first, second) = (number(hash[0..<8]), number(hash[8..<16]))
        }
    }

    private struct Use {
        let expiry: Int64
        /// Identifies the signer; 0 without a limit for each signer.
        let signer: UInt64
    }

    private struct Contents {
        var uses: [Name: Use] = [:]
        var counts: [UInt64: Int] = [:]
        /// When expired nonces were last removed.
        var cleaned: Int64 = 0

        mutating func clean(at now: Int64) {
            uses = uses.filter { $0.value.expiry >= now }
            cleaned = now
            guard !counts.isEmpty else { return }
            counts = [:]
            for use in uses.values { counts[use.signer, default: 0] += 1 }
        }
    }

    /// Seconds between two removals of expired nonces, because each one scans all of them.
    private static let cleaningInterval: Int64 = 60

    private let capacity: Int
    private let perSigner: Int?
    private let contents = Mutex(Contents())

    /// - Parameters:
    ///   - capacity: Maximum number of nonces, at 50 bytes or slightly more each; at least 1.
    ///   - perSigner: The same of one signer; `nil` for no such limit.
    package init(capacity: Int = 1 << 18, perSigner: Int? = nil) {
        self.capacity = max(1, capacity)
        self.perSigner = perSigner
    }

    /// Records a nonce unless it is already in use and not expired.
    ///
    /// - Parameters:
    ///   - nonce: From a request with a verified signature, so that only authenticated callers can fill the memory.
    ///   - accessKeyID: The signer; another one may use the same nonce.
    ///   - expiry: Last second in which the request is accepted, Unix seconds.
    ///   - now: Unix seconds.
    /// - Returns: `.full` instead of dropping a nonce that is not expired.
    package func use(_ nonce: String, of accessKeyID: String, until expiry: Int64, at now: Int64) -> Outcome {
        let name = Name("\(accessKeyID)\n\(nonce)")
        let signer = perSigner == nil ? 0 : Name(accessKeyID).first
        return contents.withLock { contents in
            if let used = contents.uses[name], used.expiry >= now { return .used }
            if abs(now - contents.cleaned) >= Self.cleaningInterval { contents.clean(at: now) }
            let isKnown = contents.uses[name] != nil
            guard isKnown || contents.uses.count < capacity else { return .full }
            if let perSigner, !isKnown {
                guard contents.counts[signer, default: 0] < perSigner else { return .full }
                contents.counts[signer, default: 0] += 1
            }
            contents.uses[name] = Use(expiry: expiry, signer: signer)
            return .new
        }
    }
}
