internal import Foundation
internal import UploadModel

/// Revocations.
extension StateStoreContract {
    static let revocations: [Contract<any RevocationRecords & KeyRecords>] = [
        Contract("revocations since a date are returned, and for each user only the latest") { store in
            func moment(_ seconds: TimeInterval) -> Date { start.addingTimeInterval(seconds) }
            func revocations(since date: Date) async throws -> Revocations {
                var revoked = try await store.revoked(since: date)
                revoked.keys.sort()
                revoked.bulk.sort { ($0.subject ?? "") < ($1.subject ?? "") }
                return revoked
            }
            try demand(await revocations(since: .distantPast), is: Revocations())
            for (id, byte) in [("key_a", UInt8(1)), ("key_b", 2), ("key_c", 3)] {
                try await store.insert(key(id, byte))
            }
            _ = try await store.revokeKey("key_a", at: moment(1))
            _ = try await store.revokeKey("key_b", at: moment(5))
            let all = Revocation(subject: nil, issuedBefore: moment(2), createdAt: moment(2))
            let anna = Revocation(subject: "anna", issuedBefore: moment(7), createdAt: moment(7))
            let older = Revocation(subject: "anna", issuedBefore: moment(3), createdAt: moment(8))
            for revocation in [all, anna, older] { try await store.insert(revocation) }
            let kept = Revocation(subject: "anna", issuedBefore: moment(7), createdAt: moment(8))
            try demand(
                await revocations(since: .distantPast),
                is: Revocations(keys: ["key_a", "key_b"], bulk: [all, kept])
            )
            try demand(await revocations(since: moment(3)), is: Revocations(keys: ["key_b"], bulk: [kept]))
            try demand(await revocations(since: moment(9)), is: Revocations())
        }
    ]
}
