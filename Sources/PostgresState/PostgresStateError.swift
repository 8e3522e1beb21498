internal import UploadCore

/// Why the database can not be used; for the operator, so it says which one, but never its password.
package struct PostgresStateError: Error, Equatable, CustomStringConvertible {
    /// Host, port and name.
    package let location: String
    package let reason: String
    /// It may be there later.
    package var isUnreachable = false

    package var description: String { "The database \(location) can not be opened: \(reason)" }
}

/// What libpq or the server said.
struct DatabaseFailure: Error, CustomStringConvertible {
    /// Five characters (https://www.postgresql.org/docs/current/errcodes-appendix.html); `nil` if libpq failed by itself.
    var state: String?
    /// In one line, without values of rows.
    var message: String
    /// The connection is of no use any more.
    var isConnectionLost: Bool
    /// Nothing was changed, and the same call may go well on a new connection.
    var isRepeatable = false

    var description: String { state.map { "\($0): \(message)" } ?? message }

    /// The server took the transaction back for the sake of others; again it may go well.
    var isConflict: Bool { state == "40001" || state == "40P01" }
}

extension UploadError {
    static let leaseLost = UploadError(
        .interrupted,
        "Another server took over this upload; ask for the offset before sending more."
    )

    /// What a failure of the database means; the details go into the log only.
    init(database error: any Error) {
        if let error = error as? UploadError {
            self = error
            return
        }
        guard let failure = error as? DatabaseFailure else {
            self.init(.storageFailure, "The database failed; try again later.", cause: error)
            return
        }
        switch failure.state {
        // Disk full.
        case "53100":
            self.init(.storageFull, "The storage has no room left; try again later.", cause: error)
        // An index holds less than 3 KB.
        case "54000":
            self.init(.invalidRequest, "A name is too long; use at most 2,000 bytes.", cause: error)
        // Lock or statement took too long; others went first.
        case "55P03", "57014", "40001", "40P01":
            self.init(.unavailable, "The database is in use; try again.", cause: error)
        // Read-only: a standby, or an old primary.
        case "25006":
            self.init(.unavailable, "The database can not be changed now; try again later.", cause: error)
        case let state where failure.isConnectionLost || state?.hasPrefix("53") == true:
            self.init(.unavailable, "The database can not be reached; try again later.", cause: error)
        default:
            self.init(.storageFailure, "The database failed; try again later.", cause: error)
        }
    }
}
