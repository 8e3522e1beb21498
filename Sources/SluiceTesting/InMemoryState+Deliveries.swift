package import Foundation
internal import Synchronization
internal import UploadCore
package import UploadModel

extension InMemoryState.Tables {
    /// As `DeliveryTurns` says, of due events in their order.
    fileprivate mutating func inTurns(_ due: [EventRecord], _ limit: Int) -> [EventRecord] {
        guard due.count > limit else { return due }
        let users = Set(due.map { $0.upload.subject ?? DeliveryTurns.noUser }).sorted()
        let ordered = users.filter { $0 > lastDeliveryTurn } + users.filter { $0 <= lastDeliveryTurn }
        lastDeliveryTurn = ordered.prefix(limit).last ?? lastDeliveryTurn
        let queues = ordered.prefix(limit).map { user in
            due.filter { $0.upload.subject ?? DeliveryTurns.noUser == user }.map(\.sequence)
        }
        let chosen = DeliveryTurns.choose(limit, of: queues, else: due.map(\.sequence))
        return chosen.compactMap { sequence in due.first { $0.sequence == sequence } }
    }
}

extension InMemoryState {
    package func claimDeliveries(limit: Int, for duration: TimeInterval) async throws(UploadError) -> [EventRecord] {
        let now = clock.now
        return tables.withLock { tables in
            let due = tables.events.filter { event in
                event.delivery?.nextAttemptAt.map { $0 <= now } ?? false
                    && tables.deliveryClaims.end(of: event.sequence, at: now) == nil
            }
            let first = due.sorted { left, right in
                (left.delivery?.nextAttemptAt ?? now, left.sequence)
                    < (right.delivery?.nextAttemptAt ?? now, right.sequence)
            }
            let end = now.addingTimeInterval(duration)
            return tables.inTurns(first, limit).map { event in
                var event = event
                _ = tables.deliveryClaims.take(event.sequence, until: end)
                event.delivery?.nextAttemptAt = end
                return event
            }
        }
    }

    package func nextDelivery() async throws(UploadError) -> TimeInterval? {
        let now = clock.now
        return tables.withLock { tables in
            tables.events.compactMap { event in
                event.delivery?.nextAttemptAt.map {
                    max($0, tables.deliveryClaims.end(of: event.sequence, at: now) ?? $0)
                }
            }.min()?.timeIntervalSince(now)
        }
    }

    package func pendingDeliveries() async throws(UploadError) -> PendingDeliveries {
        let now = clock.now
        return tables.withLock { tables in
            let pending = tables.events.filter { $0.delivery?.state == .pending }
            let oldest = pending.min { $0.sequence < $1.sequence }?.occurredAt ?? now
            return PendingDeliveries(count: Int64(pending.count), age: max(0, now.timeIntervalSince(oldest)))
        }
    }

    package func settle(_ event: EventRecord, as outcome: DeliveryOutcome) async throws(UploadError) {
        let now = clock.now
        tables.withLock { tables in
            let isHeld = tables.deliveryClaims.holds(event.sequence, until: event.delivery?.nextAttemptAt)
            guard isHeld || outcome == .delivered else { return }
            tables.deliveryClaims.drop(event.sequence)
            guard let index = tables.events.firstIndex(where: { $0.sequence == event.sequence }),
                var delivery = tables.events[index].delivery, delivery.state == .pending
            else { return }
            delivery.attempts += 1
            delivery.nextAttemptAt = nil
            delivery.lastError = nil
            switch outcome {
            case .delivered:
                delivery.state = .delivered
                delivery.settledAt = now
            case .retry(let seconds, let error):
                delivery.nextAttemptAt = now.addingTimeInterval(seconds)
                delivery.lastError = error
            case .dead(let error):
                delivery.state = .dead
                delivery.settledAt = now
                delivery.lastError = error
            }
            tables.events[index].delivery = delivery
            if delivery.state != .pending { tables.schedule(tables.events[index].upload.id, at: now) }
        }
    }

    package func release(_ event: EventRecord) async throws(UploadError) {
        tables.withLock { tables in
            guard tables.deliveryClaims.holds(event.sequence, until: event.delivery?.nextAttemptAt) else { return }
            tables.deliveryClaims.drop(event.sequence)
        }
    }

    package func deliveries(_ query: DeliveryQuery) async throws(UploadError) -> [EventRecord] {
        tables.withLock { tables in
            let matching = tables.events.filter { event in
                guard let delivery = event.delivery else { return false }
                return (query.state == nil || delivery.state == query.state)
                    && query.before.map { event.sequence < $0 } ?? true
            }
            return Array(matching.reversed().prefix(query.limit))
        }
    }

    package func redeliver(_ ids: [String]?) async throws(UploadError) -> Int {
        let now = clock.now
        return tables.withLock { tables in
            var count = 0
            for index in tables.events.indices {
                guard let delivery = tables.events[index].delivery,
                    ids?.contains(tables.events[index].id) ?? (delivery.state == .dead)
                else { continue }
                tables.events[index].delivery = EventRecord.Delivery(nextAttemptAt: nil)
                tables.deliveryClaims.drop(tables.events[index].sequence)
                count += 1
            }
            for id in Set(tables.events.map(\.upload.id)) { tables.schedule(id, at: now) }
            return count
        }
    }
}
