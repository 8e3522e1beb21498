internal import GRDB
internal import StateRecords
package import UploadModel

extension SQLiteState: StoreMarks {
    package func storeMark() async throws(UploadError) -> StoreMark? {
        try await read { try $0.storeMark() }
    }

    package func ensureStoreMark(_ mark: StoreMark) async throws(UploadError) -> StoreMark {
        try await writeDurably { database in
            try database.run(
                "INSERT INTO store (number, id, epoch, is_sweep_approved) VALUES (1, ?, ?, 0) ON CONFLICT DO NOTHING",
                [mark.id, mark.epoch]
            )
            return try database.storeMark() ?? mark
        }
    }

    package func advanceStoreMark() async throws(UploadError) -> StoreMark {
        try await writeDurably { database in
            try database.run("UPDATE store SET epoch = epoch + 1")
            guard let mark = try database.storeMark() else {
                throw UploadError(.storageFailure, "The state has no mark of its storage.")
            }
            return mark
        }
    }

    package func replaceStoreMark(_ mark: StoreMark) async throws(UploadError) {
        try await writeDurably { database in
            try database.run(
                """
                INSERT INTO store (number, id, epoch, is_sweep_approved) VALUES (1, ?, ?, 1)
                ON CONFLICT (number) DO UPDATE SET id = excluded.id, epoch = excluded.epoch, is_sweep_approved = 1
                """,
                [mark.id, mark.epoch]
            )
        }
    }

    package func takeSweepApproval() async throws(UploadError) -> Bool {
        try await writeDurably { database in
            try database.run("UPDATE store SET is_sweep_approved = 0 WHERE is_sweep_approved")
            return database.changesCount == 1
        }
    }
}

extension Database {
    fileprivate func storeMark() throws -> StoreMark? {
        try row("SELECT id, epoch FROM store").map { row in
            StoreMark(id: try row.value("id", of: "store"), epoch: try row.value("epoch", of: "store"))
        }
    }
}
