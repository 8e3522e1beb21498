internal import Foundation
internal import UploadCore
package import UploadModel

/// Compares the cost of state store calls with many records to the cost with few.
///
/// A call finds the same rows in both cases, so its cost may grow only with the depth of indexes.
package enum StateCosts {
    /// SQL that fills empty tables of any database.
    ///
    /// The first hundred rows contain a few of each kind that calls look for. The others are typical: completed,
    /// delivered, not expired. One in fifty of those is open or ended. With one in ten, a database would prefer to scan
    /// the newest hundred rows to find ten of them: that costs more rows, but the cost does not grow with the number of
    /// uploads.
    ///
    /// All completed uploads are objects in one bucket, and nearly all open ones take parts.
    ///
    /// - Parameters:
    ///   - rows: Number of uploads; at least 100.
    ///   - content: Content of the events in stored form.
    ///   - digest: 16 bytes as an SQL literal of the database.
    /// - Returns: Statements to run in order.
    package static func filling(
        rows: Int,
        eventContent content: String,
        digest: String
    ) -> [String] {
        let numbers = """
            WITH RECURSIVE number (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM number WHERE i < \(rows))
            """
        // The same ids as `id(_:)`.
        let id = "('0000000000000000' || (1000000000 + i))"
        let now = Int64(Date().timeIntervalSince1970 * 1000)
        let later = now + 1_000_000_000
        let state = """
            CASE WHEN i <= 10 OR i BETWEEN 21 AND 30 THEN 'open' WHEN i <= 20 THEN 'terminated'
                WHEN i % 100 = 0 THEN 'open' WHEN i % 100 = 1 THEN 'terminated' ELSE 'completed' END
            """
        return [
            "INSERT INTO bucket (name, created_at, documents) VALUES ('full', 0, '{}'), ('empty', 0, '{}')",
            """
            INSERT INTO upload (id, dialect, subject, principal, issuer, length, reserved_bytes, completes_when_full, state,
                metadata, created_at, updated_at, expires_at, ended_at, bucket, object_key, takes_parts)
            \(numbers), made AS (SELECT i, \(state) AS state FROM number)
            SELECT \(id), CASE WHEN i BETWEEN 31 AND 40 THEN 'tencent' ELSE 'tus' END, 'user' || (i / 20), 'key',
                'key_' || (i / 50), 5, 0, (1 = 1), state, '{}', i, i,
                CASE WHEN i <= 10 THEN 1000 WHEN state = 'open' THEN \(later) END,
                CASE WHEN state = 'open' THEN NULL WHEN i <= 20 THEN 1000 ELSE \(now) END,
                CASE WHEN i > 20 THEN 'full' END, 'k' || (1000000000 + i), (i > 20)
            FROM made
            """,
            """
            INSERT INTO media (id, subject, size, metadata, created_at, bucket, object_key)
            SELECT id, subject, length, '{}', created_at, bucket, object_key FROM upload WHERE state = 'completed'
            """,
            """
            INSERT INTO object_part (upload_id, number, size, md5, crc64, location, stored_at)
            \(numbers) SELECT \(id), 1, 5, \(digest), 0, 'l', i FROM number
            """,
            """
            INSERT INTO pull (upload_id, url, sealed, content_types, attempts, failures, furthest, next_attempt_at, is_failed)
            \(numbers)
            SELECT \(id), 'u', '', '[]', 1, 0, 0, CASE WHEN i BETWEEN 21 AND 30 THEN i END, (1 = 0) FROM number
            """,
            """
            INSERT INTO used_grant (id, upload_id, expires_at)
            \(numbers) SELECT 'grant' || i, \(id), CASE WHEN i <= 10 THEN 1000 ELSE \(later) END FROM number
            """,
            """
            INSERT INTO account (kind, name, period_start)
            \(numbers) SELECT 'subject', 'user' || (i / 20), 0 FROM number WHERE i % 20 = 0 OR i = 1
            """,
            """
            INSERT INTO account (kind, name, period_start)
            \(numbers) SELECT 'key', 'key_' || (i / 50), 0 FROM number WHERE i % 50 = 0 OR i = 1
            """,
        ] + eventFilling(numbers, id: id, now: now, content) + blobFilling(numbers, id: id)
            + dialectRecordFilling(numbers, later: later)
    }

    private static func blobFilling(_ numbers: String, id: String) -> [String] {
        [
            """
            INSERT INTO blob (id, version, state, bucket, object_key, part_size, is_beginning, part_count, part_bytes, sides,
                crc32c, created_at)
            \(numbers)
            SELECT \(id), 1, CASE WHEN i <= 5 THEN 'completing' ELSE 'complete' END, 'b', 'k', 5, (1 = 0), 1, 5, '[]', 0, i
            FROM number
            """,
            """
            INSERT INTO blob_part (blob_id, number, size, entity_tag) SELECT id, 1, 5, 'e' FROM blob
            """,
        ]
    }

    private static func eventFilling(_ numbers: String, id: String, now: Int64, _ content: String) -> [String] {
        [
            """
            INSERT INTO event (sequence, id, kind, upload_id, subject, occurred_at, content, delivery, attempts,
                next_attempt_at, settled_at)
            \(numbers)
            SELECT 2 * i - 1, 'msg_a' || i, 'created', \(id), 'user' || (i / 20), \(now), '\(content)', 'delivered', 1,
                NULL, \(now)
            FROM number
            """,
            """
            INSERT INTO event (sequence, id, kind, upload_id, subject, occurred_at, content, delivery, attempts,
                next_attempt_at, settled_at)
            \(numbers)
            SELECT 2 * i, 'msg_b' || i, 'completed', \(id), 'user' || (i / 20),
                CASE WHEN i BETWEEN 16 AND 20 THEN 1000 ELSE \(now) END, '\(content)',
                CASE WHEN i <= 10 THEN 'pending' WHEN i <= 15 THEN 'dead' ELSE 'delivered' END, 0,
                CASE WHEN i <= 10 THEN i END, CASE WHEN i > 10 THEN \(now) END
            FROM number
            """,
        ]
    }

    /// The id of the upload in a row; rows are counted from 1.
    static func id(_ row: Int) -> UploadID {
        // Ten digits after sixteen form an id: all are in its alphabet.
        UploadID("0000000000000000\(1_000_000_000 + row)") ?? .generate(at: Date(timeIntervalSince1970: 0))
    }

    /// Runs each call once.
    ///
    /// - Parameters:
    ///   - store: A store filled with `filling`.
    ///   - rows: The same number as for `filling`.
    ///   - measure: Runs a call and records its cost under the given name.
    /// - Throws: `ContractViolation` if a call finds unexpected rows; the errors of the store.
    package static func run(
        on store: any StateStore & BlobRecords,
        rows: Int,
        measure: (_ name: String, _ call: () async throws -> Void) async throws -> Void
    ) async throws {
        let now = Date()
        try await uploads(on: store, at: now, measure)
        try await lists(on: store, at: now, measure)
        try await endings(on: store, at: now, measure)
        try await deliveries(on: store, rows: rows, measure)
        try await measure("take pulls") {
            _ = try await store.nextPull()
            let jobs = try await store.claimPulls(limit: 5, for: 60)
            try demand(jobs.count, is: 5)
            try demand(await store.renewPulls(jobs, for: 60).count, is: 5)
            try demand(await store.update(jobs[0], .due(after: 60)), is: true)
        }
        try await blobs(on: store, measure)
        try await objects(on: store, measure)
        try await dialectRecords(on: store, at: now, measure)
    }

    typealias Measure = (_ name: String, _ call: () async throws -> Void) async throws -> Void

    /// The calls of one upload, from its creation to its end.
    private static func uploads(on store: any StateStore, at now: Date, _ measure: Measure) async throws {
        let effectiveLimits = EffectiveLimits(policies: [:], period: QuotaPeriod(around: now, length: 86400))
        let new = newUpload(at: now)
        let grant = Grant(id: "new", subject: "user1", expiresAt: now.addingTimeInterval(600), isOneTime: true)
        try await measure("create") {
            try await store.insert(new, consuming: grant, under: effectiveLimits, recording: .sample(.created, of: new))
        }
        let pulled = newUpload(at: now)
        try await measure("create a pull") {
            try await store.insert(
                pulled,
                consuming: nil,
                pulling: PullJob(
                    uploadID: pulled.id,
                    subject: pulled.subject,
                    url: "u",
                    sealed: "s",
                    nextAttemptAt: now.addingTimeInterval(600)
                )
            )
        }
        try await measure("HEAD") {
            try demand(await store.upload(id(50))?.id, is: id(50))
            try demand(await store.openFinals(of: id(50)), is: [])
        }
        try await measure("HEAD of a complete one") {
            try demand(await store.upload(id(52))?.state, is: .completed)
            try demand(await store.media(id(52))?.size, is: 5)
        }
        try await measure("accounts") {
            try demand(await store.accounts([Account(.subject, "user1"), Account(.key, "key_0")]).count, is: 2)
        }
        try await measure("append") {
            try demand(await store.reserve(4, for: new.id, under: effectiveLimits), is: true)
            try await store.setExpiry(of: new.id, to: now.addingTimeInterval(99999), updatedAt: now)
        }
        let changed = UploadMetadata(values: ["a": "b"])
        try await measure("metadata") {
            let event = EventRecord.sample(.updated, of: new)
            let isSet = try await store.setMetadata(
                of: new.id,
                from: new.metadata,
                to: changed,
                updatedAt: now,
                recording: event
            )
            try demand(isSet, is: true)
        }
        try await measure("complete") {
            var completed = new
            completed.state = .completed
            completed.metadata = changed
            completed.offset = 5
            completed.endedAt = now
            completed.expiresAt = nil
            try demand(await store.complete(completed, as: Media(of: completed)), is: true)
        }
    }

    private static func newUpload(at now: Date) -> Upload {
        Upload(
            id: .generate(at: now),
            dialect: "tus",
            subject: "user1",
            principal: "key",
            issuer: "key_0",
            length: 5,
            createdAt: now,
            expiresAt: now.addingTimeInterval(86400)
        )
    }

    private static func lists(on store: any StateStore, at now: Date, _ measure: Measure) async throws {
        let lists: [(String, UploadQuery, Int)] = [
            ("all", UploadQuery(limit: 10), 10),
            ("a later page", UploadQuery(before: id(90), limit: 10), 10),
            ("by time", UploadQuery(createdAfter: now.addingTimeInterval(-3600), limit: 10), 2),
            ("open", UploadQuery(states: [.open], limit: 10), 10),
            ("ended", UploadQuery(states: [.terminated, .expired], limit: 10), 10),
            ("completed", UploadQuery(states: [.completed], limit: 10), 10),
            ("of a user", UploadQuery(subject: "user3", limit: 10), 10),
            ("open of a user", UploadQuery(states: [.open], subject: "user1", limit: 10), 10),
            ("of a key", UploadQuery(issuer: "key_1", limit: 10), 10),
            ("of a protocol", UploadQuery(dialect: "tencent", limit: 10), 10),
        ]
        for (name, query, count) in lists {
            try await measure("list " + name) { try demand(await store.uploads(query).count, is: count) }
        }
    }

    /// What a sweep calls.
    private static func endings(on store: any StateStore, at now: Date, _ measure: Measure) async throws {
        try await measure("expired") {
            try demand(await store.expiredUploads(at: now, limit: 500).count, is: 10)
        }
        try await measure("needed") {
            try demand(await store.needed((31...90).map(id)).count, is: 60)
        }
        try await measure("end") {
            try demand(await store.end(id(1), as: .expired, at: now), is: true)
        }
        try await measure("forget") {
            try await store.forgetEnded(before: Date(timeIntervalSince1970: 2), dead: .distantPast)
            try demand(await store.upload(id(15)), is: nil)
        }
    }

    private static func blobs(on store: any BlobRecords, _ measure: Measure) async throws {
        try await measure("blobs") { try demand(await store.blobs(after: id(40), limit: 50).count, is: 50) }
        try await measure("completing blobs") { try demand(await store.completingBlobs(limit: 500).count, is: 5) }
        try await measure("change of a blob") {
            var record = try await store.blob(id(60))
            record?.partCount += 1
            guard let record else { throw ContractViolation(description: "a blob is missing") }
            try demand(await store.parts(of: record.id).count, is: 1)
            let part = BlobPart(number: 2, size: 5, entityTag: "f")
            try demand(await store.update(record, adding: [part], droppingFrom: nil), is: 2)
            try await store.forgetBlob(record.id)
        }
    }

    private static func key(_ row: Int) -> String { "k\(1_000_000_000 + row)" }

    private static func objects(
        on store: any StateStore,
        _ measure: Measure
    ) async throws {
        let pages: [(String, ObjectQuery)] = [
            ("the first ones", ObjectQuery(bucket: "full", limit: 10)),
            ("a later page", ObjectQuery(bucket: "full", after: key(50), limit: 10)),
            ("by prefix", ObjectQuery(bucket: "full", prefix: "k10000000", limit: 10)),
            ("by prefix, a later page", ObjectQuery(bucket: "full", prefix: "k10000000", after: key(50), limit: 10)),
            ("by a prefix after the marker", ObjectQuery(bucket: "full", prefix: "k10000000", after: "a", limit: 10)),
        ]
        for (name, query) in pages {
            try await measure("objects, " + name) { try demand(await store.objects(query).count, is: 10) }
        }
        try await measure("objects of a prefix that none has") {
            try demand(await store.objects(ObjectQuery(bucket: "full", prefix: "k100000005x", limit: 10)).count, is: 0)
        }
        try await measure("objects of an empty bucket") {
            try demand(await store.objects(ObjectQuery(bucket: "empty", limit: 10)).count, is: 0)
        }
        try await measure("an object") {
            try demand(await store.object(ObjectName(bucket: "full", key: key(60)))?.id, is: id(60))
        }
        try await measure("uploads of parts") {
            let first = PartUploadQuery(bucket: "full", prefix: "k10000000", limit: 5)
            try demand(await store.partUploads(first).count, is: 5)
            let second = PartUploadQuery(bucket: "full", after: key(24), afterID: id(24), limit: 5)
            try demand(await store.partUploads(second).map(\.id), is: (25...29).map(id))
        }
        try await measure("a part") {
            let part = StateStoreContract.part(2)
            try demand(await store.putPart(part, of: id(25)), is: nil)
            try demand(await store.putPart(part, of: id(25)), is: part)
        }
        try await measure("parts") {
            try demand(await store.objectParts(of: id(25), after: 0, limit: 10).count, is: 2)
            try demand(await store.objectPart(2, of: id(25))?.number, is: 2)
            try demand(await store.partBytes(of: id(25)), is: 25)
            try demand(await store.partBytes(of: [id(24), id(25)])[id(25)], is: 25)
        }
        try await measure("attributes") {
            try demand(await store.setAttributes(of: id(25), to: ObjectAttributes()), is: true)
        }
        var upload = StateStoreContract.inParts(key(60))
        upload.bucket = "full"
        let new = upload
        try await measure("create an object") { try await store.insert(new, consuming: nil) }
        try await measure("replace an object") {
            _ = try await store.putPart(StateStoreContract.part(1), of: new.id)
            let done = StateStoreContract.finished(new)
            try demand(await store.complete(done, as: Media(of: done), replacing: id(60)), is: true)
        }
        try await measure("forget a full bucket") { try demand(await store.removeBucket("full"), is: false) }
        try await measure("forget an empty bucket") { try demand(await store.removeBucket("empty"), is: true) }
    }

    private static func deliveries(
        on store: any StateStore,
        rows: Int,
        _ measure: Measure
    ) async throws {
        var events: [EventRecord] = []
        try await measure("claim events") {
            try demand(await store.nextDelivery().map { $0 <= 0 }, is: true)
            events = try await store.claimDeliveries(limit: 10, for: 60)
            try demand(events.count, is: 10)
        }
        try await measure("an event is delivered") { try await store.settle(events[0], as: .delivered) }
        try await measure("an event delivery fails") {
            try await store.settle(events[1], as: .retry(after: 60, error: "no"))
        }
        try await measure("an event is released") { try await store.release(events[2]) }
        try await measure("events") {
            let last = try await store.lastEvent()
            try demand(await store.events(EventQuery(after: last - 5)).count, is: 5)
            try demand(await store.events(EventQuery(after: 0, upload: id(50))).count, is: 2)
        }
        try await measure("list deliveries") {
            try demand(await store.deliveries(DeliveryQuery(limit: 10)).count, is: 10)
            try demand(await store.deliveries(DeliveryQuery(state: .dead, limit: 10)).count, is: 5)
        }
        try await measure("redeliver") { try demand(await store.redeliver(nil), is: 5) }
    }
}
