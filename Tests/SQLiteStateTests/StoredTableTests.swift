import Foundation
import GRDB
import SluiceTesting
import StateRecords
import SystemIO
import Testing
import UploadModel

@testable import SQLiteState

@Suite("Tables of the state, as they are copied", .timeLimit(.minutes(10)))
struct StoredTableTests {
    /// Otherwise a migration would omit what a later version has added.
    @Test("all tables of the database are listed, with all columns and the same keys")
    func complete() throws {
        let directory = try TemporaryDirectory()
        let path = directory.path("state.sqlite")
        try SQLiteState(path: path, pool: BlockingPool(threads: 1, label: "test-state")).close()
        let database = try DatabaseQueue(path: path)
        let names = try database.read { database in
            try String.fetchSet(
                database,
                sql: "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT GLOB 'sqlite_*'"
            )
        }
        #expect(names == Set(StoredTable.all.map(\.name) + ["grdb_migrations", "event_recording"]))
        for table in StoredTable.all {
            let columns = try database.read { try $0.columns(in: table.name) }
            let key = try database.read { try $0.primaryKey(table.name).columns }
            #expect(Set(columns.map(\.name)) == Set(table.columns.map(\.name)), "\(table.name)")
            #expect(key == table.keyColumns.map(\.name), "\(table.name)")
            for column in columns {
                let kind = try #require(table.columns.first { $0.name == column.name }).kind
                switch kind {
                case .text: #expect(column.type == "TEXT", "\(table.name).\(column.name)")
                case .bytes: #expect(column.type == "BLOB", "\(table.name).\(column.name)")
                case .integer, .flag: #expect(column.type == "INTEGER", "\(table.name).\(column.name)")
                }
            }
        }
    }

    @Test("tables come after those that they refer to")
    func order() throws {
        let directory = try TemporaryDirectory()
        let path = directory.path("state.sqlite")
        try SQLiteState(path: path, pool: BlockingPool(threads: 1, label: "test-state")).close()
        let database = try DatabaseQueue(path: path)
        var seen: Set<String> = []
        for table in StoredTable.all {
            let keys = try database.read { try $0.foreignKeys(on: table.name) }
            for key in keys { #expect(seen.contains(key.destinationTable), "\(table.name)") }
            seen.insert(table.name)
        }
    }

    @Test("pages contain every row once, ordered by keys of one column and of two")
    func pages() async throws {
        let directory = try TemporaryDirectory()
        let state = try SQLiteState(
            path: directory.path("state.sqlite"),
            pool: BlockingPool(threads: 1, label: "test-state")
        )
        defer { state.close() }
        for number in 0..<7 {
            let kind: Account.Kind = number % 2 == 0 ? .subject : .key
            try await state.setPolicy(nil, of: Account(kind, "n\(number)"), at: .init(timeIntervalSince1970: 1))
        }
        let table = try #require(StoredTable.all.first { $0.name == "account" })
        let whole = try await state.rows(of: table, after: nil, limit: 100)
        #expect(whole.count == 7)
        for limit in 1...8 {
            var rows: [[StoredField]] = []
            var last: [StoredField]?
            while true {
                let page = try await state.rows(of: table, after: last, limit: limit)
                guard let end = page.last else { break }
                rows += page
                last = table.key(of: end)
            }
            #expect(rows == whole)
        }
    }

    @Test("the checksum of rows depends on every value, but not on their order")
    func digest() {
        func digest(_ rows: [[StoredField]]) -> RowsDigest {
            var digest = RowsDigest()
            for row in rows { digest.add(row) }
            return digest
        }
        let first: [StoredField] = [.text("a"), .null, .integer(1), .flag(true), .bytes([1, 2])]
        let second: [StoredField] = [.text("b"), .text(""), .integer(-1), .flag(false), .bytes([])]
        let all = digest([first, second])
        #expect(digest([second, first]) == all)
        #expect(digest([first]) != all)
        #expect(digest([first, first]) != all)
        for index in first.indices {
            for other in [StoredField.null, .text("x"), .integer(2), .flag(false), .bytes([1])]
            where other != first[index] {
                var row = first
                row[index] = other
                #expect(digest([row, second]) != all)
            }
        }
        // The content of one column cannot be mistaken for that of another.
        #expect(digest([[.text("1:a"), .text("")]]) != digest([[.text("1:"), .text("a")]]))
        #expect(digest([[.text("ab"), .text("c")]]) != digest([[.text("a"), .text("bc")]]))
    }
}
