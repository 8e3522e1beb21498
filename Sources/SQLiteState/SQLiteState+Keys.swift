package import Foundation
internal import GRDB
internal import StateRecords
package import UploadModel

extension SQLiteState {
    package func insert(_ key: APIKey) async throws(UploadError) {
        try await write { database in
            do {
                try database.run(
                    """
                    INSERT INTO api_key (id, name, scopes, created_at, expires_at, revoked_at, digest, is_preset,
                        limits)
                    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
                    """,
                    [
                        key.id, key.name, try JSONText(key.scopes.map(\.rawValue).sorted()),
                        Milliseconds(key.createdAt),
                        key.expiresAt.map(Milliseconds.init), key.revokedAt.map(Milliseconds.init), Data(key.digest),
                        key.isPreset, key.limits.isEmpty ? nil : try JSONText(key.limits),
                    ]
                )
            } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
                throw UploadError(.invalidRequest, "A key with this id or secret already exists.", cause: error)
            }
        }
    }

    package func key(digest: [UInt8]) async throws(UploadError) -> APIKey? {
        try await read { database in
            let row =
                try database.row("SELECT * FROM api_key WHERE digest = ?", [Data(digest)])
                ?? database.row("SELECT * FROM api_key WHERE previous_digest = ?", [Data(digest)])
            return try row.map(APIKey.init(row:))
        }
    }

    package func key(id: String) async throws(UploadError) -> APIKey? {
        try await read { database in
            try database.row("SELECT * FROM api_key WHERE id = ?", [id]).map(APIKey.init(row:))
        }
    }

    package func keys() async throws(UploadError) -> [APIKey] {
        try await read { database in
            try database.rows("SELECT * FROM api_key ORDER BY created_at, id").map(APIKey.init(row:))
        }
    }

    package func revokeKey(_ id: String, at now: Date) async throws(UploadError) -> Bool {
        try await write(.reserve) { database in
            try database.run(
                "UPDATE api_key SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL",
                [Milliseconds(now), id]
            )
            return database.changesCount == 1
        }
    }

    package func rotateKey(
        _ id: String,
        to digest: [UInt8],
        overlapEnd: Date?,
        at now: Date
    ) async throws(UploadError) -> APIKey? {
        try await write { database in
            let end = overlapEnd.map(Milliseconds.init)
            try database.run(
                """
                UPDATE api_key SET previous_digest = iif(? IS NULL, NULL, digest), previous_until = ?, digest = ?
                WHERE id = ? AND revoked_at IS NULL AND NOT is_preset AND (expires_at IS NULL OR expires_at > ?)
                """,
                [end, end, Data(digest), id, Milliseconds(now)]
            )
            guard database.changesCount == 1 else { return nil }
            return try database.row("SELECT * FROM api_key WHERE id = ?", [id]).map(APIKey.init(row:))
        }
    }

    package func recordUses(_ uses: [String: Date]) async throws(UploadError) {
        try await write { database in
            for (id, date) in uses {
                try database.run(
                    "UPDATE api_key SET last_used_at = max(coalesce(last_used_at, 0), ?) WHERE id = ?",
                    [Milliseconds(date), id]
                )
            }
        }
    }

    package func insert(_ revocation: Revocation) async throws(UploadError) {
        try await write(.reserve) { database in
            try database.run(
                """
                INSERT INTO revocation (subject, issued_before, created_at) VALUES (?, ?, ?)
                ON CONFLICT (subject) DO UPDATE SET
                    issued_before = max(issued_before, excluded.issued_before), created_at = excluded.created_at
                """,
                [
                    revocation.subject ?? "", Milliseconds(revocation.issuedBefore),
                    Milliseconds(revocation.createdAt),
                ]
            )
        }
    }

    package func revoked(since date: Date) async throws(UploadError) -> Revocations {
        try await readTogether { database in
            Revocations(
                keys: try database.rows("SELECT id FROM api_key WHERE revoked_at >= ?", [Milliseconds(date)])
                    .map { try $0.value("id", of: "api_key") },
                bulk: try database.rows("SELECT * FROM revocation WHERE created_at >= ?", [Milliseconds(date)])
                    .map(Revocation.init(row:))
            )
        }
    }
}
