internal import StateRecords
package import UploadModel

extension PostgresState: StoreMarks {
    package func storeMark() async throws(UploadError) -> StoreMark? {
        try await read { try $0.storeMark("SELECT id, epoch FROM store") }
    }

    package func ensureStoreMark(_ mark: StoreMark) async throws(UploadError) -> StoreMark {
        try await write { connection in
            try connection.waitForDisk()
            try connection.run(
                "INSERT INTO store (number, id, epoch, is_sweep_approved) VALUES (1, $1, $2, false) ON CONFLICT DO NOTHING",
                [mark.id, mark.epoch]
            )
            return try connection.storeMark("SELECT id, epoch FROM store") ?? mark
        }
    }

    package func advanceStoreMark() async throws(UploadError) -> StoreMark {
        try await write { connection in
            try connection.waitForDisk()
            guard let mark = try connection.storeMark("UPDATE store SET epoch = epoch + 1 RETURNING id, epoch") else {
                throw UploadError(.storageFailure, "The state has no mark of its storage.")
            }
            return mark
        }
    }

    package func replaceStoreMark(_ mark: StoreMark) async throws(UploadError) {
        try await write { connection in
            try connection.waitForDisk()
            try connection.run(
                """
                INSERT INTO store (number, id, epoch, is_sweep_approved) VALUES (1, $1, $2, true)
                ON CONFLICT (number) DO UPDATE SET id = excluded.id, epoch = excluded.epoch, is_sweep_approved = true
                """,
                [mark.id, mark.epoch]
            )
        }
    }

    package func takeSweepApproval() async throws(UploadError) -> Bool {
        try await write { connection in
            try connection.run("UPDATE store SET is_sweep_approved = false WHERE is_sweep_approved") == 1
        }
    }
}

extension Connection {
    fileprivate func storeMark(_ statement: String) throws -> StoreMark? {
        guard let row = try row(statement) else { return nil }
        guard let id = row.text("id"), let epoch = row.integer("epoch") else {
            throw UploadError(.storageFailure, "The mark of the storage cannot be read.")
        }
        return StoreMark(id: id, epoch: epoch)
    }

    /// Makes the commit wait until this transaction and all before it are on disk, whatever the settings.
    fileprivate func waitForDisk() throws { try execute("SET LOCAL synchronous_commit = on") }
}
