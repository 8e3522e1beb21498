package import Foundation
internal import UploadCore
package import UploadModel

/// What a contract of `EventRecordingContract` needs of an adapter.
package struct RecordingBench: Sendable {
    package let state: any StateStore
    package let clock: ManualClock
    private let next: @Sendable () async throws -> any StateStore
    private let pass: @Sendable (TimeInterval) async throws -> Void

    /// - Parameters:
    ///   - state: A new state.
    ///   - clock: The clock of its events.
    ///   - next: Opens the same state as the next process does.
    ///   - pass: Lets a number of seconds pass for the state, if it has a clock of its own.
    package init(
        _ state: any StateStore,
        clock: ManualClock,
        next: @escaping @Sendable () async throws -> any StateStore,
        pass: @escaping @Sendable (TimeInterval) async throws -> Void = { _ in }
    ) {
        self.state = state
        self.clock = clock
        self.next = next
        self.pass = pass
    }

    fileprivate func reopened() async throws -> RecordingBench {
        RecordingBench(try await next(), clock: clock, next: next, pass: pass)
    }

    fileprivate func pass(_ seconds: TimeInterval) async throws {
        clock.advance(by: seconds)
        try await pass(seconds)
    }

    fileprivate func keep(for seconds: TimeInterval) async throws {
        try await state.keepEvents(until: clock.now.addingTimeInterval(seconds), at: clock.now)
    }

    /// An upload, with an event.
    @discardableResult
    fileprivate func create(isDelivered: Bool = false) async throws -> UploadID {
        let upload = Upload(
            id: UploadID.generate(at: clock.now),
            dialect: "tus",
            subject: "alice",
            principal: "key_1",
            length: 5,
            createdAt: clock.now
        )
        var event = EventRecord.sample(.created, of: upload)
        event.delivery = isDelivered ? EventRecord.Delivery(nextAttemptAt: clock.now) : nil
        let limits = EffectiveLimits(policies: [:], period: QuotaPeriod(around: clock.now, length: 86400))
        try await state.insert(upload, consuming: nil, under: limits, recording: event)
        return upload.id
    }

    fileprivate func events() async throws -> [EventRecord] { try await state.events(EventQuery(after: 0)) }
}

/// The contract of state stores that leave out events which nothing wants.
package enum EventRecordingContract {
    private static let week: TimeInterval = 7 * 24 * 3600

    package static let all: [Contract<RecordingBench>] = [
        Contract("events that no hook receives are left out and counted; the others are recorded") { bench in
            let before = try await bench.state.eventCount()
            try await bench.create()
            try demand(await bench.events(), is: [])
            try demand(await bench.state.lastEvent(), is: 0)
            // The mark of the storage is renewed if this number has changed.
            try demand(await bench.state.eventCount(), is: before + 1)
            let wanted = try await bench.create(isDelivered: true)
            try demand(await bench.events().map(\.upload.id), is: [wanted])
            try demand(await bench.state.eventCount(), is: before + 2)
        },
        Contract("all events are recorded until the time that was asked for, also by the next process") { bench in
            try await bench.keep(for: 1000)
            let first = try await bench.create()
            // An earlier end changes nothing.
            try await bench.pass(200)
            try await bench.keep(for: 300)
            try await bench.pass(500)
            let second = try await bench.create()
            let next = try await bench.reopened()
            try await next.pass(200)
            let third = try await next.create()
            try await next.pass(100)
            try await next.create()
            try demand(await next.events().map(\.upload.id), is: [first, second, third])
            // Nothing happened before the first call.
            try demand(await next.state.eventsKeptSince(), is: 0)
        },
        Contract("events that were left out have a number of their own once events are wanted again") { bench in
            try await bench.keep(for: 1000)
            try await bench.create()
            try demand(await bench.state.lastEvent(), is: 1)
            // While they are wanted, asking for more changes no number.
            try await bench.pass(500)
            try await bench.keep(for: 1500)
            try demand(await bench.state.lastEvent(), is: 1)
            try demand(await bench.state.eventsKeptSince(), is: 0)

            try await bench.pass(3000)
            try await bench.create()
            try await bench.create(isDelivered: true)
            try await bench.keep(for: 1000)
            // 2 is the event of the hook, 3 stands for the one before it.
            try demand(await bench.state.lastEvent(), is: 3)
            try demand(await bench.state.eventsKeptSince(), is: 3)
            try await bench.create()
            try demand(await bench.events().map(\.sequence), is: [1, 2, 4])
        },
        Contract("events that were left out have a number also if their uploads are forgotten") { bench in
            try await bench.keep(for: 1000)
            var event = EventRecord.sample(.terminated, of: StateStoreContract.upload())
            event.delivery = nil
            event.occurredAt = bench.clock.now
            try await bench.state.record(event)
            try demand(await bench.state.lastEvent(), is: 1)
            try await bench.pass(2000)
            try await bench.keep(for: 1000)
            try demand(await bench.state.eventsKeptSince(), is: 2)
        },
        Contract("an id from before a pause is unknown, also if no event had a number yet") { bench in
            try await bench.create()
            let events = UploadServices(
                state: bench.state,
                storage: InMemoryStorage(),
                clock: bench.clock,
                limits: UploadLimits().patient,
                observer: RecordingObserver()
            ).events
            try await events.keepEvents()
            try demand(await events.lastEvent(), is: 1)
            try demand(await events.keepsEvents(after: 0), is: false)
            try demand(await events.keepsEvents(after: 1), is: true)

            try await bench.create()
            try demand(await events.keepsEvents(after: 1), is: true)
            try await bench.pass(week + 2)
            try await bench.create(isDelivered: true)
            // 3 follows 2, but what happened between them was left out.
            try demand(await events.lastEvent(), is: 3)
            try await events.keepEvents()
            try demand(await events.keepsEvents(after: 2), is: false)
            try demand(await events.keepsEvents(after: 3), is: false)
            try demand(await events.keepsEvents(after: 4), is: true)
        },
    ]
}
