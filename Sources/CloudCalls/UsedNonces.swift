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
        /// Whose shares it counts in; 0 for none.
        let user, key: UInt64
    }

    /// The limits of the memory that the calls of one caller may use, so that other callers can still make calls.
    package struct Shares: Sendable {
        fileprivate var user: UInt64 = 0
        fileprivate var mostOfUser = Int.max
        fileprivate var key: UInt64 = 0
        fileprivate var mostOfKey = Int.max

        /// Of the app's server, which may take all.
        package static let all = Shares()

        fileprivate var areOfServer: Bool { user == 0 && key == 0 }

        /// The shares of an API key.
        ///
        /// - Parameters:
        ///   - id: The id of the key.
        ///   - most: The number of nonces at once; `nil` for a quarter of the memory.
        /// - Returns: Those of all its calls.
        package static func key(_ id: String, most: Int? = nil) -> Shares {
            Shares(key: Name("key\n" + id).first, mostOfKey: most ?? UsedNonces.usualCapacity / 4)
        }

        /// The shares of a session.
        ///
        /// A user can have many sessions, each with an access key id of its own, so these do not count by that.
        ///
        /// - Parameters:
        ///   - accessKeyID: Counts where there is no user.
        ///   - subject: The user.
        ///   - issuer: The key that minted it, or the issuer of its user's token. All its sessions have half of the memory.
        ///   - most: The number of nonces of the user at once; `nil` for a 64th of the memory.
        /// - Returns: Those of each session of this user.
        package static func session(
            _ accessKeyID: String,
            of subject: String?,
            from issuer: String?,
            most: Int? = nil
        ) -> Shares {
            let user = subject.map { "user\n\($0)\n\(issuer ?? "")" } ?? "session\n" + accessKeyID
            return Shares(
                user: Name(user).first,
                mostOfUser: most ?? UsedNonces.usualCapacity / 64,
                key: Name("sessions\n" + (issuer ?? "")).first,
                mostOfKey: UsedNonces.usualCapacity / 2
            )
        }
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
            for use in uses.values { count(user: use.user, key: use.key) }
        }

        mutating func count(user: UInt64, key: UInt64) {
            if user != 0 { counts[user, default: 0] += 1 }
            if key != 0 { counts[key, default: 0] += 1 }
        }

        func hasRoom(_ shares: Shares) -> Bool {
            counts[shares.user, default: 0] < shares.mostOfUser && counts[shares.key, default: 0] < shares.mostOfKey
        }
    }

    /// Seconds between two removals of expired nonces, because each one scans all of them.
    private static let cleaningInterval: Int64 = 60

    /// Maximum number of nonces, at 60 bytes or slightly more each.
    package static let usualCapacity = 1 << 18

    private let capacity: Int
    private let contents = Mutex(Contents())

    /// - Parameter capacity: Maximum number of nonces; at least 1.
    package init(capacity: Int = usualCapacity) {
        self.capacity = max(1, capacity)
    }

    /// Records a nonce unless it is already in use and not expired.
    ///
    /// - Parameters:
    ///   - nonce: From a request with a verified signature, so that only authenticated callers can fill the memory.
    ///   - accessKeyID: The signer; another one may use the same nonce.
    ///   - service: The name of the service that is called; in calls of another one, the same nonce is new.
    ///   - shares: What the caller may take of the memory.
    ///   - expiry: Last second in which the request is accepted, Unix seconds.
    ///   - now: Unix seconds.
    /// - Returns: `.full` instead of dropping a nonce that is not expired.
    package func use(
        _ nonce: String,
        of accessKeyID: String,
        for service: String = "",
        within shares: Shares = .all,
        until expiry: Int64,
        at now: Int64
    ) -> Outcome {
        let name = Name("\(service)\n\(accessKeyID)\n\(nonce)")
        return contents.withLock { contents in
            if let used = contents.uses[name], used.expiry >= now { return .used }
            if abs(now - contents.cleaned) >= Self.cleaningInterval { contents.clean(at: now) }
            let isKnown = contents.uses[name] != nil
            // However many users and keys with limits there are, they leave some to the app's server.
            let most = shares.areOfServer ? capacity : capacity - capacity / 8
            guard isKnown || contents.uses.count < most else { return .full }
            if !isKnown {
                guard contents.hasRoom(shares) else { return .full }
                contents.count(user: shares.user, key: shares.key)
            }
            // One that is over counts for its signer until it is removed.
            contents.uses[name] = Use(expiry: expiry, user: shares.user, key: shares.key)
            return .new
        }
    }
}
