import Foundation
import GRDB
import SluiceTesting
import StateRecords
import SystemIO
import Testing
import Transport
import UploadModel

@testable import SQLiteState

@Suite("Objects in SQLite state", .timeLimit(.minutes(10)))
struct ObjectTests {
    private let start = Date(timeIntervalSince1970: 1_750_000_000)

    private func open(_ path: String) throws -> SQLiteState {
        try SQLiteState(path: path, pool: BlockingPool(threads: 2, label: "test-state"))
    }

    private func upload(_ seconds: TimeInterval = 0) -> Upload {
        let created = start.addingTimeInterval(seconds)
        return Upload(
            id: UploadID.generate(at: created),
            key: "k",
            bucket: "b",
            takesParts: true,
            dialect: "objects",
            subject: "alice",
            principal: "key_1",
            length: 5,
            createdAt: created
        )
    }

    private let part = PartRecord(
        number: 1,
        size: 5,
        md5: [UInt8](repeating: 1, count: 16),
        crc64: 7,
        location: "l",
        storedAt: Date(timeIntervalSince1970: 5)
    )

    @Test("pages of objects and of uploads in parts read ranges of an index, without sorting")
    func plans() async throws {
        let directory = try TemporaryDirectory()
        let state = try open(directory.path("state.sqlite"))
        func expect(_ sql: String, _ arguments: SQLiteArguments, _ way: String) async throws {
            let steps = try await state.read { database in
                try Row.fetchAll(database, sql: "EXPLAIN QUERY PLAN " + sql, arguments: arguments.bound)
                    .map { $0["detail"] as String }
            }
            #expect(steps == ["SEARCH " + way], "\(sql)")
        }
        for (prefix, after, range) in [
            ("", nil, "object_key>?"), ("", "x", "object_key>?"), ("a", nil, "object_key>? AND object_key<?"),
            ("a", "ab", "object_key>? AND object_key<?"), ("\u{10FFFF}", nil, "object_key>?"),
        ] as [(String, String?, String)] {
            let objects = SQLiteState.statement(of: ObjectQuery(bucket: "b", prefix: prefix, after: after, limit: 5))
            try await expect(
                objects.sql,
                objects.arguments,
                "media USING INDEX media_by_name (bucket=? AND \(range))"
            )
            for id in [nil, UploadID.generate(at: start)] {
                let uploads = SQLiteState.statement(
                    of: PartUploadQuery(bucket: "b", prefix: prefix, after: after, afterID: id, limit: 5)
                )
                let isPair = id != nil && after != nil
                let pair = range.replacing("object_key>?", with: isPair ? "(object_key,id)>(?,?)" : "object_key>?")
                try await expect(
                    uploads.sql,
                    uploads.arguments,
                    "upload USING INDEX upload_open_by_name (bucket=? AND takes_parts=? AND \(pair))"
                )
            }
        }
        for (sql, arguments) in Database.uses(ofBucket: "b") {
            let way =
                sql.contains("media")
                ? "media USING COVERING INDEX media_by_name" : "upload USING INDEX upload_open_by_name"
            try await expect(sql, arguments, way + " (bucket=?)")
        }
    }

    @Test("records of the previous version read as before, and can be changed beside objects")
    func versionBefore() async throws {
        let directory = try TemporaryDirectory()
        let path = directory.path("state.sqlite")
        let old = try DatabaseQueue(path: path)
        try DatabaseFile.migrator.migrate(old, upTo: "0007 blobs in an object store")
        // Two with the same key, for which no condition was set.
        let ids = (0..<3).map { UploadID.generate(at: start.addingTimeInterval(TimeInterval($0))) }
        try await old.write { [ids] database in
            for (index, id) in ids.enumerated() {
                let isOpen = index == 2
                try database.execute(
                    sql: """
                        INSERT INTO upload (id, dialect, subject, principal, length, state, metadata, created_at, updated_at,
                            ended_at, object_key, reserved_bytes)
                        VALUES (?, 'tus', 'alice', 'key_1', 5, ?, '{}', 0, 0, ?, 'k', 0)
                        """,
                    arguments: [id.text, isOpen ? "open" : "completed", isOpen ? nil : 0]
                )
                if isOpen { continue }
                try database.execute(
                    sql: """
                        INSERT INTO media (id, subject, size, metadata, created_at, object_key)
                        VALUES (?, 'alice', 5, '{}', 0, 'k')
                        """,
                    arguments: [id.text]
                )
            }
            try database.execute(
                sql: """
                    INSERT INTO account (kind, name, stored_bytes, open_uploads, period_start)
                        VALUES ('subject', 'alice', 10, 1, 0);
                    INSERT INTO event (id, kind, upload_id, subject, occurred_at, content) VALUES ('e', 'created', '\(ids[2].text)',
                        'alice', 0,
                        '{"createdAt":0,"dialect":"tus","key":"k","metadata":{},"offset":0,"principal":"key_1","state":"open",'
                        || '"updatedAt":0}');
                    """
            )
        }
        try old.close()

        let state = try open(path)
        for id in ids {
            let found = try #require(try await state.upload(id))
            #expect(found.key == "k" && found.bucket == nil && found.attributes == nil && !found.takesParts)
        }
        for id in ids.prefix(2) {
            let media = try #require(try await state.media(id))
            #expect(media.key == "k" && media.bucket == nil && media.attributes == nil)
        }
        let eventUpload = try #require(try await state.events(EventQuery(after: 0)).first).upload
        #expect(
            eventUpload.id == ids[2] && eventUpload.key == "k" && eventUpload.bucket == nil
                && eventUpload.attributes == nil
                && !eventUpload.takesParts
        )
        #expect(try await state.insert(BucketRecord(name: "b", createdAt: start)))
        #expect(try await state.objects(ObjectQuery(bucket: "b", limit: 5)) == [])
        for (number, replaced) in [(0, false), (1, true)] {
            let upload = upload(TimeInterval(10 + number))
            let before = try await state.object(ObjectName(bucket: "b", key: "k"))?.id
            #expect((before != nil) == replaced)
            try await state.insert(upload, consuming: nil)
            #expect(try await state.putPart(part, of: upload.id) == nil)
            var done = upload
            done.state = .completed
            done.offset = 5
            done.endedAt = start
            #expect(try await state.complete(done, as: Media(of: done), replacing: before))
        }
        var done = try #require(try await state.upload(ids[2]))
        done.state = .completed
        done.offset = 5
        done.endedAt = start
        #expect(try await state.complete(done, as: Media(of: done)))
        #expect(try await state.accounts([Account(.subject, "alice")]).values.first?.usage.storedBytes == 20)
    }

    @Test("uploads that are not objects are stored in events as before")
    func plainEvent() throws {
        var upload = upload()
        upload.bucket = nil
        upload.takesParts = false
        let text = try StoredEvent.json(.sample(.created, of: upload)).text
        for name in ["bucket", "attributes", "takesParts"] { #expect(!text.contains("\"\(name)\""), "\(text)") }
    }

    @Test(
        "an unreadable object is an error, not a crash",
        arguments: [
            "attributes = 'no json'", "attributes = '{}'", "attributes = '{\"headers\":{},\"tags\":{},\"crc64\":-1}'",
        ]
    )
    func unreadableAttributes(_ change: String) async throws {
        let directory = try TemporaryDirectory()
        let state = try open(directory.path("state.sqlite"))
        let upload = upload()
        _ = try await state.insert(BucketRecord(name: "b", createdAt: start))
        try await state.insert(upload, consuming: nil)
        try await state.write { try $0.execute(sql: "UPDATE upload SET \(change)") }
        let error = await #expect(throws: UploadError.self) { _ = try await state.upload(upload.id) }
        #expect(error?.code == .storageFailure)
    }

    @Test("the database refuses an upload with a bucket but no key, and nothing is left")
    func noKey() async throws {
        let directory = try TemporaryDirectory()
        let state = try open(directory.path("state.sqlite"))
        _ = try await state.insert(BucketRecord(name: "b", createdAt: start))
        var upload = upload()
        upload.key = nil
        let nameless = upload
        let error = await #expect(throws: UploadError.self) { try await state.insert(nameless, consuming: nil) }
        #expect(error?.code == .storageFailure)
        #expect(try await state.uploads(UploadQuery()) == [])
    }
}
