internal import GRDB
internal import UploadModel

/// Why the database cannot be opened; names the file, because it is for the operator.
package struct SQLiteStateError: Error, Equatable, CustomStringConvertible {
    package let path: String
    package let reason: String

    package var description: String { "The database \(path) cannot be opened: \(reason)" }
}

extension UploadError {
    /// What is left is kept for deletions; see `SpaceReserve`.
    static let noRoom = UploadError(.storageFull, fullText)

    private static let fullText = "The storage has no room left; try again later."

    /// Maps a failure of the database to an error; the details appear only in the log.
    init(database error: any Error) {
        if let error = error as? UploadError {
            self = error
            return
        }
        switch (error as? DatabaseError)?.resultCode {
        case .SQLITE_FULL: self.init(.storageFull, Self.fullText, cause: error)
        case .SQLITE_BUSY, .SQLITE_LOCKED:
            self.init(.unavailable, "The database is in use; try again.", cause: error)
        // Its files are there, so what cannot be opened is one more of too many.
        case .SQLITE_CANTOPEN:
            self.init(.unavailable, "The database cannot be opened now; try again.", cause: error)
        default:
            self.init(.storageFailure, "The database failed; try again later.", cause: error)
        }
    }
}
