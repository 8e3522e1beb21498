internal import Digests
internal import Synchronization

/// The nonces of calls as long as these could come again.
///
/// Of one node: a call that comes again at another one is not noticed.
final class UsedNonces: Sendable {
    enum Outcome: Sendable, Equatable {
        case new, used
        /// It can not be remembered, since so many others are.
        case full
    }

    /// Half of a SHA-256: nonces may have any length.
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
        /// When those that are over were last removed.
        var cleaned: Int64 = 0
    }

    /// Seconds between two removals of those that are over: each looks at all of them.
    private static let cleaningInterval: Int64 = 60

    private let capacity: Int
    private let contents = Mutex(Contents())

    /// - Parameter capacity: Nonces that are kept, 40 bytes each or a few more; at least 1.
    init(capacity: Int = 1 << 18) { self.capacity = max(1, capacity) }

    /// Takes a nonce, unless it was taken before and is not over.
    ///
    /// - Parameters:
    ///   - nonce: Of a call whose signature is right, so that nobody else can fill the memory.
    ///   - accessKeyID: Who signed the call; others may have the same nonce.
    ///   - expiry: Last second in which the call is looked at, Unix seconds.
    ///   - now: Unix seconds.
    /// - Returns: `.full` rather than to forget one that is not over.
    func use(_ nonce: String, of accessKeyID: String, until expiry: Int64, at now: Int64) -> Outcome {
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
