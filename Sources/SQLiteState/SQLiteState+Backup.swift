internal import GRDB
package import UploadModel

/// For backups.
extension SQLiteState {
    /// Writes the state of one moment into a new file, while other processes change it.
    ///
    /// - Parameter path: A missing or empty file; not yet on stable storage when this returns.
    /// - Throws: `.storageFull`, `.storageFailure`.
    package func copy(to path: String) async throws(UploadError) {
        // VACUUM INTO is a read transaction on this file (https://www.sqlite.org/lang_vacuum.html).
        try await outside { try $0.execute(sql: "VACUUM INTO ?", arguments: [path]) }
    }

    /// Removes the records of parts whose bytes a backup could not get, so that their client sends them again.
    package func forgetParts(_ numbers: [Int], of id: UploadID) async throws(UploadError) {
        try await write { database in
            for number in numbers {
                try database.run("DELETE FROM object_part WHERE upload_id = ? AND number = ?", [id.text, number])
            }
        }
    }

    /// Removes from the locations of parts that they are lost with this boot: in a backup they are on stable storage.
    package func markPartsDurable() async throws(UploadError) {
        try await write { database in
            try database.run(
                """
                UPDATE object_part SET location = substr(location, 1, instr(location, '!') - 1)
                WHERE instr(location, '!') > 0
                """
            )
        }
    }
}
