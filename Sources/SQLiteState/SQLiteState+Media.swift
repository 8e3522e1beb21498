internal import GRDB
internal import StateRecords
package import UploadModel

extension SQLiteState {
    package func media(_ id: UploadID) async throws(UploadError) -> Media? {
        try await read { database in
            try database.row("SELECT * FROM media WHERE id = ?", [id.text]).map(Media.init(row:))
        }
    }

    package func setDigests(of id: UploadID, to digests: DigestValues) async throws(UploadError) {
        try await write { database in
            try database.run("UPDATE media SET digests = ? WHERE id = ?", [JSONText(digests), id.text])
        }
    }
}
