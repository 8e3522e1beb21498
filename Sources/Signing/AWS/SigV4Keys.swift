internal import Digests
internal import Synchronization

/// A cache of signing keys, each derived once per secret, day, region and service ("Create a signed AWS API request",
/// step 3: a chain of four HMACs).
package final class SigV4Keys: Sendable {
    private struct Name: Hashable {
        let accessKeyID: String
        let scope: SigV4Scope
    }

    private struct Entry {
        /// Compared, because the secret of an access key id may have changed.
        let secret: String
        let key: HMACKey
    }

    private let capacity: Int
    private let entries = Mutex<[Name: Entry]>([:])

    /// - Parameter capacity: Maximum number of keys; at least 1.
    package init(capacity: Int = 256) {
        self.capacity = max(1, capacity)
    }

    package var count: Int { entries.withLock { $0.count } }

    func key(for credentials: SigningCredentials, scope: SigV4Scope) -> HMACKey {
        let name = Name(accessKeyID: credentials.accessKeyID, scope: scope)
        let secret = credentials.secretAccessKey
        if let entry = entries.withLock({ $0[name] }), constantTimeEquals(entry.secret.utf8, secret.utf8) {
            return entry.key
        }
        let key = Self.derive(secret: secret, scope: scope)
        entries.withLock { entries in
            // Clear the whole cache: its keys are for past days, or more keys are in use than it is worth keeping.
            if entries.count >= capacity, entries[name] == nil { entries.removeAll() }
            entries[name] = Entry(secret: secret, key: key)
        }
        return key
    }

    static func derive(secret: String, scope: SigV4Scope) -> HMACKey {
        SigningKey.derive(
            from: "AWS4\(secret)",
            over: [scope.day, scope.region, scope.service, SigV4Scope.terminator]
        )
    }
}
