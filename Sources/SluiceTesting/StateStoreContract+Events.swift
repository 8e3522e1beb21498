internal import Foundation
internal import UploadCore

/// Events and their delivery.
extension StateStoreContract {
    /// Seconds that no test lasts.
    private static let long: TimeInterval = 3600

    /// Claims an event that is due, and records an outcome.
    private static func tell(
        _ sequence: Int64,
        as outcome: DeliveryOutcome,
        by store: any StateStore
    ) async throws {
        let claimed = try await store.claimDeliveries(limit: 9, for: long)
        try demand(claimed.map(\.sequence), is: [sequence])
        try await store.settle(claimed[0], as: outcome)
    }

    static let events: [Contract<any StateStore>] = [
        Contract("events are recorded with what happened, in order, and read back as they were") { store in
            var request = EventRecord.sample(.created, of: upload())
            request.request = RequestInfo(
                method: "POST",
                uri: "/files",
                remoteAddress: "::1",
                fields: [.init(name: "X", value: "ü")]
            )
            var expected: [EventRecord] = []
            for (index, kind) in EventRecord.Kind.allCases.enumerated() {
                var event = EventRecord.sample(kind, of: index == 0 ? request.upload : final(1, of: [partial(0)]))
                event.request = index == 0 ? request.request : nil
                event.delivery = index == 1 ? nil : event.delivery
                try await store.record(event)
                event.sequence = Int64(index + 1)
                expected.append(event)
            }
            try demand(await store.events(EventQuery(after: 0)), is: expected)
            try demand(await store.events(EventQuery(after: 2, limit: 2)), is: Array(expected[2..<4]))
            try demand(await store.events(EventQuery(after: 0, upload: request.upload.id)), is: [expected[0]])
            try demand(await store.events(EventQuery(after: 0, subject: "nobody")), is: [])
            try demand(await store.events(EventQuery(after: 1, through: 4)), is: Array(expected[1..<4]))
            let some = expected.filter { [.completed, .updated].contains($0.kind) }
            try demand(await store.events(EventQuery(after: 0, kinds: [.completed, .updated])), is: some)
            try demand(await store.events(EventQuery(after: 0, kinds: [])), is: [])
            let last = expected[5]
            let later = EventQuery(after: 1, through: 6, upload: last.upload.id, kinds: [last.kind, .created])
            try demand(await store.events(later), is: [last])
            try demand(await store.lastEvent(), is: 6)
        },
        Contract("a step that is refused records no event") { store in
            let upload = counted()
            _ = await errorCode { () async throws(UploadError) in
                try await insert(upload, into: store, terms { $0.openUploads = 0 })
            }
            _ = try await store.end(upload.id, as: .terminated, at: start)
            _ = try await store.complete(completed(upload), as: media(of: upload))
            try demand(await store.events(EventQuery(after: 0)), is: [])
        },
        Contract("progress that was not told yet gives way to newer progress, if nothing happened since") { store in
            var upload = upload()
            for offset in [1, 2, 3] as [Int64] {
                upload.offset = offset
                try await store.record(.sample(.progress, of: upload))
            }
            try demand(await store.events(EventQuery(after: 0)).map(\.upload.offset), is: [3])
            try await tell(1, as: .retry(after: 0, error: "no"), by: store)
            upload.offset = 4
            try await store.record(.sample(.progress, of: upload))
            try demand(await store.events(EventQuery(after: 0)).map(\.upload.offset), is: [3, 4])
            try await store.record(.sample(.updated, of: upload))
            try await store.record(.sample(.progress, of: upload))
            try demand(await store.events(EventQuery(after: 0)).count, is: 4)
        },
        Contract("deliveries are due in the order of their upload, one of each, and settled once") { store in
            let first = upload()
            let second = upload(1)
            for upload in [first, second] {
                try await store.record(.sample(.created, of: upload))
                try await store.record(.sample(.completed, of: upload))
            }
            try demand(await store.nextDelivery().map { $0 <= 0 }, is: true)
            try demand(await store.claimDeliveries(limit: 1, for: 0).map(\.sequence), is: [1])
            let claimed = try await store.claimDeliveries(limit: 10, for: long)
            try demand(claimed.map(\.sequence), is: [1, 3])
            try await store.settle(claimed[1], as: .delivered)
            let fourth = try await store.claimDeliveries(limit: 10, for: long)
            try demand(fourth.map(\.sequence), is: [4])
            try await store.settle(fourth[0], as: .delivered)
            try await store.settle(claimed[0], as: .retry(after: 50, error: "503"))
            try demand(await store.claimDeliveries(limit: 10, for: long).map(\.sequence), is: [])
            try demand(await store.nextDelivery().map { $0 > 0 && $0 <= 50 }, is: true)
            try demand(await store.redeliver([claimed[0].id]), is: 1)
            try await tell(1, as: .retry(after: 0, error: "503"), by: store)
            try await tell(1, as: .dead(error: "gone"), by: store)
            // Given up: what came after it is not held back for ever.
            try demand(await store.claimDeliveries(limit: 10, for: long).map(\.sequence), is: [2])
            try await store.settle(claimed[0], as: .delivered)
            let dead = try await store.deliveries(DeliveryQuery(state: .dead))
            try demand(dead.map(\.sequence), is: [1])
            try demand(dead.first?.delivery?.attempts, is: 2)
            try demand(dead.first?.delivery?.lastError, is: "gone")
            try demand(await store.deliveries(DeliveryQuery(limit: 2)).map(\.sequence), is: [4, 3])
            try demand(await store.deliveries(DeliveryQuery(before: 3, limit: 9)).map(\.sequence), is: [2, 1])
        },
        Contract("a delivery is one process's until it is settled, given back, or its claim is over") { store in
            let upload = upload()
            try await store.record(.sample(.created, of: upload))
            let over = try await store.claimDeliveries(limit: 9, for: 0)
            let held = try await store.claimDeliveries(limit: 9, for: long)
            try demand(over.map(\.sequence), is: [1])
            try demand(held.map(\.sequence), is: [1])
            try demand(await store.claimDeliveries(limit: 9, for: long), is: [])
            try demand(await store.nextDelivery().map { $0 > 0 && $0 <= long }, is: true)
            // Who has lost it says nothing about it any more,
            try await store.settle(over[0], as: .dead(error: "late"))
            try await store.settle(over[0], as: .retry(after: 0, error: "late"))
            try await store.release(over[0])
            try demand(await store.claimDeliveries(limit: 9, for: long), is: [])
            try await store.release(held[0])
            let again = try await store.claimDeliveries(limit: 9, for: long)
            try demand(again.map(\.sequence), is: [1])
            try demand(again.first?.delivery?.attempts, is: 0)
            // but that it was told.
            try await store.settle(over[0], as: .delivered)
            try demand(await store.deliveries(DeliveryQuery()).map(\.delivery?.state), is: [.delivered])
            try demand(await store.nextDelivery(), is: nil)
        },
        Contract("progress that is on its way is told as it was") { store in
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
        Contract("deliveries are made again, some or all that are dead") { store in
            let upload = upload()
            var ids: [String] = []
            for sequence in 1...3 as ClosedRange<Int64> {
                let event = EventRecord.sample(.updated, of: upload)
                ids.append(event.id)
                try await store.record(event)
                try await tell(sequence, as: sequence == 3 ? .delivered : .dead(error: "x"), by: store)
            }
            try demand(await store.nextDelivery(), is: nil)
            try demand(await store.redeliver([ids[2], "msg_unknown"]), is: 1)
            try demand(await store.claimDeliveries(limit: 9, for: long).map(\.sequence), is: [3])
            try demand(await store.redeliver(nil), is: 2)
            // The first of them goes before the one that was due.
            try demand(await store.claimDeliveries(limit: 9, for: long).map(\.sequence), is: [1])
            try demand(await store.deliveries(DeliveryQuery(state: .pending)).map(\.sequence), is: [3, 2, 1])
            try demand(await store.deliveries(DeliveryQuery()).map(\.delivery?.attempts), is: [0, 0, 0])
        },
        Contract("events are forgotten after their time, unless somebody still has to be told") { store in
            let upload = upload()
            for sequence in 1...4 as ClosedRange<Int64> {
                var event = EventRecord.sample(.updated, of: upload)
                if sequence == 1 { event.delivery = nil }
                try await store.record(event)
            }
            try await tell(2, as: .delivered, by: store)
            try await tell(3, as: .dead(error: "x"), by: store)
            try await store.forgetEnded(before: start)
            try demand(await store.events(EventQuery(after: 0)).count, is: 4)
            try await store.forgetEnded(before: start.addingTimeInterval(1))
            try demand(await store.events(EventQuery(after: 0)).map(\.sequence), is: [3, 4])
            try demand(await store.lastEvent(), is: 4)
        },
    ]
}
