internal import Synchronization
internal import UploadCore
package import UploadModel

extension InMemoryState {
    package func record(_ event: EventRecord) async throws(UploadError) {
        let now = clock.now
        tables.withLock { tables in
            if event.kind == .progress,
                let index = tables.events.lastIndex(where: { $0.upload.id == event.upload.id }),
                tables.events[index].kind == .progress, tables.events[index].delivery?.state == .pending,
                tables.events[index].delivery?.attempts == 0,
                tables.deliveryClaims.end(of: tables.events[index].sequence, at: now) == nil
            {
                tables.events[index].upload = event.upload
                tables.events[index].request = event.request
                tables.events[index].occurredAt = event.occurredAt
            } else {
                tables.add(event)
            }
        }
    }

    package func events(_ query: EventQuery) async throws(UploadError) -> [EventRecord] {
        tables.withLock { tables in
            let matching = tables.events.filter { event in
                event.sequence > query.after && event.sequence <= query.through ?? .max
                    && (query.upload == nil || event.upload.id == query.upload)
                    && (query.subject == nil || event.upload.subject == query.subject)
                    && query.kinds?.contains(event.kind) ?? true
            }
            return Array(matching.prefix(query.limit))
        }
    }

    package func lastEvent() async throws(UploadError) -> Int64 { tables.withLock { $0.lastEvent } }
}
