internal import Foundation
internal import UploadModel

/// API keys.
extension StateStoreContract {
    static func key(_ id: String, _ byte: UInt8, at seconds: TimeInterval = 0) -> APIKey {
        APIKey(
            id: id,
            name: "the app",
            scopes: [.mint, .read],
            createdAt: start.addingTimeInterval(seconds),
            expiresAt: seconds == 0 ? nil : start.addingTimeInterval(1000),
            digest: [UInt8](repeating: byte, count: 32),
            isPreset: seconds == 0
        )
    }

    static let keys: [Contract<any KeyRecords>] = [
        Contract("a key is found by the digest of its secret and listed by age") { store in
            let first = key("key_b", 1)
            let second = key("key_a", 2, at: 1)
            try await store.insert(second)
            try await store.insert(first)
            try demand(await store.key(digest: first.digest), is: first)
            try demand(await store.key(digest: second.digest), is: second)
            try demand(await store.key(digest: [UInt8](repeating: 3, count: 32)), is: nil)
            try demand(await store.keys(), is: [first, second])
        },
        Contract("a second key with the same id or secret is refused") { store in
            try await store.insert(key("key_a", 1))
            for other in [key("key_a", 2), key("key_b", 1)] {
                try demand(
                    await errorCode { () async throws(UploadError) in try await store.insert(other) },
                    is: .invalidRequest
                )
            }
            try demand(await store.keys().count, is: 1)
        },
        Contract("a key is revoked once") { store in
            try await store.insert(key("key_a", 1))
            try demand(await store.revokeKey("key_a", at: start.addingTimeInterval(3)), is: true)
            try demand(await store.revokeKey("key_a", at: start.addingTimeInterval(9)), is: false)
            try demand(await store.revokeKey("key_z", at: start), is: false)
            try demand(await store.keys().first?.revokedAt, is: start.addingTimeInterval(3))
        },
        Contract("a rotated key is found by both secrets, and forgets the one before on the next rotation") { store in
            var first = key("key_a", 1, at: 1)
            first.limits = KeyLimits(subjects: ["a"])
            try await store.insert(first)
            let (end, now) = (start.addingTimeInterval(60), start.addingTimeInterval(5))
            let new = [UInt8](repeating: 2, count: 32)
            var rotated = first
            rotated.digest = new
            rotated.previous = APIKey.PreviousSecret(digest: first.digest, validUntil: end)
            try demand(await store.rotateKey("key_a", to: new, overlapEnd: end, at: now), is: rotated)
            try demand(await store.key(digest: new), is: rotated)
            try demand(await store.key(digest: first.digest), is: rotated)
            let last = [UInt8](repeating: 3, count: 32)
            rotated.digest = last
            rotated.previous = nil
            try demand(await store.rotateKey("key_a", to: last, overlapEnd: nil, at: now), is: rotated)
            try demand(await store.key(digest: new), is: nil)
            try demand(await store.key(digest: first.digest), is: nil)
            try demand(await store.keys(), is: [rotated])
        },
        Contract("a key that is revoked, expired, preset or unknown is not rotated") { store in
            let keys = [key("key_preset", 1), key("key_old", 2, at: 1), key("key_revoked", 3, at: 2)]
            for key in keys { try await store.insert(key) }
            try demand(await store.revokeKey("key_revoked", at: start), is: true)
            let digest = [UInt8](repeating: 9, count: 32)
            let late = start.addingTimeInterval(1000)
            for (id, now) in [("key_preset", start), ("key_old", late), ("key_revoked", start), ("key_z", start)] {
                try demand(await store.rotateKey(id, to: digest, overlapEnd: late, at: now), is: nil)
            }
            try demand(await store.key(digest: digest), is: nil)
        },
        Contract("the last use of a key never goes back") { store in
            try await store.insert(key("key_a", 1))
            try await store.insert(key("key_b", 2))
            try await store.recordUses(["key_a": start.addingTimeInterval(9), "key_z": start])
            try await store.recordUses(["key_a": start.addingTimeInterval(3)])
            try demand(await store.key(id: "key_a")?.lastUsedAt, is: start.addingTimeInterval(9))
            try demand(await store.key(id: "key_b")?.lastUsedAt, is: nil)
        },
        Contract("a key keeps its limits") { store in
            var limited = key("key_a", 1)
            limited.limits = KeyLimits(subjects: ["ann\u{E4}", "t:*"], buckets: ["b"], prefixes: ["a/"])
            try await store.insert(limited)
            try await store.insert(key("key_b", 2))
            try demand(await store.key(id: "key_a"), is: limited)
            try demand(await store.key(id: "key_b")?.limits, is: KeyLimits())
        },
    ]
}
