import Foundation
import SluiceTesting
import StateRecords
import Testing
import UploadModel

@testable import PostgresState

@Suite(
    "Import into PostgreSQL",
    .enabled(if: PostgresServer.isAvailable, "\(PostgresServer.missing)"),
    .timeLimit(.minutes(10))
)
struct ImportTests {
    /// Rows with values that are hard to encode.
    private func rows(of table: StoredTable, _ count: Int) -> [[StoredField]] {
        (0..<count).map { number in
            [.text("id \(number)"), .text(#"{"a\"b\\c,d}"# + "\u{0} \u{FFFF} ä NULL"), .integer(Int64(number))]
        }
    }

    private func table(_ name: String) throws -> StoredTable {
        try #require(StoredTable.all.first { $0.name == name })
    }

    private func begin(_ state: PostgresState, _ source: String = "one", anew: Bool = false) async throws
        -> ImportProgress
    {
        guard case .open(let progress) = try await state.beginImport(from: source, anew: anew) else {
            throw UnexpectedStart()
        }
        return progress
    }

    private struct UnexpectedStart: Error {}

    @Test("the database has all copied columns, and defaults for the others")
    func columns() async throws {
        let database = try Database()
        try await database.open().close()
        let connection = try database.connection()
        for table in StoredTable.all {
            let found = try connection.rows(
                """
                SELECT column_name AS name, data_type AS type, is_nullable = 'YES' OR column_default IS NOT NULL AS is_free
                FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = $1
                """,
                [table.name]
            )
            let types = Dictionary(uniqueKeysWithValues: found.map { ($0.text("name") ?? "", $0.text("type")) })
            for column in table.columns {
                let type =
                    switch column.kind {
                    case .text: "text"
                    case .integer: "bigint"
                    case .flag: "boolean"
                    case .bytes: "bytea"
                    }
                #expect(types[column.name] == type, "\(table.name).\(column.name)")
            }
            for row in found where !table.columns.contains(where: { $0.name == row.text("name") }) {
                #expect(row.flag("is_free") == true, "\(table.name).\(row.text("name") ?? "")")
            }
        }
    }

    @Test("rows arrive unchanged, together with the progress")
    func arrive() async throws {
        let database = try Database()
        let state = try await PostgresState.openForImport(database.settings())
        defer { state.close() }
        let grants = try table("used_grant")
        let keys = try table("api_key")
        let all = rows(of: grants, 7)
        let key: [StoredField] = [
            .text("k"), .text("name"), .text("[]"), .integer(1), .null, .integer(3), .bytes([0, 255, 92]), .flag(true),
            .text(#"{"subjects":["a"]}"#), .bytes([0, 1, 255]), .integer(4), .integer(5),
        ]
        var progress = try await begin(state)
        #expect(progress.table(grants) == nil)
        progress = try await state.importRows(Array(all.prefix(3)), into: grants, after: progress)
        #expect(try await begin(state) == progress)
        progress = try await state.importRows(Array(all.dropFirst(3)), into: grants, after: progress)
        progress = try await state.importRows([key], into: keys, after: progress)
        #expect(progress.table(grants)?.count == 7)
        #expect(progress.table(grants)?.last == [.text("id 6")])
        #expect(try await begin(state) == progress)
        #expect(try await state.rows(of: grants, after: nil, limit: 100) == all)
        #expect(try await state.rows(of: grants, after: [.text("id 2")], limit: 2) == Array(all[3..<5]))
        #expect(try await state.rows(of: keys, after: nil, limit: 1) == [key])
    }

    @Test("objects, parts and buckets arrive unchanged")
    func objects() async throws {
        let database = try Database()
        let id = UploadID.generate(at: Date(timeIntervalSince1970: 1))
        let attributes = #"{"headers":{"a":"b"},"tags":{}}"#
        let upload: [String: StoredField] = [
            "id": .text(id.text), "object_key": .text("e\u{301}"), "dialect": .text("d"), "principal": .text("p"),
            "reserved_bytes": .integer(0), "completes_when_full": .flag(true), "state": .text("open"),
            "metadata": .text("{}"), "created_at": .integer(1), "updated_at": .integer(1), "bucket": .text("b"),
            "attributes": .text(attributes), "takes_parts": .flag(true),
        ]
        let part: [String: StoredField] = [
            "upload_id": .text(id.text), "number": .integer(10_000), "size": .integer(5), "md5": .bytes([0, 255]),
            "crc64": .integer(-1), "location": .text("l"), "stored_at": .integer(2),
        ]
        let bucket: [String: StoredField] = [
            "name": .text("b"), "created_at": .integer(3), "documents": .text(#"{"cors":"x"}"#),
        ]
        let copying = try await PostgresState.openForImport(database.settings())
        defer { copying.close() }
        var progress = try await begin(copying)
        for (name, row) in [("upload", upload), ("object_part", part), ("bucket", bucket)] {
            let table = try table(name)
            #expect(Set(row.keys).isSubset(of: table.columns.map(\.name)))
            let fields = table.columns.map { row[$0.name] ?? .null }
            progress = try await copying.importRows([fields], into: table, after: progress)
            #expect(try await copying.rows(of: table, after: nil, limit: 9) == [fields])
        }
        try await copying.finishImport(events: EventHistory(lastEvent: 0))
        let state = try await database.open()
        defer { state.close() }
        let expected = PartRecord(
            number: 10_000,
            size: 5,
            md5: [0, 255],
            crc64: .max,
            location: "l",
            storedAt: Date(timeIntervalSince1970: 0.002)
        )
        #expect(try await state.objectPart(10_000, of: id) == expected)
        let found = try await state.partUploads(PartUploadQuery(bucket: "b", prefix: "e\u{301}", limit: 9))
        #expect(found.map(\.id) == [id])
        #expect(found.first?.attributes == ObjectAttributes(headers: ["a": "b"]))
        #expect(try await state.bucket("b")?.documents == ["cors": "x"])
        #expect(try await state.removeBucket("b") == false)
    }

    @Test("if two processes continue a copy, the second one changes nothing")
    func two() async throws {
        let database = try Database()
        let state = try await PostgresState.openForImport(database.settings())
        defer { state.close() }
        let grants = try table("used_grant")
        let all = rows(of: grants, 4)
        let progress = try await begin(state)
        _ = try await state.importRows(Array(all.prefix(2)), into: grants, after: progress)
        let error = await #expect(throws: UploadError.self) {
            _ = try await state.importRows(Array(all.suffix(2)), into: grants, after: progress)
        }
        #expect(error?.code == .busy)
        #expect(try await state.rows(of: grants, after: nil, limit: 100) == Array(all.prefix(2)))
    }

    @Test("gateways can open the database after the copy, and sequence numbers of events continue")
    func finish() async throws {
        let database = try Database()
        let state = try await PostgresState.openForImport(database.settings())
        defer { state.close() }
        _ = try await begin(state)
        let error = await #expect(throws: PostgresStateError.self) { _ = try await database.open() }
        #expect(error?.description.contains("not finished") == true)
        #expect(error?.isUnreachable == false)
        let now = Date()
        let history = EventHistory(lastEvent: 41, completeAfter: 40, keptUntil: now.addingTimeInterval(3600))
        try await state.finishImport(events: history)
        let node = try await database.open()
        defer { node.close() }
        // Events were kept, and are still: a client that returns has missed none.
        try await node.keepEvents(until: now.addingTimeInterval(7200), at: now)
        #expect(try await node.lastEvent() == 41)
        #expect(try await node.eventsKeptSince() == 40)
        #expect(try await state.hasNodes())
        guard case .finished = try await state.beginImport(from: "one", anew: true) else {
            Issue.record("a finished copy was begun again")
            return
        }
    }

    @Test("another source and a database in use are reported and left unchanged")
    func refusals() async throws {
        let database = try Database()
        let state = try await PostgresState.openForImport(database.settings())
        defer { state.close() }
        let grants = try table("used_grant")
        let progress = try await state.importRows(rows(of: grants, 1), into: grants, after: try await begin(state))
        guard case .otherSource = try await state.beginImport(from: "two", anew: true) else {
            Issue.record("it was taken for another's")
            return
        }
        #expect(try await begin(state) == progress)
        #expect(try await begin(state, anew: true) != progress)
        #expect(try await state.rows(of: grants, after: nil, limit: 1) == [])

        let used = try Database()
        let node = try await used.open()
        defer { node.close() }
        let key = APIKey(id: "k", name: "k", scopes: [], createdAt: Date(timeIntervalSince1970: 1), digest: [1])
        try await node.insert(key)
        guard case .inUse(table: "api_key") = try await node.beginImport(from: "one", anew: true) else {
            Issue.record("it was taken for empty")
            return
        }
        #expect(try await node.keys().count == 1)
        #expect(try used.connection().hasTable("state_import") == false)
    }
}
