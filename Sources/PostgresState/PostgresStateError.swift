internal import UploadModel

/// Why the database cannot be used; names the database for the operator, but never contains its password.
package struct PostgresStateError: Error, Equatable, CustomStringConvertible {
    /// Host, port and database name.
    package let location: String
    package let reason: String
    /// Whether the database may be reachable later.
    package var isUnreachable = false

    package var description: String { "The database \(location) cannot be opened: \(reason)" }
}

/// An error of libpq or of the server.
struct DatabaseFailure: Error, CustomStringConvertible {
    /// The SQLSTATE, five characters (https://www.postgresql.org/docs/current/errcodes-appendix.html); `nil` for an
    /// error of libpq.
    var state: String?
    /// A single line without values of rows.
    var message: String
    /// Whether the connection is no longer usable.
    var isConnectionLost: Bool
    /// Whether nothing was changed, and the same call may succeed on a new connection.
    var isRepeatable = false
    /// What the call throws instead, if a statement demanded something that is not so.
    var refusal: UploadError?

    var description: String { state.map { "\($0): \(message)" } ?? message }

    /// Whether a statement demanded something that is not so; see `Connection.demand`.
    var isUnmet: Bool { state == Self.unmet }

    /// Whether the server rolled the transaction back because of a conflict with another one; a retry may succeed.
    var isConflict: Bool { state == "40001" || state == "40P01" || isUnmet && refusal == nil }

    /// The SQLSTATE of the function `sluice_demand`, of no class of PostgreSQL.
    static let unmet = "SLU01"
}

extension UploadError {
    static let leaseLost = UploadError(
        .interrupted,
        "Another server took over this upload; ask for the offset before sending more."
    )

    /// Maps a failure of the database to an error; the details appear only in the log.
    init(database error: any Error) {
        if let error = error as? UploadError {
            self = error
            return
        }
        guard let failure = error as? DatabaseFailure else {
            self.init(.storageFailure, "The database failed; try again later.", cause: error)
            return
        }
        if let refusal = failure.refusal {
            self = refusal
            return
        }
        switch failure.state {
        // Disk full.
        case "53100":
            self.init(.storageFull, "The storage has no room left; try again later.", cause: error)
        // An index entry must be smaller than 3 KB.
        case "54000":
            self.init(.invalidRequest, "A name is too long; use at most 2,000 bytes.", cause: error)
        // A lock or statement timed out; other transactions went first.
        case "55P03", "57014", "40001", "40P01", DatabaseFailure.unmet:
            self.init(.unavailable, "The database is in use; try again.", cause: error)
        // Read-only: a standby, or a former primary.
        case "25006":
            self.init(.unavailable, "The database cannot be changed now; try again later.", cause: error)
        case let state where failure.isConnectionLost || state?.hasPrefix("53") == true:
            self.init(.unavailable, "The database cannot be reached; try again later.", cause: error)
        default:
            self.init(.storageFailure, "The database failed; try again later.", cause: error)
        }
    }
}
