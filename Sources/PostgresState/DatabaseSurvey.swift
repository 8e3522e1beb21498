package import Foundation
package import StateRecords
internal import SystemIO
internal import UploadModel

/// What a database says about itself; nothing in it is changed.
package struct DatabaseSurvey: Sendable {
    /// Host, port and database name.
    package let location: String
    /// Such as `15.4`.
    package let version: String
    /// Whether Sluice runs on this version.
    package let isNewEnough: Bool
    /// Whether it refuses changes, as a standby does.
    package let isReadOnly: Bool
    /// The server's time, in the middle of the question.
    package let time: Date
    /// Seconds by which the server's clock is ahead of this machine's.
    package let ahead: TimeInterval
    package let schema: SchemaAge
    /// Whether a migration into it has begun and not ended.
    package let isAmidImport: Bool
    /// Connections that the server allows, and that one node may use.
    package let maximumConnections: Int64
    /// Whether the user may create tables.
    package let canCreate: Bool

    /// The oldest version, as `server_version_num`.
    package static let oldestVersion: Int64 = 120_000

    /// - Throws: An error if the database cannot be reached or read.
    package init(of settings: PostgresSettings) async throws(PostgresStateError) {
        let target = try Target(settings)
        let threads = BlockingPool(threads: 1, label: "sluice.postgres")
        let result = await threads.run { () -> Result<DatabaseSurvey, DatabaseFailure> in
            do throws(DatabaseFailure) {
                return .success(try DatabaseSurvey(try Connection(to: target)))
            } catch {
                return .failure(error)
            }
        }
        switch result {
        case .success(let survey): self = survey
        case .failure(let failure):
            throw PostgresStateError(
                location: target.location,
                reason: failure.message,
                isUnreachable: failure.isConnectionLost
            )
        }
    }

    private init(_ connection: Connection) throws(DatabaseFailure) {
        let begin = Date()
        let row = try connection.row(
            """
            SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS time,
                current_setting('server_version_num')::bigint AS number,
                current_setting('server_version') AS version,
                current_setting('transaction_read_only') = 'on' AS is_read_only,
                current_setting('max_connections')::bigint AS connections,
                coalesce(has_schema_privilege(current_schema(), 'CREATE'), false) AS can_create
            """
        )
        let end = Date()
        location = connection.target.location
        version = row?.text("version") ?? "?"
        isNewEnough = row?.integer("number") ?? 0 >= Self.oldestVersion
        isReadOnly = row?.flag("is_read_only") == true
        maximumConnections = row?.integer("connections") ?? 0
        canCreate = row?.flag("can_create") == true
        time = Date(timeIntervalSince1970: Double(row?.integer("time") ?? 0) / 1000)
        ahead = time.timeIntervalSince(begin.addingTimeInterval(end.timeIntervalSince(begin) / 2))
        schema = try Schema.age(connection)
        isAmidImport = try connection.isAmidImport()
    }
}
