internal import Foundation
internal import UploadModel

/// The delivery of events.
extension StateStoreContract {
    /// Seconds; longer than any test.
    private static let long: TimeInterval = 3600

    /// Claims a due event, and records an outcome.
    static func deliver(
        _ sequence: Int64,
        as outcome: DeliveryOutcome,
        by store: any DeliveryRecords
    ) async throws {
        let claimed = try await store.claimDeliveries(limit: 9, for: long)
        try demand(claimed.map(\.sequence), is: [sequence])
        try await store.settle(claimed[0], as: outcome)
    }

    static let deliveries: [Contract<any EventRecords & DeliveryRecords>] = [
        Contract("newer progress replaces undelivered progress, if nothing else happened since") { store in
            var upload = upload()
            for offset in [1, 2, 3] as [Int64] {
                upload.offset = offset
                try await store.record(.sample(.progress, of: upload))
            }
            try demand(await store.events(EventQuery(after: 0)).map(\.upload.offset), is: [3])
            try await deliver(1, as: .retry(after: 0, error: "no"), by: store)
            upload.offset = 4
            try await store.record(.sample(.progress, of: upload))
            try demand(await store.events(EventQuery(after: 0)).map(\.upload.offset), is: [3, 4])
            try await store.record(.sample(.updated, of: upload))
            try await store.record(.sample(.progress, of: upload))
            try demand(await store.events(EventQuery(after: 0)).count, is: 4)
        },
        Contract("deliveries of each upload are due in order, one at a time, and recorded once") { store in
            let first = upload()
            let second = upload(1)
            for upload in [first, second] {
                try await store.record(.sample(.created, of: upload))
                try await store.record(.sample(.completed, of: upload))
            }
            try demand(await store.nextDelivery().map { $0 <= 0 }, is: true)
            try demand(await store.pendingDeliveries().count, is: 4)
            try demand(await store.pendingDeliveries().age > 0, is: true)
            try demand(await store.claimDeliveries(limit: 1, for: 0).map(\.sequence), is: [1])
            let claimed = try await store.claimDeliveries(limit: 10, for: long)
            try demand(claimed.map(\.sequence), is: [1, 3])
            try await store.settle(claimed[1], as: .delivered)
            let fourth = try await store.claimDeliveries(limit: 10, for: long)
            try demand(fourth.map(\.sequence), is: [4])
            try await store.settle(fourth[0], as: .delivered)
            try demand(await store.pendingDeliveries().count, is: 2)
            try await store.settle(claimed[0], as: .retry(after: 50, error: "503"))
            try demand(await store.claimDeliveries(limit: 10, for: long).map(\.sequence), is: [])
            try demand(await store.nextDelivery().map { $0 > 0 && $0 <= 50 }, is: true)
            try demand(await store.redeliver([claimed[0].id]), is: 1)
            try await deliver(1, as: .retry(after: 0, error: "503"), by: store)
            try await deliver(1, as: .dead(error: "gone"), by: store)
            // After giving up, later events are no longer held back.
            try demand(await store.claimDeliveries(limit: 10, for: long).map(\.sequence), is: [2])
            try await store.settle(claimed[0], as: .delivered)
            let dead = try await store.deliveries(DeliveryQuery(state: .dead))
            try demand(dead.map(\.sequence), is: [1])
            try demand(dead.first?.delivery?.attempts, is: 2)
            try demand(dead.first?.delivery?.lastError, is: "gone")
            try demand(await store.deliveries(DeliveryQuery(limit: 2)).map(\.sequence), is: [4, 3])
            try demand(await store.deliveries(DeliveryQuery(before: 3, limit: 9)).map(\.sequence), is: [2, 1])
        },
        Contract(
            "a delivery belongs to one process until its outcome is recorded, it is released, or the claim expires"
        ) { store in
            let upload = upload()
            try await store.record(.sample(.created, of: upload))
            let over = try await store.claimDeliveries(limit: 9, for: 0)
            let held = try await store.claimDeliveries(limit: 9, for: long)
            try demand(over.map(\.sequence), is: [1])
            try demand(held.map(\.sequence), is: [1])
            try demand(await store.claimDeliveries(limit: 9, for: long), is: [])
            try demand(await store.nextDelivery().map { $0 > 0 && $0 <= long }, is: true)
            // After losing the claim, a failure is ignored,
            try await store.settle(over[0], as: .dead(error: "late"))
            try await store.settle(over[0], as: .retry(after: 0, error: "late"))
            try await store.release(over[0])
            try demand(await store.claimDeliveries(limit: 9, for: long), is: [])
            try await store.release(held[0])
            let again = try await store.claimDeliveries(limit: 9, for: long)
            try demand(again.map(\.sequence), is: [1])
            try demand(again.first?.delivery?.attempts, is: 0)
            // but a success is recorded.
            try await store.settle(over[0], as: .delivered)
            try demand(await store.deliveries(DeliveryQuery()).map(\.delivery?.state), is: [.delivered])
            try demand(await store.nextDelivery(), is: nil)
        },
        Contract("users have turns if more deliveries are due than are wanted") { store in
            func record(_ subjects: String?...) async throws {
                for subject in subjects {
                    try await store.record(.sample(.created, of: upload(subject: subject)))
                }
            }
            func claim(_ limit: Int) async throws -> [Int64] {
                try await store.claimDeliveries(limit: limit, for: long).map(\.sequence).sorted()
            }
            try await record("eve", "eve", "eve", "eve", "eve", "eve", "eve", "bob", nil)
            try demand(await claim(3), is: [1, 8, 9])
            try demand(await claim(1), is: [2])
            try await record("bob", "zoe", nil)
            // After eve it is zoe's turn; those without a user come before bob.
            try demand(await claim(1), is: [11])
            try demand(await claim(1), is: [12])
            try demand(await claim(1), is: [10])
            try demand(await claim(1), is: [3])
            // With places left, one has several.
            try await record("bob", "bob")
            try demand(await claim(5), is: [4, 5, 6, 13, 14])
            try demand(await claim(5), is: [7])
            try demand(await claim(5), is: [])
        },
        Contract("progress that is being delivered is not replaced") { store in
            var upload = upload()
            upload.offset = 1
            try await store.record(.sample(.progress, of: upload))
            let held = try await store.claimDeliveries(limit: 9, for: long)
            upload.offset = 2
            try await store.record(.sample(.progress, of: upload))
            try demand(await store.events(EventQuery(after: 0)).map(\.upload.offset), is: [1, 2])
            try await store.settle(held[0], as: .delivered)
            try demand(await store.claimDeliveries(limit: 9, for: long).map(\.sequence), is: [2])
        },
        Contract("some or all dead deliveries are repeated") { store in
            let upload = upload()
            var ids: [String] = []
            for sequence in 1...3 as ClosedRange<Int64> {
                let event = EventRecord.sample(.updated, of: upload)
                ids.append(event.id)
                try await store.record(event)
                try await deliver(sequence, as: sequence == 3 ? .delivered : .dead(error: "x"), by: store)
            }
            try demand(await store.nextDelivery(), is: nil)
            try demand(await store.redeliver([ids[2], "msg_unknown"]), is: 1)
            try demand(await store.claimDeliveries(limit: 9, for: long).map(\.sequence), is: [3])
            try demand(await store.redeliver(nil), is: 2)
            // The first of them comes before the one that was already due.
            try demand(await store.claimDeliveries(limit: 9, for: long).map(\.sequence), is: [1])
            try demand(await store.deliveries(DeliveryQuery(state: .pending)).map(\.sequence), is: [3, 2, 1])
            try demand(await store.deliveries(DeliveryQuery()).map(\.delivery?.attempts), is: [0, 0, 0])
        },
    ]
}
