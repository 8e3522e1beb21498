internal import Digests
internal import Synchronization

/// Signing keys, derived once for a secret, a day, a region and a service ("Create a signed AWS API request", step 3: four
/// HMACs, of which the last is the key).
package final class SigV4Keys: Sendable {
    private struct Name: Hashable {
        let accessKeyID: String
        let scope: SigV4Scope
    }

    private struct Entry {
        /// Compared, because the secret of a name may be another one by now.
        let secret: String
        let key: HMACKey
    }

    private let capacity: Int
    private let entries = Mutex<[Name: Entry]>([:])

    /// - Parameter capacity: Keys that are kept; at least 1.
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
            // All go at once: they were for days that are over, or there are more keys in use than are worth keeping.
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
