internal import StateRecords
package import UploadModel

extension PostgresState {
    package func media(_ id: UploadID) async throws(UploadError) -> Media? {
        try await read { connection in
            try connection.row("SELECT \(Connection.mediaColumns) FROM media WHERE id = $1", [id.text])
                .map(Media.init(row:))
        }
    }

    package func setDigests(of id: UploadID, to digests: DigestValues) async throws(UploadError) {
        try await write { connection in
            _ = connection.send("UPDATE media SET digests = $2 WHERE id = $1", [id.text, JSONText(digests)])
        }
    }
}
