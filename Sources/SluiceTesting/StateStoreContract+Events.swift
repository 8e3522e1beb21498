internal import Foundation
internal import UploadModel

/// Events.
extension StateStoreContract {
    static let events: [Contract<any StateStore>] = [
        Contract("while all events are to be kept, none is missing after the number that the store names") { store in
            var event = EventRecord.sample(.created, of: upload())
            event.delivery = nil
            let before = try await store.eventCount()
            try await store.record(event)
            try await store.keepEvents(until: start.addingTimeInterval(60), at: start)
            let since = try await store.eventsKeptSince()
            try demand(since <= (try await store.lastEvent()), is: true)
            let last = try await store.lastEvent()
            var kept = EventRecord.sample(.updated, of: upload(1))
            kept.delivery = nil
            try await store.record(kept)
            try demand(await store.events(EventQuery(after: last)).map(\.id), is: [kept.id])
            try demand(await store.eventCount() >= before + 2, is: true)
        },
        Contract("events are recorded with their changes, in order, and read back unchanged") { store in
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
                try await insert(upload, into: store, effectiveLimits { $0.openUploads = 0 })
            }
            _ = try await store.end(upload.id, as: .terminated, at: start)
            _ = try await store.complete(completed(upload), as: media(of: upload))
            try demand(await store.events(EventQuery(after: 0)), is: [])
        },
        Contract("events are removed after their retention time, dead ones after theirs, pending ones never") { store in
            let upload = upload()
            for sequence in 1...4 as ClosedRange<Int64> {
                var event = EventRecord.sample(.updated, of: upload)
                if sequence == 1 { event.delivery = nil }
                try await store.record(event)
            }
            try await deliver(2, as: .delivered, by: store)
            try await deliver(3, as: .dead(error: "x"), by: store)
            try await store.forgetEnded(before: start, dead: start)
            try demand(await store.events(EventQuery(after: 0)).count, is: 4)
            try await store.forgetEnded(before: start.addingTimeInterval(1), dead: start)
            try demand(await store.events(EventQuery(after: 0)).map(\.sequence), is: [3, 4])
            try await store.forgetEnded(before: start.addingTimeInterval(1), dead: start.addingTimeInterval(1))
            try demand(await store.events(EventQuery(after: 0)).map(\.sequence), is: [4])
            try demand(await store.lastEvent(), is: 4)
        },
        Contract("old events are all removed, also if they are more than one transaction removes") { store in
            let upload = upload()
            for _ in 0...1000 {
                var event = EventRecord.sample(.updated, of: upload)
                event.delivery = nil
                try await store.record(event)
            }
            try await store.forgetEnded(before: start.addingTimeInterval(1), dead: start)
            try demand(await store.events(EventQuery(after: 0)), is: [])
            try demand(await store.lastEvent(), is: 1001)
        },
    ]
}
