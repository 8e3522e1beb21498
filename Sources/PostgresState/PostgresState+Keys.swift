package import Foundation
internal import StateRecords
package import UploadModel

extension PostgresState {
    private static let inserted = "id, name, scopes, created_at, expires_at, revoked_at, digest, is_preset, limits"
    private static let columns = inserted + ", previous_digest, previous_until, last_used_at"

    package func insert(_ key: APIKey) async throws(UploadError) {
        try await write { connection in
            let inserted = try connection.run(
                """
                INSERT INTO api_key (\(Self.inserted)) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
                ON CONFLICT DO NOTHING
                """,
                [
                    key.id, key.name, try JSONText(key.scopes.map(\.rawValue).sorted()), Milliseconds(key.createdAt),
                    key.expiresAt.map(Milliseconds.init), key.revokedAt.map(Milliseconds.init), key.digest,
                    key.isPreset, key.limits.isEmpty ? nil : try JSONText(key.limits),
                ]
            )
            guard inserted == 1 else {
                throw UploadError(.invalidRequest, "A key with this id or secret already exists.")
            }
        }
    }

    package func key(digest: [UInt8]) async throws(UploadError) -> APIKey? {
        try await read { connection in
            let row =
                try connection.row("SELECT \(Self.columns) FROM api_key WHERE digest = $1", [digest])
                ?? connection.row("SELECT \(Self.columns) FROM api_key WHERE previous_digest = $1", [digest])
            return try row.map(APIKey.init(row:))
        }
    }

    package func key(id: String) async throws(UploadError) -> APIKey? {
        try await read { connection in
            try connection.row("SELECT \(Self.columns) FROM api_key WHERE id = $1", [id]).map(APIKey.init(row:))
        }
    }

    package func keys() async throws(UploadError) -> [APIKey] {
        try await read { connection in
            try connection.rows("SELECT \(Self.columns) FROM api_key ORDER BY created_at, id").map(APIKey.init(row:))
        }
    }

    package func revokeKey(_ id: String, at now: Date) async throws(UploadError) -> Bool {
        try await write { connection in
            try connection.run(
                "UPDATE api_key SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL",
                [id, Milliseconds(now)]
            ) == 1
        }
    }

    package func rotateKey(
        _ id: String,
        to digest: [UInt8],
        overlapEnd: Date?,
        at now: Date
    ) async throws(UploadError) -> APIKey? {
        try await write { connection in
            try connection.row(
                """
                UPDATE api_key SET
                    previous_digest = CASE WHEN $2::bigint IS NULL THEN NULL ELSE digest END,
                    previous_until = $2::bigint, digest = $3
                WHERE id = $1 AND revoked_at IS NULL AND NOT is_preset AND (expires_at IS NULL OR expires_at > $4)
                RETURNING \(Self.columns)
                """,
                [id, overlapEnd.map(Milliseconds.init), digest, Milliseconds(now)]
            ).map(APIKey.init(row:))
        }
    }

    package func recordUses(_ uses: [String: Date]) async throws(UploadError) {
        try await write { connection in
            // In one order, so that two nodes never wait for each other.
            for (id, date) in uses.sorted(by: { $0.key < $1.key }) {
                _ = try connection.run(
                    "UPDATE api_key SET last_used_at = greatest(coalesce(last_used_at, 0), $2) WHERE id = $1",
                    [id, Milliseconds(date)]
                )
            }
        }
    }

    package func insert(_ revocation: Revocation) async throws(UploadError) {
        try await write { connection in
            try connection.run(
                """
                INSERT INTO revocation AS old (subject, issued_before, created_at) VALUES ($1, $2, $3)
                ON CONFLICT (subject) DO UPDATE SET
                    issued_before = greatest(old.issued_before, excluded.issued_before),
                    created_at = excluded.created_at
                """,
                [
                    revocation.subject ?? "", Milliseconds(revocation.issuedBefore),
                    Milliseconds(revocation.createdAt),
                ]
            )
        }
    }

    package func revoked(since date: Date) async throws(UploadError) -> Revocations {
        try await read { connection in
            Revocations(
                keys: try connection.rows("SELECT id FROM api_key WHERE revoked_at >= $1", [Milliseconds(date)])
                    .map { try $0.value("id", of: "api_key") },
                bulk: try connection.rows(
                    "SELECT subject, issued_before, created_at FROM revocation WHERE created_at >= $1",
                    [Milliseconds(date)]
                ).map(Revocation.init(row:))
            )
        }
    }
}
